package pool

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"hermes/backends"
)

// counters only grow.
type counters struct {
	leases, created, failed, removed, evicted int64
	lost, broken, resets, dirty, quarantined  int64
	unremoved, swept, adopted, tripped        int64
	waited, making                            time.Duration
}

// tell counts.
func (p *Pool) tell(f func(*counters)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.count)
}

// Status is a pool at one moment.
type Status struct {
	Max         int           `json:"max"`
	Used        int           `json:"used"` // places: leased, idle, being made, being removed, stuck
	Leased      int           `json:"leased"`
	Idle        int           `json:"idle"`
	Creating    int           `json:"creating"`
	Waiting     int           `json:"waiting"`
	Memory      int64         `json:"memory"`
	Leases      int64         `json:"leases"` // from here on: since the start
	Created     int64         `json:"created"`
	Failed      int64         `json:"failed"`
	Removed     int64         `json:"removed"`
	Evicted     int64         `json:"evicted"`
	Lost        int64         `json:"lost"`   // boxes that went without their commands' doing
	Broken      int64         `json:"broken"` // boxes that their commands broke
	Resets      int64         `json:"resets"`
	Dirty       int64         `json:"dirty"`       // boxes that were not clean after their reset
	Quarantined int64         `json:"quarantined"` // idle boxes that did not answer
	Unremoved   int64         `json:"unremoved"`   // tries to remove a box that failed
	Stuck       int           `json:"stuck"`       // boxes that could not be removed so far; they keep their places
	Swept       int64         `json:"swept"`
	Adopted     int64         `json:"adopted"`
	Tripped     int64         `json:"tripped"`   // times that a breaker opened
	Waited      time.Duration `json:"waited_ns"` // sum over leases
	Making      time.Duration `json:"making_ns"` // sum over boxes made
	Kinds       []KindStatus  `json:"kinds"`
}

// KindStatus are the boxes of one key.
type KindStatus struct {
	Key      string `json:"key"`
	Image    string `json:"image,omitempty"`
	Idle     int    `json:"idle"`
	Creating int    `json:"creating"`
	Failures int    `json:"failures"` // in a row
	Open     bool   `json:"breaker_open"`
}

// Status tells how the pool is.
func (p *Pool) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.count
	s := Status{Max: p.opt.Max, Used: p.used, Leased: len(p.leased), Waiting: p.queue.len(), Memory: p.memory, Leases: c.leases,
		Created: c.created, Failed: c.failed, Removed: c.removed, Evicted: c.evicted, Lost: c.lost, Broken: c.broken, Resets: c.resets,
		Dirty: c.dirty, Quarantined: c.quarantined, Unremoved: c.unremoved, Stuck: len(p.stuck), Swept: c.swept, Adopted: c.adopted,
		Tripped: c.tripped, Waited: c.waited, Making: c.making}
	for _, k := range p.kinds {
		s.Idle += len(k.idle)
		s.Creating += k.creating
		s.Kinds = append(s.Kinds, KindStatus{k.key, k.spec.Image, len(k.idle), k.creating, k.fails, k.fails >= p.opt.Breaker && time.Now().Before(k.later)})
	}
	slices.SortFunc(s.Kinds, func(a, b KindStatus) int { return cmp.Compare(a.Key, b.Key) })
	return s
}

// WriteMetrics writes the status in the text format of Prometheus.
func (p *Pool) WriteMetrics(w io.Writer) error {
	s, name := p.Status(), p.driver.Traits().Name
	open := 0
	for _, k := range s.Kinds {
		if k.Open {
			open++
		}
	}
	var err error
	put := func(kind, metric, help string, values ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, "# HELP hermes_%s %s\n# TYPE hermes_%s %s\n", metric, help, metric, kind)
		}
		for i := 0; i+1 < len(values) && err == nil; i += 2 {
			label := fmt.Sprintf("backend=%q", name)
			if values[i] != "" {
				label += fmt.Sprintf(",%s", values[i])
			}
			_, err = fmt.Fprintf(w, "hermes_%s{%s} %v\n", metric, label, values[i+1])
		}
	}
	put("gauge", "boxes", "Boxes by state.", `state="leased"`, s.Leased, `state="idle"`, s.Idle, `state="creating"`, s.Creating, `state="stuck"`, s.Stuck)
	put("gauge", "box_places", "Boxes that there may be at once.", "", s.Max)
	put("gauge", "box_waiters", "Calls that wait for a box.", "", s.Waiting)
	put("gauge", "box_breakers_open", "Kinds of boxes that are not made for a while.", "", open)
	put("counter", "box_leases_total", "Leases given.", "", s.Leases)
	put("counter", "box_wait_seconds_total", "Time that leases were waited for.", "", s.Waited.Seconds())
	put("counter", "box_creates_total", "Boxes made, and tries that failed.", `result="ok"`, s.Created, `result="failed"`, s.Failed)
	put("counter", "box_create_seconds_total", "Time that making boxes took.", "", s.Making.Seconds())
	put("counter", "box_removes_total", "Boxes removed, and tries that failed.", `result="ok"`, s.Removed, `result="failed"`, s.Unremoved)
	put("counter", "box_resets_total", "Resets by outcome.", `result="clean"`, s.Resets, `result="dirty"`, s.Dirty)
	put("counter", "box_ends_total", "Boxes that ended before their time, by cause.", `cause="lost"`, s.Lost, `cause="broken"`, s.Broken,
		`cause="silent"`, s.Quarantined, `cause="evicted"`, s.Evicted)
	put("counter", "box_leaks_swept_total", "Things of dead owners that were removed.", "", s.Swept)
	return err
}

var _ backends.Backend = (*Pool)(nil)

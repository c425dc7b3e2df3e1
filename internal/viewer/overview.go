package viewer

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hermes/envs/grade/figures"
	"hermes/rollout/journal"
	"hermes/rollout/listing"
	"hermes/rollout/rundir"
	"hermes/trajectory/stats"
)

// runLine is one run in the list of runs.
type runLine struct {
	Name    string         `json:"name"`
	Dir     string         `json:"dir"`
	Model   string         `json:"model"`
	Mode    string         `json:"mode"` // batch, env, eval
	Suite   string         `json:"suite,omitempty"`
	Created time.Time      `json:"created"`
	Planned int64          `json:"planned"`
	Books   map[string]int `json:"books"` // of the records in force
	Done    int            `json:"done"`
	Failed  int            `json:"failed"` // by our fault
	Scored  int            `json:"scored"`
	Reward  *float64       `json:"reward"` // mean of the scored
	Tokens  int64          `json:"tokens"`
	Cost    *float64       `json:"cost"`
	Records int            `json:"records"`         // in the index
	Indexed float64        `json:"indexed"`         // share of the log
	State   string         `json:"state,omitempty"` // of the process that works on it
	Error   string         `json:"error,omitempty"`
}

// runView is one run on its own page.
type runView struct {
	runLine
	Version    string            `json:"version"`
	Tools      []string          `json:"tools"`
	Outcomes   map[string]int    `json:"outcomes"`
	Causes     []cause           `json:"causes"`  // of what was not accepted
	Rewards    []int             `json:"rewards"` // how many in each tenth from 0 to 1; the last: 1 or more
	Turns      float64           `json:"turns"`   // mean, as seconds
	Seconds    float64           `json:"seconds"`
	Longest    float64           `json:"longest"`
	Settings   []setting         `json:"settings"`             // the identity
	Config     []setting         `json:"config"`               // all that was resolved
	Statistics *stats.Statistics `json:"statistics,omitempty"` // as the run wrote them
	Report     json.RawMessage   `json:"report,omitempty"`     // report.json
	Tasks      int               `json:"tasks"`
}

type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// cause is why samples are not among the accepted.
type cause struct {
	Book    string `json:"book"`
	Count   int    `json:"count"`
	Example string `json:"example"` // the reason of the first one
	Key     string `json:"key"`     // its
}

func (v *Viewer) listRuns(r *http.Request) (any, error) {
	out := []runLine{}
	for _, s := range v.runs {
		out = append(out, s.line(r.Context()))
	}
	return out, nil
}

// line is the run in the list. A run that was not opened is described by its manifest and
// by the statistics that it wrote, so that many runs can be listed.
func (s *shown) line(ctx context.Context) runLine {
	if o := s.ready.Load(); o != nil {
		return o.view(ctx, false).runLine
	}
	l := runLine{Name: s.name, Dir: s.dir, Indexed: 1, Books: map[string]int{}}
	m, err := rundir.Read(journal.OS{}, s.dir)
	if err != nil {
		l.Error = err.Error()
		return l
	}
	l.manifest(m)
	l.State = state(ctx, s.dir)
	c, err := statistics(s.dir)
	if err != nil {
		return l // it is counted when the run is opened
	}
	l.Books["accepted"] = int(c.Accepted)
	l.Done = int(c.Accepted)
	for book, parts := range map[string]map[string]int64{"rejected.": c.Rejected, "failed.": c.Failed} {
		for name, n := range parts {
			if n > 0 {
				l.Books[book+name] = int(n)
				l.Done += int(n)
			}
		}
	}
	for _, n := range c.Failed {
		l.Failed += int(n)
	}
	l.Scored = int(c.Scored)
	l.Tokens = c.Tokens.Prompt + c.Tokens.Completion
	l.Cost = c.CostUSD
	l.Records = l.Done
	if c.Reward != nil {
		l.Reward = &c.Reward.Mean
	}
	return l
}

func (l *runLine) manifest(m rundir.Manifest) {
	l.Model, _ = m.Identity.Get("model")
	l.Suite, _ = m.Identity.Get("suite")
	l.Mode = m.Books.Mode
	l.Created = m.Created
	l.Planned = m.Extent.Planned
}

const mostPage = 8 << 20 // bytes of a file that a page takes in as a whole

// readFile reads a file of a run directory.
func readFile(dir, name string) ([]byte, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostPage))
}

func statistics(dir string) (*stats.Statistics, error) {
	b, err := readFile(dir, "statistics.json")
	if err != nil {
		return nil, err
	}
	c := &stats.Statistics{}
	return c, json.Unmarshal(b, c)
}

// overview is the page of one run.
func (v *Viewer) overview(r *http.Request) (any, error) {
	o, err := v.run(r.FormValue("run"))
	if err != nil {
		return nil, err
	}
	return o.view(r.Context(), true), nil
}

// view counts the list of a run. whole adds what its own page shows.
func (o *opened) view(ctx context.Context, whole bool) runView {
	o.index.look()
	w := o.index.counts()
	w.Tools = o.Manifest.Tools
	w.Version = o.Manifest.Version
	w.Name = o.name
	w.Dir = o.Dir
	w.manifest(o.Manifest)
	if m, err := rundir.Read(journal.OS{}, o.Dir); err == nil { // it may have been amended
		w.Planned = m.Extent.Planned
	}
	w.State = state(ctx, o.Dir)
	if !whole {
		return w
	}
	for _, f := range o.Manifest.Identity {
		w.Settings = append(w.Settings, setting{f.Name, f.Value})
	}
	w.Config = config(o.Manifest)
	if c, err := statistics(o.Dir); err == nil {
		w.Statistics = c
	}
	if b, err := readFile(o.Dir, "report.json"); err == nil && json.Valid(b) {
		w.Report = b
	}
	return w
}

// config is what was resolved when the run was started, without what was not set.
func config(m rundir.Manifest) (list []setting) {
	values := map[string]string{}
	if m.Config.Decode(&values) != nil {
		return nil
	}
	for name, value := range values {
		if value != "" {
			list = append(list, setting{name, value})
		}
	}
	slices.SortFunc(list, func(a, b setting) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// counts is what the rows in force come to. They are counted again only when the log has grown.
func (x *index) counts() runView {
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.counting.Lock()
	defer x.counting.Unlock()
	if x.counted == nil || x.countedTo != x.list.Next {
		x.counted = &runView{Outcomes: map[string]int{}, Rewards: make([]int, 11), Causes: []cause{}, runLine: runLine{Books: map[string]int{}}}
		x.counted.count(x.list)
		x.countedTo = x.list.Next
	}
	w := *x.counted // its maps are only read from here on
	w.Indexed = 1
	if x.end > 0 {
		w.Indexed = min(1, float64(x.list.Next)/float64(x.end))
	}
	if x.err != nil {
		w.Error = x.err.Error()
	}
	return w
}

// count goes through the rows in force.
func (w *runView) count(list *listing.List) {
	var rewards, costs, turns, seconds figures.Total
	priced := false
	causes := map[string]*cause{}
	for i := range list.Rows {
		r := &list.Rows[i]
		if r.Old {
			continue
		}
		w.Done++
		w.Books[r.Book]++
		w.Outcomes[string(r.Outcome)]++
		w.Tokens += r.Tokens
		w.Longest = max(w.Longest, r.Seconds)
		turns.Add(float64(r.Turns))
		seconds.Add(r.Seconds)
		if r.Outcome.Failure() {
			w.Failed++
		}
		if !math.IsNaN(r.Reward) {
			rewards.Add(r.Reward)
			w.Scored++
			w.Rewards[int(min(max(r.Reward, 0), 1)*10)]++
		}
		if !math.IsNaN(r.Cost) {
			costs.Add(r.Cost)
			priced = true
		}
		if r.Book != string(stats.Accepted) {
			w.Causes = note(w.Causes, causes, r)
		}
	}
	for i, c := range w.Causes {
		w.Causes[i] = *causes[c.Book]
	}
	slices.SortStableFunc(w.Causes, func(a, b cause) int { return cmp.Compare(b.Count, a.Count) })
	w.Records, w.Tasks = len(list.Rows), list.CountTasks()
	if w.Scored > 0 {
		mean := rewards.Over(float64(w.Scored))
		w.Reward = &mean
	}
	if priced {
		sum := costs.Over(1)
		w.Cost = &sum
	}
	if w.Done > 0 {
		w.Turns, w.Seconds = turns.Over(float64(w.Done)), seconds.Over(float64(w.Done))
	}
}

// note counts a row that was not accepted.
func note(list []cause, seen map[string]*cause, r *listing.Row) []cause {
	c := seen[r.Book]
	if c == nil {
		c = &cause{Book: r.Book, Example: r.Texts().Reason, Key: r.Key.String()}
		seen[r.Book] = c
		list = append(list, *c)
	}
	c.Count++
	return list
}

// taskView is a task as JSON.
type taskView struct {
	ID      string   `json:"id"`
	Samples int      `json:"samples"`
	Scored  int      `json:"scored"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Mean    *float64 `json:"mean"`
	Low     *float64 `json:"low"`
	High    *float64 `json:"high"`
	Tokens  int64    `json:"tokens"`
	Seconds float64  `json:"seconds"` // of the samples together
	Task    string   `json:"task"`
}

func viewTask(t *listing.Task) taskView {
	return taskView{t.ID, t.Samples, t.Scored, t.Passed, t.Failed, known(t.Mean()), known(t.Low), known(t.High), t.Tokens, t.Seconds, t.Text}
}

// taskColumn is the order of a column of the tasks; nil: there is none.
func taskColumn(name string) func(a, b *listing.Task) int {
	switch name {
	case "", "log":
		return func(a, b *listing.Task) int { return 0 }
	case "id":
		return func(a, b *listing.Task) int { return strings.Compare(a.ID, b.ID) }
	case "samples":
		return func(a, b *listing.Task) int { return cmp.Compare(a.Samples, b.Samples) }
	case "mean":
		return func(a, b *listing.Task) int { return cmp.Compare(a.Mean(), b.Mean()) }
	case "spread":
		return func(a, b *listing.Task) int { return cmp.Compare(a.High-a.Low, b.High-b.Low) }
	case "passed":
		return func(a, b *listing.Task) int { return cmp.Compare(a.Passed, b.Passed) }
	case "failed":
		return func(a, b *listing.Task) int { return cmp.Compare(a.Failed, b.Failed) }
	case "tokens":
		return func(a, b *listing.Task) int { return cmp.Compare(a.Tokens, b.Tokens) }
	case "seconds":
		return func(a, b *listing.Task) int { return cmp.Compare(a.Seconds, b.Seconds) }
	}
	return nil
}

// listTasks puts the samples together by task.
func (v *Viewer) listTasks(r *http.Request) (any, error) {
	sort := r.FormValue("sort")
	by := taskColumn(sort)
	if by == nil {
		return nil, &apiError{http.StatusBadRequest, "sort: want log, id, samples, mean, spread, passed, failed, tokens or seconds"}
	}
	r.Form.Del("sort")
	o, q, err := v.chosen(r)
	if err != nil {
		return nil, err
	}
	o.index.look()
	found := o.index.tasks(q)
	total := len(found)
	if sort != "" && sort != "log" || q.down {
		found = first(found, q.offset+q.pageSize, directed(by, q.down))
	}
	page := []taskView{}
	from, to := q.bounds(len(found))
	for _, t := range found[from:to] {
		page = append(page, viewTask(t))
	}
	return map[string]any{"rows": page, "total": total}, nil
}

// tasks puts the samples that a query takes together by task. Its words must be in the task's
// id or text: all samples of such a task count.
func (x *index) tasks(q query) []*listing.Task {
	words := q.words
	q.words = nil
	x.mu.RLock()
	all := x.list.Tasks(q.takes)
	x.mu.RUnlock()
	found := make([]*listing.Task, 0, len(all))
	for i := range all {
		if !slices.ContainsFunc(words, func(w string) bool { return !all[i].Mentions(w) }) {
			found = append(found, &all[i])
		}
	}
	return found
}

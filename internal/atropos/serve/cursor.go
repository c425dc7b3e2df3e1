package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"hermes/datasets"
)

// Position is the place of a row: its epoch and its number in it, both from 0.
type Position struct{ Epoch, Row int64 }

func (p Position) before(q Position) bool {
	return p.Epoch < q.Epoch || p.Epoch == q.Epoch && p.Row < q.Row
}

// MarshalJSON writes [epoch, row].
func (p Position) MarshalJSON() ([]byte, error) { return json.Marshal([2]int64{p.Epoch, p.Row}) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Position) UnmarshalJSON(raw []byte) error {
	var x [2]int64
	if err := json.Unmarshal(raw, &x); err != nil {
		return err
	}
	if x[0] < 0 || x[1] < 0 {
		return fmt.Errorf("position %s is negative", raw)
	}
	p.Epoch, p.Row = x[0], x[1]
	return nil
}

// Cursor says how far the rows had come at a trainer step. The journal keeps one for each
// change: the next start goes on at the last one. Those that are Trained leave out what was
// sent and not yet taken by the trainer: the first of a step is where a trainer that goes
// back to that step is served from.
type Cursor struct {
	Step       int64           `json:"step"`
	Instance   string          `json:"instance,omitempty"`
	Generation int             `json:"generation"`       // part of the samples' keys
	Series     string          `json:"series,omitempty"` // part of the names of posts
	Trained    bool            `json:"trained,omitempty"`
	Envs       map[string]Mark `json:"envs"`
}

// Mark is the place of one environment: every row before Next is settled (sent, or dropped
// with a reason), and those of Done too.
type Mark struct {
	Next Position   `json:"next"`
	Done []Position `json:"done,omitempty"`
	Sent int64      `json:"sent"`
}

// keptSent is how many of the groups that were sent last are known by their place: more
// than a trainer's queue holds.
const keptSent = 4096

// place follows the rows of an environment.
type place struct {
	next Position // to be handed out
	open map[Position]bool
	done map[Position]bool // settled, as far back as somebody may ask
	sent []Position        // in the order in which they were sent
}

// hand hands a position out, unless it is settled.
func (p *place) hand(at Position) bool {
	if at.before(p.next) || p.done[at] {
		return false
	}
	p.next = Position{at.Epoch, at.Row + 1}
	p.open[at] = true
	return true
}

// settle books a position, which was sent or dropped.
func (p *place) settle(at Position, sent bool) {
	delete(p.open, at)
	p.done[at] = true
	if sent {
		p.sent = append(p.sent, at)
		if len(p.sent) > 2*keptSent {
			p.sent = slices.Delete(p.sent, 0, len(p.sent)-keptSent)
		}
	}
	if len(p.done) > 2*keptSent {
		low := p.low(p.sent)
		for at := range p.done {
			if at.before(low) {
				delete(p.done, at)
			}
		}
	}
}

// low is the first position that is not settled, or is in queued.
func (p *place) low(queued []Position) Position {
	low := p.next
	for at := range p.open {
		if at.before(low) {
			low = at
		}
	}
	for _, at := range queued {
		if at.before(low) {
			low = at
		}
	}
	return low
}

// mark is the place; the last queued ones that were sent count as if they had not been.
func (p *place) mark(sent int64, queued int) Mark {
	waiting := p.sent[max(0, len(p.sent)-queued):]
	m := Mark{Next: p.low(waiting), Sent: sent - int64(len(waiting))}
	for at := range p.done {
		if !at.before(m.Next) && !slices.Contains(waiting, at) {
			m.Done = append(m.Done, at)
		}
	}
	slices.SortFunc(m.Done, func(a, b Position) int { return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Row, b.Row)) })
	return m
}

func (p *place) reset(m Mark) {
	*p = place{next: m.Next, open: map[Position]bool{}, done: map[Position]bool{}}
	for _, at := range m.Done {
		p.done[at] = true
	}
}

// firsts leaves the first cursor of each step that is Trained, as far as no later one went
// back behind it.
func firsts(all []Cursor) (out []Cursor) {
	for _, c := range all {
		if !c.Trained {
			continue
		}
		for len(out) > 0 && out[len(out)-1].Step > c.Step {
			out = out[:len(out)-1]
		}
		if len(out) == 0 || out[len(out)-1].Step < c.Step {
			out = append(out, c)
		}
	}
	return out
}

// keptSteps bounds how many steps back the places are known.
const keptSteps = 100_000

// keep writes the cursor to the journal.
func (s *Server) keep(ctx context.Context, trained bool) error {
	s.mu.Lock()
	c := Cursor{Step: s.step, Instance: s.instance, Generation: s.gen, Series: s.series, Trained: trained, Envs: map[string]Mark{}}
	for _, e := range s.envs {
		queued := 0
		if trained {
			queued = e.status.Own + e.posted
		}
		c.Envs[e.Name] = e.place.mark(e.sent, queued)
	}
	s.history = firsts(append(s.history, c))
	if len(s.history) > keptSteps {
		s.history = slices.Delete(s.history, 0, len(s.history)-keptSteps)
	}
	raw, err := json.Marshal(c)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.log.Cursor(context.WithoutCancel(ctx), raw); err != nil {
		return fmt.Errorf("the place in the rows: %w", err)
	}
	return nil
}

// begin goes to where the trainer is: on from the last place, or back where the trainer
// has gone back.
func (s *Server) begin(ctx context.Context) error {
	s.mu.Lock()
	last := -1
	s.series = rand.Text()
	for i, c := range s.o.Before {
		s.gen = max(s.gen, c.Generation+1)
		if !c.Trained {
			last = i
		}
	}
	if last >= 0 {
		if at := s.o.Before[last]; s.step >= at.Step {
			s.series = cmp.Or(at.Series, s.series)
			s.goTo(at)
		} else {
			s.rewind(at.Step)
		}
	}
	first := len(s.history) == 0 // what a trainer that goes back to this step gets
	s.mu.Unlock()
	if first {
		if err := s.keep(ctx, true); err != nil {
			return err
		}
	}
	return s.keep(ctx, false)
}

// rewind serves the trainer, which is at s.step and was at before, from what followed that
// step. The caller holds mu.
func (s *Server) rewind(before int64) {
	to := Cursor{Envs: map[string]Mark{}} // the beginning
	for _, c := range s.history {
		if c.Step <= s.step {
			to = c
		}
	}
	s.gen++
	s.series = rand.Text()
	s.history = firsts(append(s.history, Cursor{Step: s.step, Generation: s.gen, Trained: true, Envs: to.Envs}))
	s.goTo(to)
	s.o.Say(fmt.Sprintf("the trainer went back from step %d to %d: its rows are served again from there", before, s.step))
}

// goTo sets the places; what is in flight belongs to an older generation and will not be
// sent. The caller holds mu.
func (s *Server) goTo(c Cursor) {
	for _, e := range s.envs {
		m := c.Envs[e.Name]
		e.place.reset(m)
		e.sent = m.Sent
		e.stale = true
	}
	for _, g := range s.backlog { // its samples are not rolled out any more
		if s.groups[g.name] == g {
			delete(s.groups, g.name)
			s.forgotten = append(s.forgotten, g)
		}
	}
	s.backlog = nil
	s.changed()
}

// puller reads the rows of an environment one by one, epoch after epoch. It belongs to the
// goroutine that admits groups.
type puller struct {
	epoch int64
	row   int64 // of the next one
	next  func() (datasets.Row, error, bool)
	stop  func()
}

// open begins to read an epoch.
func (e *env) open(ctx context.Context, epoch int64) {
	if e.rows != nil {
		e.rows.stop()
	}
	e.rows = &puller{epoch: epoch}
	e.rows.next, e.rows.stop = iter.Pull2(e.Rows(ctx, int(epoch)))
}

// pull returns the next row and its position; behind the last one comes another epoch.
func (e *env) pull(ctx context.Context) (row datasets.Row, at Position, err error) {
	for {
		p := e.rows
		row, err, ok := p.next()
		at := Position{p.epoch, p.row}
		switch {
		case !ok && p.row == 0:
			return row, at, fmt.Errorf("environment %s has no rows", e.Name)
		case !ok:
			e.open(ctx, p.epoch+1)
			continue
		case err != nil:
			return row, at, fmt.Errorf("environment %s, row %d: %w", e.Name, p.row, err)
		}
		p.row++
		return row, at, nil
	}
}

package sink

import (
	"cmp"
	"fmt"

	"hermes/rollout/journal"
	"hermes/rollout/rundir"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// Entered is the book that a record entered, with a sentence for people where it is not
// the accepted one.
type Entered struct {
	Book stats.Book
	Sub  string // the part of the book; empty for accepted
	Why  string
}

// Sorter enters the records of one log into books: as [Rules] say and, where run.yaml asks
// for it, a sample whose conversation is word for word that of a sample of the same row
// which was accepted before it in the log, as rejected.duplicate. Conversations are
// compared by [trajectory.Trace.Digest].
//
// What it answers is a function of log and run.yaml alone, so that nothing of it needs to
// be stored. It holds the digests of the last few thousand samples and reads others out
// of the log again. A Sorter belongs to one goroutine.
type Sorter struct {
	rules    Rules
	accept   string
	log      *journal.Journal
	siblings int // samples of a row; below 2 there is nothing to compare
	digests  generations
}

// NewSorter makes the sorter of a run.
func NewSorter(j *journal.Journal, m rundir.Manifest) (*Sorter, error) {
	rules, err := NewRules(m.Books.Mode, m.Books.Accept, m.Books.RequireReasoning)
	if err != nil {
		return nil, err
	}
	c := &Sorter{rules: rules, accept: m.Books.Accept, log: j}
	if m.Books.Dedup {
		c.siblings = m.Extent.Rollouts
	}
	return c, nil
}

// Enter returns the book of the final record that is at an offset of the log.
func (c *Sorter) Enter(at journal.Offset, r *trajectory.Record) (Entered, error) {
	book, sub := c.rules.Book(r)
	e := Entered{Book: book, Sub: sub, Why: r.Reason}
	if book == stats.Accepted {
		twin, found, err := c.twin(at, r)
		if err != nil {
			return e, fmt.Errorf("look for duplicates of %s/%d: %w", r.Row, r.Sample, err)
		}
		if !found {
			return e, nil
		}
		return Entered{stats.Rejected, "duplicate", fmt.Sprintf("the same conversation as sample %d", twin)}, nil
	}
	if e.Why == "" {
		e.Why = c.reason(sub, r)
	}
	return e, nil
}

// reason explains what the record itself does not.
func (c *Sorter) reason(sub string, r *trajectory.Record) string {
	switch sub {
	case "no_reasoning":
		return "no answer of the model came with reasoning"
	case "low_reward":
		return fmt.Sprintf("reward %g is less than 1", r.Score.Reward)
	case "filtered":
		if r.Score == nil && c.accept == "passed" {
			return "nothing scored it, and " + c.accept + " wants a reward of 1"
		}
		return "it does not fulfil " + c.accept
	}
	return ""
}

// twin finds a sample of the same row that was accepted earlier and is the same.
func (c *Sorter) twin(at journal.Offset, r *trajectory.Record) (sample int, found bool, err error) {
	if c.siblings < 2 {
		return 0, false, nil
	}
	mine := digest{true, r.Trace.Digest()}
	c.digests.put(at, mine)
	first := at
	for s := range c.siblings {
		other, ok := c.log.FinalAt(trajectory.NewKey(r.Row, 0, 0, s))
		if !ok || other >= first {
			continue // a failure that was tried again later follows at, too
		}
		theirs, err := c.digest(other)
		if err != nil {
			return 0, false, err
		}
		if theirs == mine {
			first, sample = other, s // of several the first was accepted
		}
	}
	return sample, first < at, nil
}

func (c *Sorter) digest(at journal.Offset) (digest, error) {
	if d, ok := c.digests.get(at); ok {
		return d, nil
	}
	e, err := c.log.At(at)
	if err != nil {
		return digest{}, err
	}
	r, err := e.Record()
	if err != nil {
		return digest{}, err
	}
	var d digest
	if book, _ := c.rules.Book(r); book == stats.Accepted {
		d = digest{true, r.Trace.Digest()}
	}
	c.digests.put(at, d)
	return d, nil
}

// digest is that of an accepted record; other records have the zero value.
type digest struct {
	accepted bool
	sum      [32]byte
}

// generation is how many digests are remembered at least, and half of how many at most.
const generation = 8192

// generations remembers the digests that were used last.
type generations struct {
	size       int // 0: generation
	young, old map[journal.Offset]digest
}

func (g *generations) get(at journal.Offset) (digest, bool) {
	if d, ok := g.young[at]; ok {
		return d, true
	}
	d, ok := g.old[at]
	if ok {
		g.put(at, d)
	}
	return d, ok
}

func (g *generations) put(at journal.Offset, d digest) {
	if g.young == nil || len(g.young) >= cmp.Or(g.size, generation) {
		g.young, g.old = map[journal.Offset]digest{}, g.young
	}
	g.young[at] = d
}

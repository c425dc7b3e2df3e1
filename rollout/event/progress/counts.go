package progress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermes/rollout/event"
	"hermes/trajectory"
)

// window is the time over which tokens a second are averaged.
const window = 30 // seconds

// counts is what a line says. It is not safe for concurrent use.
type counts struct {
	total, done, kept int64 // kept: finished in an earlier start of the same run
	retried           int64 // attempts of rollouts that failed and were made again
	scored            int64
	reward            float64 // sum over the scored
	failed            map[string]int64
	flying            map[trajectory.Key]struct{}
	start             time.Time
	cost              float64
	costKnown         bool
	buckets           [window]int64 // completion tokens of the last seconds
	newest            int64         // the second of the newest bucket, since start
}

func newCounts(total, kept int64, now time.Time) *counts {
	return &counts{total: total, done: kept, kept: kept, failed: map[string]int64{}, flying: map[trajectory.Key]struct{}{}, start: now}
}

func (c *counts) observe(e event.Event, now time.Time) {
	switch e := e.(type) {
	case event.RolloutStarted:
		c.flying[e.Key] = struct{}{}
	case event.TurnEnded:
		if e.Replay {
			return // paid for earlier
		}
		c.cost += e.Usage.Cost
		c.costKnown = c.costKnown || e.Usage.CostKnown
		c.buckets[c.roll(now)%window] += e.Usage.Completion
	case event.Retry:
		c.retried++
		delete(c.flying, e.Key)
	case event.RolloutCancelled:
		delete(c.flying, e.Key)
	case event.RolloutEnded:
		delete(c.flying, e.Key)
		c.done++
		switch {
		case e.Record == nil:
		case e.Record.Outcome.Failure():
			c.failed[string(e.Record.Outcome)]++
		case e.Record.Score != nil:
			c.scored++
			c.reward += e.Record.Score.Reward
		}
	}
}

// roll empties the buckets of the seconds that passed without tokens and returns the
// present second.
func (c *counts) roll(now time.Time) int64 {
	second := max(int64(now.Sub(c.start)/time.Second), c.newest)
	for s := c.newest + 1; s <= second && s <= c.newest+window; s++ {
		c.buckets[s%window] = 0
	}
	c.newest = second
	return second
}

// rate is tokens a second over the window.
func (c *counts) rate(now time.Time) float64 {
	seconds := min(c.roll(now)+1, window)
	var sum int64
	for _, n := range c.buckets {
		sum += n
	}
	return float64(sum) / float64(seconds)
}

// left estimates the time to the end from the speed so far; false when nothing can be
// said yet.
func (c *counts) left(now time.Time) (time.Duration, bool) {
	fresh := c.done - c.kept
	if c.total <= 0 || fresh <= 0 || c.done >= c.total {
		return 0, false
	}
	per := float64(now.Sub(c.start)) / float64(fresh)
	left := per * float64(c.total-c.done)
	if left > float64(10_000*time.Hour) {
		return 0, false
	}
	return time.Duration(left).Round(time.Second), true
}

// part is a piece of the line. Where the line is too long, the pieces of the highest rank are
// left out first.
type part struct {
	text  string
	brief string // in place of text where that is too long; empty: left out
	rank  int
}

// parts are the pieces in the order in which they are shown.
func (c *counts) parts(now time.Time) []part {
	done := fmt.Sprintf("%d done", c.done)
	if c.total > 0 {
		done = fmt.Sprintf("%d/%d done", c.done, c.total)
	}
	list := []part{{text: done, brief: done}}
	if c.scored > 0 {
		list = append(list, part{text: fmt.Sprintf("reward %.2f", c.reward/float64(c.scored)), rank: 2})
	}
	if brief, causes := c.failures(); brief != "" {
		list = append(list, part{text: brief + causes, brief: brief, rank: 1})
	}
	if c.costKnown {
		list = append(list, part{text: fmt.Sprintf("$%.2f", c.cost), rank: 3})
	}
	if c.retried > 0 {
		list = append(list, part{text: fmt.Sprintf("%d retried", c.retried), rank: 5})
	}
	list = append(list, part{text: fmt.Sprintf("%d in flight", len(c.flying)), rank: 6},
		part{text: short(c.rate(now)) + " tok/s", rank: 7})
	if d, ok := c.left(now); ok {
		list = append(list, part{text: d.String() + " left", rank: 4})
	}
	return list
}

// line is everything but the bar.
func (c *counts) line(now time.Time) string { return join(c.parts(now)) }

// fitted is line in at most so many columns: first the pieces of the highest rank become brief
// or are left out. What is never left out may still be longer.
func (c *counts) fitted(now time.Time, columns int) string {
	list := c.parts(now)
	for rank := 7; rank > 0 && len([]rune(join(list))) > columns; rank-- {
		for i := range list {
			if list[i].rank == rank {
				list[i].text = list[i].brief
			}
		}
	}
	return join(list)
}

func join(list []part) string {
	var texts []string
	for _, p := range list {
		if p.text != "" {
			texts = append(texts, p.text)
		}
	}
	return strings.Join(texts, ", ")
}

// failures are the number of failed samples and its causes in brackets, the most frequent
// first. Both are empty where none failed.
func (c *counts) failures() (brief, causes string) {
	type cause struct {
		name string
		n    int64
	}
	var list []cause
	var sum int64
	for name, n := range c.failed {
		list = append(list, cause{name, n})
		sum += n
	}
	if sum == 0 {
		return "", ""
	}
	slices.SortFunc(list, func(a, b cause) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.name, b.name)) })
	var parts []string
	for _, x := range list {
		parts = append(parts, fmt.Sprintf("%s %d", x.name, x.n))
	}
	return fmt.Sprintf("%d failed", sum), " (" + strings.Join(parts, ", ") + ")"
}

// short writes a number in at most four places: 7.3, 912, 12.3k, 4.1M.
func short(f float64) string {
	switch {
	case f < 10:
		return fmt.Sprintf("%.1f", f)
	case f < 1000:
		return fmt.Sprintf("%.0f", f)
	case f < 1e6:
		return fmt.Sprintf("%.1fk", f/1e3)
	}
	return fmt.Sprintf("%.1fM", f/1e6)
}

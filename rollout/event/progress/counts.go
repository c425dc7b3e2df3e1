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
		delete(c.flying, e.Key)
	case event.RolloutCancelled:
		delete(c.flying, e.Key)
	case event.RolloutEnded:
		delete(c.flying, e.Key)
		c.done++
		if e.Record != nil && e.Record.Outcome.Failure() {
			c.failed[string(e.Record.Outcome)]++
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

// line is everything but the bar, the most important first.
func (c *counts) line(now time.Time) string {
	done := fmt.Sprintf("%d done", c.done)
	if c.total > 0 {
		done = fmt.Sprintf("%d/%d done", c.done, c.total)
	}
	parts := []string{done}
	if f := c.failures(); f != "" {
		parts = append(parts, f)
	}
	parts = append(parts, fmt.Sprintf("%d in flight", len(c.flying)), short(c.rate(now))+" tok/s")
	if c.costKnown {
		parts = append(parts, fmt.Sprintf("$%.2f", c.cost))
	}
	if d, ok := c.left(now); ok {
		parts = append(parts, d.String()+" left")
	}
	return strings.Join(parts, ", ")
}

// failures lists the causes, the most frequent first.
func (c *counts) failures() string {
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
		return ""
	}
	slices.SortFunc(list, func(a, b cause) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.name, b.name)) })
	var parts []string
	for _, x := range list {
		parts = append(parts, fmt.Sprintf("%s %d", x.name, x.n))
	}
	return fmt.Sprintf("%d failed (%s)", sum, strings.Join(parts, ", "))
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

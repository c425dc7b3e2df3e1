package serve

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/internal/atropos/encode"
	"hermes/internal/atropos/shape"
	"hermes/rollout/event"
)

// metrics counts what is reported under the names that Atropos' environments use in W&B.
type metrics struct {
	mu    sync.Mutex
	envs  map[*env]*counts
	stale []float64 // of all environments, since a line was written
}

// counts are those of one environment.
type counts struct {
	sent, unknown, fork, fills int64
	groups                     map[string]int64 // that were not sent, by reason
	samples                    map[string]int64
	window                     window
	last                       map[string]float64 // as they were reported last
	eval                       map[string]float64
}

// window is what happened since the metrics were reported last.
type window struct {
	groups      int // that were sent
	rejected    int // that were not
	lengths     []float64
	durations   []float64 // seconds, of groups that were sent
	failed      []float64 // of others
	raw, shaped []float64
	near        int       // answers that almost reached the limit
	stale       []float64 // steps that the trainer made while a group was rolled out
}

func newMetrics(envs []*env) *metrics {
	m := &metrics{envs: map[*env]*counts{}}
	for _, e := range envs {
		m.envs[e] = &counts{groups: map[string]int64{}, samples: map[string]int64{}, last: map[string]float64{}, eval: map[string]float64{}}
	}
	return m
}

func (m *metrics) with(e *env, f func(c *counts)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.envs[e])
}

func (m *metrics) drop(e *env, why string) {
	m.with(e, func(c *counts) { c.groups[why]++; c.window.rejected++ })
}

func (m *metrics) failed(e *env, took time.Duration) {
	m.with(e, func(c *counts) { c.window.failed = append(c.window.failed, took.Seconds()) })
}

func (m *metrics) dropSamples(e *env, why string, n int) {
	if n > 0 {
		m.with(e, func(c *counts) { c.samples[why] += int64(n) })
	}
}

func (m *metrics) forks(e *env, n int)  { m.with(e, func(c *counts) { c.fork += int64(n) }) }
func (m *metrics) filled(e *env, n int) { m.with(e, func(c *counts) { c.fills += int64(n) }) }

// nearLimit is the share of the longest sequence from which an answer counts as long.
const nearLimit = 0.95

func (m *metrics) sent(e *env, g *group, w encode.ScoredDataGroup, out shape.Result, samples []shape.Sample, how string, limit int, step int64) {
	m.with(e, func(c *counts) {
		c.sent++
		if how == "unknown" {
			c.unknown++
		}
		c.window.groups++
		c.window.durations = append(c.window.durations, g.took().Seconds())
		c.window.shaped = append(c.window.shaped, w.Scores...)
		stale := float64(max(0, step-g.step))
		c.window.stale, m.stale = append(c.window.stale, stale), append(m.stale, stale)
		for _, x := range out.Samples {
			n := samples[x.Index].Length
			c.window.lengths = append(c.window.lengths, float64(n))
			c.window.raw = append(c.window.raw, samples[x.Index].Reward)
			if limit > 0 && float64(n) > nearLimit*float64(limit) {
				c.window.near++
			}
		}
	})
}

// figures are mean, std, max and min under names that begin with name.
func figures(into map[string]float64, name, mean string, list []float64) {
	if len(list) == 0 {
		return
	}
	sum := 0.0
	square := 0.0
	n := float64(len(list))
	for _, x := range list {
		sum += x
	}
	for _, x := range list {
		square += (x - sum/n) * (x - sum/n)
	}
	into[name+mean], into[name+"_std"] = sum/n, math.Sqrt(square/n)
	into[name+"_max"], into[name+"_min"] = slices.Max(list), slices.Min(list)
}

// take empties the window of an environment, if enough was sent; at the end, if anything
// happened. As in Atropos, items_sent_to_api and items_rejected count since the last line.
func (m *metrics) take(e *env, atLeast int) (out map[string]float64) {
	m.with(e, func(c *counts) {
		if c.window.groups < atLeast || c.window.groups+c.window.rejected == 0 {
			return
		}
		p := e.name + "_"
		out = map[string]float64{p + "train/items_sent_to_api": float64(c.window.groups), p + "train/items_rejected": float64(c.window.rejected)}
		figures(out, p+"train/completion_lengths", "", c.window.lengths)
		if n := len(c.window.lengths); n > 0 {
			out[p+"train/completion_lengths_p95"] = float64(c.window.near) / float64(n)
		}
		figures(out, p+"train_perf/task_duration", "_mean", slices.Concat(c.window.durations, c.window.failed))
		figures(out, p+"train_perf/succeeded_task_duration", "_mean", c.window.durations)
		figures(out, p+"train_perf/failed_task_duration", "_mean", c.window.failed)
		figures(out, p+"train/reward", "_mean", c.window.raw)
		figures(out, p+"train/score", "_mean", c.window.shaped)
		figures(out, p+"train/staleness", "_mean", c.window.stale)
		for why, n := range c.groups {
			out[p+"train/groups_dropped/"+why] = float64(n)
		}
		for why, n := range c.samples {
			out[p+"train/samples_dropped/"+why] = float64(n)
		}
		out[p+"train/sequences_forked"] = float64(c.fork)
		out[p+"train/samples_filled"] = float64(c.fills)
		out[p+"train/posts_of_unknown_fate"] = float64(c.unknown)
		c.window = window{}
		c.last = out
	})
	return out
}

// staleness tells how far the trainer went on, in steps, while the groups that were sent
// since were rolled out.
func (m *metrics) staleness(into map[string]float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	figures(into, "staleness", "/mean", m.stale)
	m.stale = nil
}

// Calls is an observer that keeps how long calls of the model took.
type Calls struct {
	mu      sync.Mutex
	seconds []float64 // since they were reported
}

// Observe notes a call.
func (c *Calls) Observe(ev event.Event) {
	if turn, ok := ev.(event.TurnEnded); ok && !turn.Replay {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seconds = append(c.seconds, turn.Took.Seconds())
	}
}

// tell tells the calls since the last time under the names of a server's requests.
func (c *Calls) tell(into map[string]float64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	list := c.seconds
	c.seconds = nil
	c.mu.Unlock()
	if len(list) == 0 {
		return
	}
	const name = "server/server_0_request_time_"
	all := map[string]float64{}
	figures(all, "", "mean", list)
	slices.Sort(list)
	into[name+"avg"] = all["mean"]
	into[name+"std"] = all["_std"]
	into[name+"99p"] = list[(len(list)*99-1)/100]
}

func (m *metrics) evaluated(e *env, figures map[string]float64) {
	m.with(e, func(c *counts) { c.eval = figures })
}

// metricsLine is a line of metrics.jsonl.
type metricsLine struct {
	Time    time.Time          `json:"time"`
	Step    int64              `json:"step"`
	Metrics map[string]float64 `json:"metrics"`
}

// report writes the metrics of every environment that sent enough; all of them at the end.
func (s *Server) report(all bool) error {
	line := metricsLine{Time: time.Now().UTC(), Step: s.now(), Metrics: map[string]float64{}}
	least := s.o.LogAfter
	if all {
		least = 0
	}
	for _, e := range s.envs {
		maps.Copy(line.Metrics, s.met.take(e, least))
	}
	if len(line.Metrics) == 0 {
		return nil
	}
	s.met.staleness(line.Metrics)
	s.o.Calls.tell(line.Metrics)
	return s.tell(line)
}

// tell writes a line of metrics.jsonl and calls Options.Figures with it.
func (s *Server) tell(line metricsLine) error {
	n, err := s.file.tell(line)
	if err == nil && s.o.Figures != nil {
		s.o.Figures(n, line.Step, line.Metrics)
	}
	return err
}

// Totals are what a run did, for people and scripts.
type Totals struct {
	Step   int64                `json:"step"`
	Envs   map[string]EnvTotals `json:"envs"`
	Groups int64                `json:"groups"` // sent
}

// EnvTotals are those of one environment.
type EnvTotals struct {
	Sent    int64            `json:"sent"`
	Unknown int64            `json:"unknown,omitempty"` // of those: it is unknown whether they arrived
	Forked  int64            `json:"forked,omitempty"`  // sequences left out because a sample has several
	Filled  int64            `json:"filled,omitempty"`  // samples rolled out to fill groups
	Dropped map[string]int64 `json:"dropped"`           // groups, by reason
	Samples map[string]int64 `json:"samples_dropped"`   // samples, by reason
}

// Totals returns the figures so far.
func (s *Server) Totals() Totals {
	t := Totals{Step: s.now(), Envs: map[string]EnvTotals{}}
	for _, e := range s.envs {
		s.met.with(e, func(c *counts) {
			t.Groups += c.sent
			t.Envs[e.Name] = EnvTotals{Sent: c.sent, Unknown: c.unknown, Forked: c.fork, Filled: c.fills, Dropped: maps.Clone(c.groups), Samples: maps.Clone(c.samples)}
		})
	}
	return t
}

// WriteMetrics writes the figures for Prometheus; Atropos' name of each is the label name.
func (s *Server) WriteMetrics(w io.Writer) error {
	var b strings.Builder
	s.mu.Lock()
	step, flying := s.step, len(s.groups)
	online := 0
	if s.online {
		online = 1
	}
	names := map[*env]string{}
	fmt.Fprint(&b, "# HELP hermes_serve_queue_groups Groups in the trainer's queue.\n# TYPE hermes_serve_queue_groups gauge\n")
	for _, e := range s.envs {
		names[e] = cmp.Or(e.name, e.Name)
		fmt.Fprintf(&b, "hermes_serve_queue_groups{env=%q} %d\n", names[e], e.status.Queue)
	}
	s.mu.Unlock()
	fmt.Fprintf(&b, "# HELP hermes_serve_step The trainer's step.\n# TYPE hermes_serve_step gauge\nhermes_serve_step %d\n", step)
	fmt.Fprintf(&b, "# HELP hermes_serve_groups_in_flight Groups that are rolled out or wait to be posted.\n# TYPE hermes_serve_groups_in_flight gauge\nhermes_serve_groups_in_flight %d\n", flying)
	fmt.Fprintf(&b, "# HELP hermes_serve_online Whether the trajectory server answers and knows us.\n# TYPE hermes_serve_online gauge\nhermes_serve_online %d\n", online)
	fmt.Fprint(&b, "# HELP hermes_serve_groups_total Groups by result.\n# TYPE hermes_serve_groups_total counter\n")
	for _, e := range s.envs {
		s.met.with(e, func(c *counts) {
			fmt.Fprintf(&b, "hermes_serve_groups_total{env=%q,result=\"sent\"} %d\n", names[e], c.sent)
			for _, why := range slices.Sorted(maps.Keys(c.groups)) {
				fmt.Fprintf(&b, "hermes_serve_groups_total{env=%q,result=%q} %d\n", names[e], why, c.groups[why])
			}
		})
	}
	fmt.Fprint(&b, "# HELP hermes_serve_metric What Atropos' environments tell W&B, by its name there.\n# TYPE hermes_serve_metric gauge\n")
	for _, e := range s.envs {
		s.met.with(e, func(c *counts) {
			for _, list := range []map[string]float64{c.last, c.eval} {
				for _, name := range slices.Sorted(maps.Keys(list)) {
					fmt.Fprintf(&b, "hermes_serve_metric{name=%q} %g\n", name, list[name])
				}
			}
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

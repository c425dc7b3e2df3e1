// Package report makes the report of an evaluation out of what became of its samples:
// report.json, report.md and report.html, and the comparison of two evaluations.
//
// Denominators: every planned sample is scored, unscored (nothing to be judged by),
// failed by our fault, or pending. Metrics are about the scored ones and say how many
// they are; the bounds say what the mean would be if all others had earned 0 or 1. A
// missing sample is never a zero.
package report

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"hermes/envs/grade/figures"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// Sample is what a report needs of one finished sample.
type Sample struct {
	Task    string
	Cluster string             // tasks of one cluster are not independent; empty: the task is its own
	Number  int                // of the sample among those of its task
	Failure trajectory.Outcome // why our side failed; "" where it did not
	Reward  *float64           // nil: no score
	Answer  string             // what the grader read: majorities vote on it; empty: nothing to vote on
	Wanted  int                // tool calls that a perfect player makes; 0: unknown
	Calls   int
	Turns   int
	Tokens  int64
	Written int64    // of the tokens, those that the model wrote
	Cost    *float64 // dollars; nil: unknown
	Seconds float64

	Key     trajectory.Key
	Outcome trajectory.Outcome
	Why     string             // why our side failed, or what the grader said
	Parts   map[string]float64 // what each of several graders gave
	Labels  []Label            // of the task
}

// Scored reports whether the sample has a reward.
func (s Sample) Scored() bool { return s.Failure == "" && s.Reward != nil }

// Head is what a report says about the run.
type Head struct {
	Suite    string `json:"suite"`
	Model    string `json:"model"`
	Run      string `json:"run,omitempty"`
	Grader   string `json:"grader,omitempty"`
	Toolsets string `json:"toolsets,omitempty"`
}

// Bounds are the mean reward if every missing sample had earned 0, or 1. They are nil
// where nothing was planned.
type Bounds struct {
	Zero *float64 `json:"missing_as_0"`
	One  *float64 `json:"missing_as_1"`
}

// Counts are the samples: planned = scored + unscored + pending + Σ failed.
type Counts struct {
	Planned  int64            `json:"planned"`
	Scored   int64            `json:"scored"`
	Unscored int64            `json:"unscored"`
	Pending  int64            `json:"pending"`
	Failed   map[string]int64 `json:"failed"`
}

// missing are the planned samples without a score.
func (c Counts) missing() int64 { return c.Planned - c.Scored }

// Each is the mean of something over the finished samples.
type Each struct {
	Tokens     float64  `json:"tokens"`
	Completion float64  `json:"completion_tokens"`
	Turns      float64  `json:"turns"`
	Seconds    float64  `json:"seconds"`
	Calls      float64  `json:"tool_calls"`
	Efficiency *float64 `json:"tool_efficiency,omitempty"` // calls that were wanted over those made, at most 1; 0 where none were made
	CostUSD    *float64 `json:"cost_usd"`
}

// Report is report.json, with what the pages show beside it.
type Report struct {
	Head
	Metrics map[string]figures.Estimate `json:"metrics"`
	Refused string                      `json:"refused,omitempty"` // why --strict gives no metrics
	Bounds  Bounds                      `json:"bounds"`
	Samples Counts                      `json:"samples"`
	Tasks   int                         `json:"tasks"`
	MDE     float64                     `json:"minimum_detectable_effect,omitempty"`
	CostUSD *float64                    `json:"cost_usd"`
	Tokens  stats.Tokens                `json:"tokens"`
	Seconds float64                     `json:"seconds"`
	Each    Each                        `json:"per_sample"`
	Tools   map[string]Tool             `json:"tools"`
	Causes  map[string]int64            `json:"causes"` // of failed attempts, those that were tried again too
	Judge   *stats.Judge                `json:"judge,omitempty"`

	Graders    map[string]Part             `json:"graders,omitempty"`    // where several give a reward together
	Categories map[string]map[string]Group `json:"categories,omitempty"` // by label of the tasks, by value
	Settings   []Setting                   `json:"settings,omitempty"`

	Failed []Case `json:"-"` // by our fault, the first ones
	Lowest []Case `json:"-"` // of the samples with a reward below 1
	Links  []Link `json:"-"` // to other pages

	tasks   []taskLine
	unlined int                // tasks that are not among them
	scalars map[string]float64 // of the books
	plots   plots
	voted   bool // graders read answers, so that a majority can be found
}

// Tool counts the uses of one tool.
type Tool struct {
	Count     int     `json:"count"`
	Failure   int     `json:"failure"`
	ErrorRate float64 `json:"error_rate"`
}

// Builder takes samples in and makes the report. It holds about a hundred bytes for each;
// it belongs to one goroutine. Beside them it holds a bounded number of samples that failed or
// have the lowest rewards.
type Builder struct {
	head  Head
	tasks map[string]*task
	each  Each
	seed  maphash.Seed
	voted bool // some grader read answers
	turns map[int]int64
	more  details

	finished, known, efficient int64
	counts                     Counts
}

// task is what is kept of a task's samples.
type task struct {
	id      string
	cluster string
	rewards []float64
	answers []uint64 // beside rewards
	cost    float64
	priced  int
	tokens  int64
	seen    int
	failed  int
	labels  []Label
}

// New returns a Builder for a run.
func New(h Head) *Builder {
	return &Builder{head: h, tasks: map[string]*task{}, seed: maphash.MakeSeed(), turns: map[int]int64{}, more: newDetails(), counts: Counts{Failed: map[string]int64{}}}
}

// Add takes in the last word on a sample.
func (b *Builder) Add(s Sample) {
	t := b.tasks[s.Task]
	if t == nil {
		t = &task{id: strings.Clone(s.Task), cluster: strings.Clone(s.Cluster), labels: b.more.labels(s.Labels)}
		b.tasks[t.id] = t
	}
	b.more.add(s)
	if s.Failure != "" {
		t.failed++
		b.counts.Failed[string(s.Failure)]++
		return
	}
	b.finished++
	t.seen++
	t.tokens += s.Tokens
	b.each.Tokens += float64(s.Tokens)
	b.each.Completion += float64(s.Written)
	b.each.Turns += float64(s.Turns)
	b.each.Seconds += s.Seconds
	b.each.Calls += float64(s.Calls)
	b.turns[s.Turns]++
	if s.Cost != nil {
		t.cost, t.priced = t.cost+*s.Cost, t.priced+1
		b.each.CostUSD = ptr(*cmp.Or(b.each.CostUSD, new(float64)) + *s.Cost)
		b.known++
	}
	if s.Wanted > 0 {
		share := 0.0
		if s.Calls > 0 {
			share = min(1, float64(s.Wanted)/float64(s.Calls))
		}
		b.each.Efficiency = ptr(*cmp.Or(b.each.Efficiency, new(float64)) + share)
		b.efficient++
	}
	if s.Reward == nil {
		b.counts.Unscored++
		return
	}
	b.counts.Scored++
	t.rewards = append(t.rewards, *s.Reward)
	vote := maphash.String(b.seed, s.Answer)
	if s.Answer == "" { // nothing was read: it agrees with no other
		vote = maphash.Comparable(b.seed, b.counts.Scored)
	}
	t.answers = append(t.answers, vote)
	b.voted = b.voted || s.Answer != ""
}

// Options of a report.
type Options struct {
	Planned int64
	Strict  bool // no metrics while a planned sample has no score
	Seed    uint64
	Books   stats.Statistics // what the whole run cost

	Settings []Setting
	Links    []Link            // to other pages
	Link     func(Case) []Link // to the pages of a sample; nil: there are none
}

// Report makes the figures.
func (b *Builder) Report(o Options) (*Report, error) {
	r := &Report{Head: b.head, Metrics: map[string]figures.Estimate{}, Samples: b.counts, Tasks: len(b.tasks),
		CostUSD: o.Books.CostUSD, Tokens: o.Books.Tokens, Seconds: o.Books.Seconds, Judge: o.Books.Judge, Causes: o.Books.Causes, Tools: map[string]Tool{}, voted: b.voted, scalars: o.Books.Scalars()}
	r.Samples.Planned = o.Planned
	r.Samples.Failed = maps.Clone(b.counts.Failed)
	r.Samples.Pending = o.Planned - b.counts.Scored - b.counts.Unscored
	for _, n := range b.counts.Failed {
		r.Samples.Pending -= n
	}
	if r.Samples.Pending < 0 {
		return nil, fmt.Errorf("report: %d samples were planned, %d are there", o.Planned, o.Planned-r.Samples.Pending)
	}
	for name, c := range o.Books.Tools {
		t := Tool{Count: c.Count, Failure: c.Failure}
		if c.Count > 0 {
			t.ErrorRate = float64(c.Failure) / float64(c.Count)
		}
		r.Tools[name] = t
	}
	r.Each = b.perSample()
	tasks := slices.SortedFunc(maps.Values(b.tasks), func(x, y *task) int { return strings.Compare(x.id, y.id) })
	r.bounds(tasks)
	if n := r.scoredTasks(tasks); n > 0 {
		r.MDE = figures.MDE(n, 0.5, 0.5, 0.05, 0.8)
	}
	if o.Strict && r.Samples.missing() > 0 {
		r.Refused = fmt.Sprintf("%d of %d planned samples have no score: with --strict there is no figure before all have one", r.Samples.missing(), o.Planned)
	} else {
		r.metrics(tasks, figures.Options{Seed: o.Seed})
	}
	r.plot(tasks, b.turns)
	r.detail(&b.more, tasks, o)
	return r, nil
}

// detail takes over what is shown beside the figures. With --strict there are no means.
func (r *Report) detail(d *details, tasks []*task, o Options) {
	if r.Refused == "" {
		r.Graders, r.Categories = d.graders(), d.categories(tasks, figures.Options{Seed: o.Seed})
	}
	d.lowest()
	r.Settings, r.Links, r.Failed, r.Lowest = o.Settings, o.Links, d.failed, d.low
	r.tasks, r.unlined = taskLines(tasks, r.Categories)
	if o.Link == nil {
		return
	}
	for _, list := range [][]Case{r.Failed, r.Lowest} {
		for i, c := range list {
			list[i].Links = o.Link(c)
		}
	}
}

func (r *Report) scoredTasks(tasks []*task) (n int) {
	for _, t := range tasks {
		if len(t.rewards) > 0 {
			n++
		}
	}
	return n
}

func (b *Builder) perSample() Each {
	e := b.each
	share := func(v *float64, n int64) *float64 {
		if v == nil || n == 0 {
			return nil
		}
		return ptr(*v / float64(n))
	}
	e.CostUSD, e.Efficiency = share(e.CostUSD, b.known), share(e.Efficiency, b.efficient)
	if b.finished > 0 {
		n := float64(b.finished)
		e.Tokens, e.Completion, e.Turns, e.Seconds, e.Calls = e.Tokens/n, e.Completion/n, e.Turns/n, e.Seconds/n, e.Calls/n
	}
	return e
}

// bounds say what the mean would be over all planned samples.
func (r *Report) bounds(tasks []*task) {
	if r.Samples.Planned == 0 {
		return
	}
	var sum figures.Total
	for _, t := range tasks {
		for _, x := range t.rewards {
			sum.Add(x)
		}
	}
	n := float64(r.Samples.Planned)
	low := sum.Over(n)
	sum.Add(float64(r.Samples.missing()))
	r.Bounds = Bounds{ptr(low), ptr(sum.Over(n))}
}

// metrics are the means and, where rewards are 0 or 1, pass@k and its relatives.
func (r *Report) metrics(tasks []*task, o figures.Options) {
	binary, most := true, 0
	var rewards [][]float64
	cluster := clusters(tasks)
	for i, t := range tasks {
		if cluster == nil {
			rewards = append(rewards, t.rewards)
		} else {
			for cluster[i] >= len(rewards) {
				rewards = append(rewards, nil)
			}
			rewards[cluster[i]] = append(rewards[cluster[i]], t.rewards...)
		}
		most = max(most, len(t.rewards))
		binary = binary && !slices.ContainsFunc(t.rewards, func(x float64) bool { return x != 0 && x != 1 })
	}
	e, ok := figures.Mean(rewards, o)
	if !ok {
		return
	}
	e.Denominator = "scored samples"
	r.Metrics["reward"] = e
	if !binary {
		return
	}
	r.Metrics["accuracy"] = e
	r.plots.curve = nil
	for _, k := range ks(most) {
		at, hat, maj := overK(tasks, cluster, k, r.voted, o)
		r.Metrics[fmt.Sprintf("pass@%d", k)] = at
		if k > 1 {
			r.Metrics[fmt.Sprintf("pass^%d", k)] = hat
			if maj != nil {
				r.Metrics[fmt.Sprintf("maj@%d", k)] = *maj
			}
		}
		r.plots.curve = append(r.plots.curve, point{k, at, hat, maj})
	}
}

// ks are the powers of two up to n, and n.
func ks(n int) (list []int) {
	for k := 1; k < n; k *= 2 {
		list = append(list, k)
	}
	return append(list, n)
}

// overK averages over the tasks that have at least k scored samples. maj is nil if
// voted is false.
func overK(tasks []*task, cluster []int, k int, voted bool, o figures.Options) (at, hat figures.Estimate, maj *figures.Estimate) {
	var ats, hats, majs []float64
	var of []int // their clusters
	several := false
	for i, t := range tasks {
		n, right := len(t.rewards), 0
		if n < k || n == 0 {
			continue
		}
		several = several || n > 1
		wrong := map[uint64]int{}
		for i, x := range t.rewards {
			if x == 1 {
				right++
			} else {
				wrong[t.answers[i]]++
			}
		}
		if cluster != nil {
			of = append(of, cluster[i])
		}
		ats, hats = append(ats, figures.PassAtK(n, right, k)), append(hats, figures.PassHatK(n, right, k))
		if voted {
			majs = append(majs, figures.MajAtK(right, slices.Sorted(maps.Values(wrong)), k))
		}
	}
	what := "tasks"
	if k > 1 {
		what = fmt.Sprintf("tasks with at least %d scored samples", k)
	}
	over := func(xs []float64) figures.Estimate {
		e, _ := figures.OverTasks(xs, of, several, o)
		e.Denominator = what
		return e
	}
	if voted {
		maj = ptr(over(majs))
	}
	return over(ats), over(hats), maj
}

// clusters numbers the cluster of each task; nil where no task names one.
func clusters(tasks []*task) []int {
	if !slices.ContainsFunc(tasks, func(t *task) bool { return t.cluster != "" }) {
		return nil
	}
	seen := map[string]int{}
	out := make([]int, len(tasks))
	for i, t := range tasks {
		name := "task " + t.id
		if t.cluster != "" {
			name = "cluster " + t.cluster
		}
		if _, ok := seen[name]; !ok {
			seen[name] = len(seen)
		}
		out[i] = seen[name]
	}
	return out
}

func ptr[T any](v T) *T { return &v }

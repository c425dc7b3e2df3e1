package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"hermes/envs/grade/figures"
	"hermes/trajectory"
)

// Link leads from a page to another one beside it.
type Link struct{ Name, Href string }

// Setting is one setting of a run.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Label is a property of a task by which means are given, such as category=algebra.
type Label struct{ Key, Value string }

// Group is the mean reward of some of the samples.
type Group struct {
	Tasks  int              `json:"tasks"`
	Reward figures.Estimate `json:"reward"`
}

// Part is what one of several graders gave, over the samples that it judged.
type Part struct {
	N    int64   `json:"n"`
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`

	sum figures.Total
}

// Case is a sample that a page names: one that failed by our fault, or one of the lowest rewards.
type Case struct {
	Task    string
	Number  int
	Key     trajectory.Key
	Outcome trajectory.Outcome
	Reward  *float64
	Why     string // the reason of the failure, or what the grader said
	Answer  string
	Links   []Link
}

// Bounds of what a report holds and shows beside its figures.
const (
	mostCases  = 100  // of each kind
	mostTasks  = 500  // lines of the table
	mostParts  = 100  // names of graders
	mostValues = 60   // values of a label; a key with more is no category
	mostText   = 300  // letters of an answer or reason
	mostExact  = 5000 // tasks with which means of labels still get intervals
)

// details are what a Builder collects beside the figures.
type details struct {
	parts  map[string]*Part
	values map[string]map[string]string // of labels: key, value, the one copy of value; nil: too many
	failed []Case
	low    []Case
}

func newDetails() details {
	return details{parts: map[string]*Part{}, values: map[string]map[string]string{}}
}

// add takes in a sample. The texts of a case are copied: they may share a record's memory.
func (d *details) add(s Sample) {
	c := Case{Task: s.Task, Number: s.Number, Key: s.Key, Outcome: cmp.Or(s.Failure, s.Outcome), Reward: s.Reward, Why: s.Why, Answer: s.Answer}
	switch {
	case s.Failure != "":
		if len(d.failed) < mostCases {
			d.failed = append(d.failed, c.clone())
		}
		return
	case s.Reward == nil:
		return
	}
	for name, x := range s.Parts {
		p := d.parts[name]
		if p == nil {
			if len(d.parts) >= mostParts {
				continue
			}
			p = &Part{Low: x, High: x}
			d.parts[strings.Clone(name)] = p
		}
		p.N++
		p.Low, p.High = min(p.Low, x), max(p.High, x)
		p.sum.Add(x)
	}
	if *s.Reward >= 1 {
		return
	}
	d.low = append(d.low, c.clone())
	if len(d.low) >= 2*mostCases {
		d.lowest()
	}
}

func (c Case) clone() Case {
	c.Task, c.Why, c.Answer = strings.Clone(c.Task), clip(c.Why), clip(c.Answer)
	return c
}

// clip is a copy of the beginning of a text: the rest of the text is not kept in memory.
func clip(text string) string {
	n := 0
	for i := range text {
		n++
		if n > mostText {
			return text[:i] + " …"
		}
	}
	return strings.Clone(text)
}

// lowest keeps the cases with the lowest rewards, those of the first tasks where equal.
func (d *details) lowest() {
	slices.SortStableFunc(d.low, func(a, b Case) int {
		return cmp.Or(cmp.Compare(*a.Reward, *b.Reward), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Number, b.Number))
	})
	d.low = d.low[:min(len(d.low), mostCases)]
}

// labels returns one copy of each of a task's labels, without keys that have too many values.
func (d *details) labels(list []Label) (out []Label) {
	for _, l := range list {
		known, seen := d.values[l.Key]
		if !seen {
			known = map[string]string{}
			d.values[strings.Clone(l.Key)] = known
		}
		if known == nil {
			continue
		}
		v, ok := known[l.Value]
		if !ok {
			if len(known) >= mostValues {
				d.values[l.Key] = nil
				continue
			}
			v = strings.Clone(l.Value)
			known[v] = v
		}
		out = append(out, Label{l.Key, v})
	}
	return out
}

// graders are the means of the parts.
func (d *details) graders() map[string]Part {
	out := map[string]Part{}
	for name, p := range d.parts {
		p.Mean = p.sum.Over(float64(p.N))
		out[name] = *p
	}
	return out
}

// categories are the mean rewards by each label that has more than one value.
func (d *details) categories(tasks []*task, o figures.Options) map[string]map[string]Group {
	out := map[string]map[string]Group{}
	for key, values := range d.values {
		if len(values) < 2 {
			continue
		}
		rewards := map[string][][]float64{}
		for _, t := range tasks {
			for _, l := range t.labels {
				if l.Key == key && len(t.rewards) > 0 {
					rewards[l.Value] = append(rewards[l.Value], t.rewards)
				}
			}
		}
		groups := map[string]Group{}
		for v, list := range rewards {
			if e, ok := meanOf(list, len(tasks) <= mostExact, o); ok {
				groups[v] = Group{len(list), e}
			}
		}
		if len(groups) > 0 {
			out[key] = groups
		}
	}
	return out
}

// meanOf is the mean of rewards, with an interval unless there are too many tasks for that.
func meanOf(list [][]float64, exact bool, o figures.Options) (figures.Estimate, bool) {
	if exact {
		e, ok := figures.Mean(list, o)
		e.Denominator = "scored samples"
		return e, ok
	}
	var sum figures.Total
	n := 0
	for _, t := range list {
		for _, x := range t {
			sum.Add(x)
			n++
		}
	}
	return figures.Estimate{Value: sum.Over(float64(n)), N: n, Denominator: "scored samples", Method: "none"}, n > 0
}

// taskLine is a task on the page.
type taskLine struct {
	ID     string
	N      int
	Mean   float64
	Failed int
	Labels string
}

// taskLines are the tasks in the order of their means, the lowest first, and how many are left
// out. Of their labels they have those that are categories.
func taskLines(tasks []*task, categories map[string]map[string]Group) (list []taskLine, left int) {
	for _, t := range tasks {
		l := taskLine{ID: t.id, N: len(t.rewards), Failed: t.failed}
		for _, x := range t.rewards {
			l.Mean += x / float64(len(t.rewards))
		}
		var labels []string
		for _, x := range t.labels {
			if categories[x.Key] != nil {
				labels = append(labels, x.Value)
			}
		}
		l.Labels = strings.Join(labels, ", ")
		list = append(list, l)
	}
	slices.SortStableFunc(list, func(a, b taskLine) int {
		scored := func(l taskLine) int { return min(l.N, 1) }
		return cmp.Or(scored(b)-scored(a), cmp.Compare(a.Mean, b.Mean))
	})
	left = max(0, len(list)-mostTasks)
	return list[:len(list)-left], left
}

// tone is the class by which pages colour a reward: from r0 (0 or less) to r10 (1 or more).
func tone(reward float64) string {
	steps := []string{"r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10"}
	return steps[int(min(max(reward, 0), 1)*10)]
}

// sorted lists a map by its keys.
func sorted[T any](m map[string]T) (list []struct {
	Name string
	V    T
}) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, struct {
			Name string
			V    T
		}{k, m[k]})
	}
	return list
}

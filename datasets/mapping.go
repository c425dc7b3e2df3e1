package datasets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/internal/nearest"
)

// Mapping says what the keys of rows are used for, and in how many rows.
type Mapping struct {
	Rows    int64            // rows that were looked at
	Task    map[string]int64 // keys that gave the task
	ID      int64            // rows with their own id
	Scoring map[string]int64 // keys from which graders are made
	Hermes  map[string]int64 // overrides
	Extra   map[string]int64 // carried along; at most maxExtra different ones
	Renamed map[string]string
}

const maxExtra = 1000

func newMapping(o Options) Mapping {
	return Mapping{Task: map[string]int64{}, Scoring: map[string]int64{}, Hermes: map[string]int64{}, Extra: map[string]int64{}, Renamed: o.Map}
}

func (m *Mapping) add(r *Row) {
	m.Rows++
	m.Task[r.Task]++
	if r.Explicit {
		m.ID++
	}
	s, h := &r.Scoring, &r.Hermes
	count(m.Scoring, "answer", s.Answer != nil)
	count(m.Scoring, "expected", s.Expected != nil)
	count(m.Scoring, "expected_tools", s.ExpectedTools != nil)
	count(m.Scoring, "rubric", s.Rubric != nil)
	count(m.Scoring, "checker", s.Checker != nil)
	count(m.Scoring, "reward_model.ground_truth", s.GroundTruth != nil)
	count(m.Scoring, "solution", s.Solution != nil)
	count(m.Hermes, "image", h.Image != "")
	count(m.Hermes, "cwd", h.Cwd != "")
	count(m.Hermes, "files", h.Files != nil)
	count(m.Hermes, "env", h.Env != nil)
	count(m.Hermes, "toolsets", h.Toolsets != nil)
	count(m.Hermes, "network", h.Network != nil)
	count(m.Hermes, "verify", h.Verify.Mode != "")
	count(m.Hermes, "processes", h.Processes != "")
	count(m.Hermes, "system", h.System != nil)
	count(m.Hermes, "prefill", h.Prefill != nil)
	count(m.Hermes, "script", h.Script != nil)
	for key := range r.Extra {
		if n, known := m.Extra[key]; known || len(m.Extra) < maxExtra {
			m.Extra[key] = n + 1
		}
	}
}

// keys are the keys that rows have, as far as they were counted.
func (m *Mapping) keys() []string {
	return slices.Concat(sortedKeys(m.Task), sortedKeys(m.Scoring), sortedKeys(m.Extra))
}

func count(in map[string]int64, key string, used bool) {
	if used {
		in[key]++
	}
}

// String is the text for people, one use a line.
func (m Mapping) String() string {
	var b strings.Builder
	line := func(name string, in map[string]int64) {
		if len(in) == 0 {
			return
		}
		keys := sortedKeys(in)
		slices.SortStableFunc(keys, func(a, b string) int { return int(in[b] - in[a]) })
		for i, k := range keys {
			if in[k] != m.Rows {
				keys[i] = fmt.Sprintf("%s (%d of %d rows)", k, in[k], m.Rows)
			}
		}
		if len(keys) > 20 {
			keys = append(keys[:20], fmt.Sprintf("and %d more", len(in)-20))
		}
		fmt.Fprintf(&b, "%-8s ← %s\n", name, strings.Join(keys, ", "))
	}
	line("task", m.Task)
	switch m.ID {
	case 0:
		fmt.Fprintf(&b, "%-8s ← index and hash of the content\n", "id")
	default:
		line("id", map[string]int64{"id": m.ID})
	}
	line("scoring", m.Scoring)
	line("hermes", m.Hermes)
	line("metadata", m.Extra)
	for _, key := range sortedKeys(m.Extra) {
		if known := likely(key); known != "" {
			fmt.Fprintf(&b, "         %s is carried along only (did you mean %s?)\n", key, known)
		}
	}
	for _, from := range sortedKeys(m.Renamed) {
		fmt.Fprintf(&b, "%-8s ← %s → %s\n", "renamed", from, m.Renamed[from])
	}
	return b.String()
}

// likely returns the key with a meaning that key was probably meant to be, or "". Two wrong
// letters are the most, and short keys are not guessed at: data has many of them.
func likely(key string) string {
	known := append([]string{"expected", "expected_tools", "rubric", "checker", "solution", "answer", "hermes", "reward_model"}, taskKeys...)
	n := nearest.Name(key, known)
	if n == "" || len(key) < 5 || strings.Contains(n, key) || strings.Contains(key, n) || nearest.Distance(key, n) > 2 {
		return ""
	}
	return n
}

// Mapping looks at the first rows, n of them at most, and says what their keys are
// used for. It fails only when there is no row that can be used among them.
func (d *Dataset) Mapping(ctx context.Context, n int) (Mapping, error) {
	m := newMapping(d.o)
	var first error
	for row, err := range d.Rows(ctx) {
		var bad *RowError
		if err != nil && !errors.As(err, &bad) {
			return m, err
		}
		if err != nil && first == nil {
			first = err
		}
		if err == nil {
			m.add(&row)
		}
		n--
		if n <= 0 {
			break
		}
	}
	if m.Rows == 0 && first == nil {
		first = errors.New("no rows")
	}
	if m.Rows > 0 {
		first = nil
	}
	return m, first
}

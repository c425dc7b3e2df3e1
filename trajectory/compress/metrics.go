package compress

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
)

// Metrics are the books of one piece of work: Rows is the sum of the five states.
type Metrics struct {
	Rows         int64            `json:"rows"`
	Under        int64            `json:"under"`
	Compressed   int64            `json:"compressed"`
	Over         int64            `json:"over"`
	Kept         int64            `json:"kept"`
	Unreadable   int64            `json:"unreadable"`
	Reasons      map[string]int64 `json:"reasons"`   // of kept and unreadable rows
	Summaries    map[string]int64 `json:"summaries"` // by kind: model, extractive
	Fallbacks    int64            `json:"fallbacks"` // extracts for want of a model's summary
	Causes       map[string]int64 `json:"fallback_causes"`
	Cut          int64            `json:"cut"` // summaries longer than allowed
	TokensBefore int64            `json:"tokens_before"`
	TokensAfter  int64            `json:"tokens_after"`
	TurnsBefore  int64            `json:"turns_before"`
	TurnsAfter   int64            `json:"turns_after"`
	Ratio        float64          `json:"ratio"` // tokens after by before, all rows
	Seconds      float64          `json:"summary_seconds"`
	Target       int              `json:"target"`
	Tokenizer    string           `json:"tokenizer"`
	Summarizer   string           `json:"summarizer"`
}

// maxCauses bounds the different texts that are counted apart.
const maxCauses = 50

func tally(m map[string]int64, text string) map[string]int64 {
	if m == nil {
		m = map[string]int64{}
	}
	if _, ok := m[text]; !ok && len(m) >= maxCauses {
		text = "others"
	}
	m[text]++
	return m
}

func (m *Metrics) add(r Result) {
	m.Rows++
	switch r.Status {
	case Under:
		m.Under++
	case Compressed:
		m.Compressed++
	case Over:
		m.Over++
	case Kept:
		m.Kept++
	case Unreadable:
		m.Unreadable++
	}
	if r.Reason != "" {
		m.Reasons = tally(m.Reasons, r.Reason)
	}
	if r.Summary != "" {
		m.Summaries = tally(m.Summaries, r.Summary)
	}
	if r.Fallback != "" {
		m.Fallbacks++
		m.Causes = tally(m.Causes, fmt.Sprintf("%.200s", r.Fallback))
	}
	if r.Cut {
		m.Cut++
	}
	m.TokensBefore += int64(r.TokensBefore)
	m.TokensAfter += int64(r.TokensAfter)
	m.TurnsBefore += int64(r.TurnsBefore)
	m.TurnsAfter += int64(r.TurnsAfter)
	m.Seconds += r.Seconds
	m.Ratio = float64(m.TokensAfter) / float64(cmp.Or(m.TokensBefore, 1))
}

// Balance objects where rows and states do not add up.
func (m Metrics) Balance() error {
	if sum := m.Under + m.Compressed + m.Over + m.Kept + m.Unreadable; sum != m.Rows {
		return fmt.Errorf("the books do not balance: %d rows, %d states", m.Rows, sum)
	}
	return nil
}

// Write writes the metrics for people.
func (m Metrics) Write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "rows %d = under %d + compressed %d + over %d + kept %d + unreadable %d\ntokens %d -> %d (%.1f %%), turns %d -> %d, summaries cut %d, fallbacks %d\n",
		m.Rows, m.Under, m.Compressed, m.Over, m.Kept, m.Unreadable, m.TokensBefore, m.TokensAfter, 100*m.Ratio, m.TurnsBefore, m.TurnsAfter, m.Cut, m.Fallbacks)
	for _, reasons := range []map[string]int64{m.Reasons, m.Causes} {
		for _, e := range sorted(reasons) {
			if err == nil {
				_, err = fmt.Fprintf(w, "  %d: %s\n", e.n, e.text)
			}
		}
	}
	return err
}

// JSON is the metrics file.
func (m Metrics) JSON() ([]byte, error) {
	raw, err := json.MarshalIndent(m, "", "  ")
	return append(raw, '\n'), err
}

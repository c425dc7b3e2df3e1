package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"hermes/internal/printable"
	"hermes/rollout/journal"
	"hermes/trajectory"
)

// Show writes what a run is, or with what the transcript of one sample (KEY, ROW or
// ROW/SAMPLE).
func (r *Run) Show(ctx context.Context, w io.Writer, what string, asJSON bool) error {
	if !asJSON {
		w = printable.NewWriter(w)
	}
	if what != "" {
		rec, err := r.Find(ctx, what)
		if err != nil {
			return err
		}
		if asJSON {
			return encode(w, rec)
		}
		return transcript(w, rec)
	}
	s, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		identity := map[string]string{}
		for _, f := range r.Manifest.Identity {
			identity[f.Name] = f.Value
		}
		return encode(w, map[string]any{"dir": r.Dir, "version": r.Manifest.Version, "created": r.Manifest.Created,
			"identity": identity, "extent": r.Manifest.Extent, "books": r.Manifest.Books, "statistics": s})
	}
	fmt.Fprintf(w, "%s, begun %s with hermes %s\n\n", r.Dir, r.Manifest.Created.Format(time.DateTime), r.Manifest.Version)
	for _, f := range r.Manifest.Identity {
		fmt.Fprintf(w, "  %s: %s\n", f.Name, clip(f.Value, 100))
	}
	fmt.Fprintf(w, "\nplanned %d, accepted %d, rejected %s, failed %s, pending %d\n", s.Planned, s.Accepted, counted(s.Rejected), counted(s.Failed), s.Pending)
	if said := s.Verdicts(); said != "" {
		fmt.Fprintln(w, said)
	}
	return nil
}

// counted is a sum with what it is made of: 3 (duplicate 1, format 2).
func counted(by map[string]int64) string {
	var sum int64
	var list []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if n := by[name]; n > 0 {
			sum += n
			list = append(list, fmt.Sprintf("%s %d", name, n))
		}
	}
	if sum == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", sum, strings.Join(list, ", "))
}

// parts are the rewards of graders in brackets; nothing where there is one grader.
func parts(by map[string]float64) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		list = append(list, fmt.Sprintf("%s %g", name, by[name]))
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + " …"
	}
	return s
}

// Transcript writes a sample as people read it.
func Transcript(w io.Writer, r *trajectory.Record) error {
	return transcript(printable.NewWriter(w), r)
}

// transcript writes a sample as people read it. Ephemeral messages are left out.
func transcript(w io.Writer, r *trajectory.Record) error {
	fmt.Fprintf(w, "%s, sample %d, attempt %d: %s (%s) %s\n", r.Row, r.Sample, r.Attempt, r.Outcome, r.Stop.Reason, r.Reason)
	if r.Score != nil {
		fmt.Fprintf(w, "reward %g%s %s\n", r.Score.Reward, parts(r.Score.Parts), r.Score.Detail)
	}
	if r.Verified != "" {
		fmt.Fprintf(w, "judged in a box: %s\n", r.Verified)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	faults := r.Trace.VisibleFaults()
	for i, m := range r.Trace.Visible() {
		fmt.Fprintf(w, "\n── %s %s\n", m.Role, m.Name)
		if m.Reasoning != "" {
			fmt.Fprintf(w, "(thinking) %s\n", m.Reasoning)
		}
		if text := m.Content(); text != "" {
			fmt.Fprintln(w, text)
		}
		for _, c := range m.Calls {
			state := ""
			if c.State != trajectory.CallComplete {
				state = " [" + c.State.String() + "]"
			}
			fmt.Fprintf(w, "→ %s %s%s\n", c.Name, c.Arguments, state)
		}
		for _, f := range faults[i] {
			fmt.Fprintf(w, "! %s: %s (bytes %d to %d)\n", f.Kind, f.Message, f.From, f.To)
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

// tailLine is one record as Tail tells it.
type tailLine struct {
	Kind    string             `json:"kind"`
	Key     trajectory.Key     `json:"key"`
	ID      string             `json:"id"`
	Sample  int                `json:"sample"`
	Attempt int                `json:"attempt"`
	Outcome trajectory.Outcome `json:"outcome"`
	Book    string             `json:"book,omitempty"`
	Reward  *float64           `json:"reward"`
	Turns   int                `json:"turns"`
	Seconds float64            `json:"seconds"`
	Reason  string             `json:"reason,omitempty"`
}

// Tail writes the last n records, one a line, and with follow those that come until ctx
// ends; it looks every poll (0 means one second).
func Tail(ctx context.Context, w io.Writer, dir string, n int, follow bool, poll time.Duration, asJSON bool) error {
	r, err := Open(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	if !asJSON {
		w = printable.NewWriter(w)
	}
	at, err := r.lastEntries(ctx, n)
	if err != nil {
		return err
	}
	if poll <= 0 {
		poll = time.Second
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		at, err = r.tell(ctx, w, at, asJSON)
		if err != nil || !follow {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := r.Journal.Refresh(); err != nil {
			return err
		}
	}
}

// lastEntries is the offset from which n records are left.
func (r *Run) lastEntries(ctx context.Context, n int) (journal.Offset, error) {
	var ring []journal.Offset
	end := journal.Offset(0)
	for e, err := range r.Journal.Records(ctx, 0) {
		if err != nil {
			return 0, err
		}
		end = e.Next
		if e.Kind != journal.KindFinal && e.Kind != journal.KindAttempt {
			continue
		}
		ring = append(ring, e.At)
		if len(ring) > n {
			ring = ring[1:]
		}
	}
	if len(ring) == 0 {
		return end, nil
	}
	return ring[0], nil
}

// tell writes the records from at on and returns where it stopped.
func (r *Run) tell(ctx context.Context, w io.Writer, at journal.Offset, asJSON bool) (journal.Offset, error) {
	for e, err := range r.Journal.Records(ctx, at) {
		if ctx.Err() != nil {
			return at, nil
		}
		if err != nil {
			return at, err
		}
		at = e.Next
		if e.Kind != journal.KindFinal && e.Kind != journal.KindAttempt {
			continue
		}
		rec, err := e.Record()
		if err != nil {
			return at, err
		}
		l := tailLine{Kind: e.Kind.String(), Key: e.Key, ID: rec.Row, Sample: rec.Sample, Attempt: rec.Attempt, Outcome: rec.Outcome,
			Turns: rec.Trace.Turns(), Seconds: rec.Seconds, Reason: rec.Reason}
		if e.Kind == journal.KindFinal {
			in, err := r.sorter.Enter(e.At, rec)
			if err != nil {
				return at, err
			}
			l.Book, l.Reason = string(in.Book), in.Why
			if in.Sub != "" {
				l.Book += "." + in.Sub
			}
		}
		if rec.Score != nil {
			l.Reward = &rec.Score.Reward
		}
		if err := l.write(w, asJSON); err != nil {
			return at, err
		}
	}
	return at, nil
}

func (l tailLine) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return encode(w, l)
	}
	reward := "-"
	if l.Reward != nil {
		reward = fmt.Sprintf("%g", *l.Reward)
	}
	_, err := fmt.Fprintf(w, "%s/%d  attempt %d  %s  %s  reward %s  %d turns  %.1f s  %s\n",
		l.ID, l.Sample, l.Attempt, l.Outcome, l.Book, reward, l.Turns, l.Seconds, clip(l.Reason, 120))
	return err
}

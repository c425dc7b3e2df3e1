package runs

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"hermes/rollout/journal"
	"hermes/rollout/policy"
	"hermes/trajectory"
)

// OpenSampler opens the sampler that is to ask again what a record's model was asked. All
// answers come from the tape; it must buy none.
type OpenSampler func(r *trajectory.Record, t policy.Tape) (policy.Sampler, error)

// Replayed is what Replay found.
type Replayed struct {
	Run     string     `json:"run"`
	Samples int        `json:"samples"` // with a final record in force
	Turns   int        `json:"turns"`   // requests that were compared
	Differ  int        `json:"differ"`  // samples with a request that differs
	Missing int        `json:"missing"` // turns whose answers the log does not hold
	First   *Deviation `json:"first,omitempty"`
}

// Deviation is a request that is not built as it was. Digests are hexadecimal digits.
type Deviation struct {
	Row     string `json:"row"`
	Sample  int    `json:"sample"`
	Turn    int    `json:"turn"` // from 1, abandoned ones counted
	Stored  string `json:"stored"`
	Rebuilt string `json:"rebuilt,omitempty"` // empty: no request was built
	Reason  string `json:"reason"`
}

func (d *Deviation) String() string {
	return fmt.Sprintf("row %s, sample %d, turn %d: %s", d.Row, d.Sample, d.Turn, d.Reason)
}

// Same reports whether everything could be compared and nothing differs.
func (r Replayed) Same() bool { return r.Differ == 0 && r.Missing == 0 }

// Replay feeds the messages and stored answers of every finished sample to the samplers
// that open returns and compares the digest of each request with the stored one. A sample
// is left at its first difference; the error is one of the log or of ctx.
func (r *Run) Replay(ctx context.Context, open OpenSampler) (Replayed, error) {
	out := Replayed{Run: r.Dir}
	for h, err := range r.Journal.Histories(ctx) {
		if err != nil {
			return out, err
		}
		if !h.Current {
			continue
		}
		rec, err := h.Record()
		if err != nil {
			return out, err
		}
		out.Samples++
		if rec.Trace == nil {
			continue
		}
		if err := out.sample(ctx, h, rec, open); err != nil {
			return out, fmt.Errorf("row %s, sample %d: %w", rec.Row, rec.Sample, err)
		}
	}
	return out, nil
}

// question is one request of a trace: the place that it continued and what was added.
type question struct {
	at     trajectory.NodeID
	given  []trajectory.Message
	finish trajectory.Finish
}

// questions are the requests that led to answers, in the order in which they were asked.
func questions(t *trajectory.Trace) []question {
	var list []question
	q := question{}
	begun := false
	for _, n := range t.Nodes {
		if !begun {
			q, begun = question{at: n.Parent}, true
		}
		if !n.Sampled() {
			q.given = append(q.given, n.Delta.Message)
			continue
		}
		q.finish, begun = n.Finish, false
		list = append(list, q)
	}
	return list
}

// sample asks again what one sample asked.
func (out *Replayed) sample(ctx context.Context, h journal.History, rec *trajectory.Record, open OpenSampler) error {
	next, stop := iter.Pull2(h.Turns())
	defer stop()
	tape := &strict{next: next}
	s, err := open(rec, tape)
	if err != nil {
		return err
	}
	defer s.Close()
	t := trajectory.New(rec.Trace.Mode, rec.Tools)
	for i, q := range questions(rec.Trace) {
		if q.finish == trajectory.FinishAborted {
			return nil // an answer that was cut off is not kept, and nothing comes after it
		}
		if !tape.begin() {
			if tape.err != nil {
				return tape.err
			}
			out.Missing++
			continue
		}
		out.Turns++
		err := again(ctx, s, t, q)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if tape.err != nil {
			return tape.err
		}
		if d := tape.deviation(err); d != nil {
			d.Row, d.Sample, d.Turn = rec.Row, rec.Sample, i+1
			out.Differ++
			if out.First == nil {
				out.First = d
			}
			return nil
		}
	}
	return nil
}

// again asks one question and commits the stored answer.
func again(ctx context.Context, s policy.Sampler, t *trajectory.Trace, q question) error {
	if t.Head != q.at {
		if err := t.Rewind(q.at, trajectory.Branch); err != nil {
			return err
		}
	}
	turn, err := s.Next(ctx, t.Prefix(), q.given, nil)
	if err == nil {
		_, err = t.Commit(turn)
	}
	return err
}

// strict is a tape that gives the stored answers in their order, each to its own request
// only. One question may take several of them: an answer that the server broke off goes on
// with another request. It notes the request that was looked up first, or the one that
// fits no more.
type strict struct {
	next   func() (journal.StoredTurn, error, bool)
	err    error // of the log
	ready  bool  // stored is the answer that comes next
	stored journal.StoredTurn

	// Of the question under way.
	want  [32]byte // the request whose answer came last, or comes next
	first [32]byte // the request that was looked up first, or last without an answer
	asked bool
	hit   bool
}

// begin reports whether there is an answer to one more question.
func (s *strict) begin() bool {
	s.asked, s.hit = false, false
	if s.fill() {
		s.want = s.stored.Digest
	}
	return s.ready
}

// fill reads the next answer unless it is there.
func (s *strict) fill() bool {
	if !s.ready && s.err == nil {
		s.stored, s.err, s.ready = s.next()
		s.ready = s.ready && s.err == nil
	}
	return s.ready
}

// Lookup gives the answer to its own request only.
func (s *strict) Lookup(digest [32]byte) ([]byte, bool) {
	if !s.asked || s.hit {
		s.first, s.asked = digest, true
	}
	s.hit = s.Peek(digest)
	if !s.hit {
		if s.fill() {
			s.want = s.stored.Digest
		}
		return nil, false
	}
	s.ready, s.want = false, s.stored.Digest
	return s.stored.Answer, true
}

// Peek reports whether the next answer is to this request.
func (s *strict) Peek(digest [32]byte) bool { return s.fill() && digest == s.stored.Digest }

// Store refuses: a replay buys nothing.
func (s *strict) Store([32]byte, []byte) error {
	return errors.New("a replay stores no answers")
}

// deviation is nil where the request was as it was and its answer could be read.
func (s *strict) deviation(err error) *Deviation {
	d := &Deviation{Stored: hex.EncodeToString(s.want[:])}
	if s.asked {
		d.Rebuilt = hex.EncodeToString(s.first[:])
	}
	switch {
	case s.hit && err == nil:
		return nil
	case s.hit:
		d.Rebuilt, d.Reason = d.Stored, "the request is the same, its stored answer cannot be used: "+err.Error()
	case s.asked:
		d.Reason = fmt.Sprintf("digest %.16s… stored, %.16s… rebuilt", d.Stored, d.Rebuilt)
	case err != nil:
		d.Reason = "no request could be built: " + err.Error()
	default:
		d.Reason = "the model was asked without looking for a stored answer"
	}
	return d
}

// Write tells what was found, for people in one line or as JSON.
func (r Replayed) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		return encode(w, r)
	}
	verdict := "all requests are the same"
	switch {
	case r.First != nil:
		verdict = fmt.Sprintf("%d samples differ, first %v", r.Differ, r.First)
	case r.Missing > 0 && r.Turns == 0:
		verdict = "nothing could be compared"
	case r.Missing > 0:
		verdict = "those that could be compared are the same"
	}
	if r.Missing > 0 {
		verdict += fmt.Sprintf("; the log does not hold the answers of %d turns", r.Missing)
	}
	_, err := fmt.Fprintf(w, "%s: %d samples, %d turns compared: %s\n", r.Run, r.Samples, r.Turns, verdict)
	return err
}

package compress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermes/trajectory"
	"hermes/trajectory/columns"
)

// Bridge gives the tokens that a model is given between two of its answers: what follows
// the answer that ends history, whose last token is last, up to the beginning of the next
// answer, with the messages of tail in between. It is safe for concurrent use.
type Bridge func(history []trajectory.Message, last int32, tail []trajectory.Message, tools []trajectory.ToolSpec) ([]int32, error)

// Columns compresses a row of Parquet; changed is nil where the row stays as it is. An
// error ends the whole work.
func (c *Compressor) Columns(ctx context.Context, key string, row *columns.Row) (r Result, changed *columns.Row, err error) {
	var turns []Turn
	for i, m := range row.Messages {
		switch role := trajectory.Role(m.Role); role {
		case trajectory.System, trajectory.User, trajectory.Assistant, trajectory.Tool:
			turns = appendTurn(turns, role, columnText(m), i)
		default:
			return Result{Status: Unreadable, Reason: fmt.Sprintf("message %d: role %q is unknown", i, m.Role)}, nil, nil
		}
	}
	r = Result{TurnsBefore: len(turns), TurnsAfter: len(turns)}
	r.TokensBefore, err = c.countAll(turns)
	if err != nil {
		return Result{Status: Unreadable, Reason: err.Error()}, nil, nil
	}
	var seam *seam
	if len(row.Sequences) > 0 {
		r.TokensBefore = 0
		for _, s := range row.Sequences {
			r.TokensBefore = max(r.TokensBefore, len(s.Tokens))
		}
	}
	r.TokensAfter = r.TokensBefore
	if r.TokensBefore <= c.o.Target {
		r.Status = Under
		return r, nil, nil
	}
	extra := 0
	if len(row.Sequences) > 0 {
		seam, err = c.seam(row, turns)
		if err != nil {
			r.Status, r.Reason = Kept, err.Error()
			return r, nil, nil
		}
		extra = seam.scaffold
	}
	g, ok := c.plan(turns, r.TokensBefore, extra)
	if !ok {
		r.Status, r.Reason = Kept, "nothing between the protected turns is worth a summary"
		return r, nil, nil
	}
	began := time.Now()
	summary, tokens, err := c.summary(ctx, key, turns[g.from:g.to], &r)
	if err != nil {
		return r, nil, err
	}
	r.Seconds = time.Since(began).Seconds()
	out := *row
	first, last := turns[g.from].First, turns[g.to-1].Last
	out.Messages = slices.Concat(row.Messages[:first], []columns.Message{{Role: "user", Content: summary}}, row.Messages[last:])
	r.TokensAfter = r.TokensBefore - g.saved + tokens
	if seam != nil {
		s, err := seam.splice(first, last, summary)
		if err != nil {
			r = Result{Status: Kept, Reason: err.Error(), TokensBefore: r.TokensBefore, TokensAfter: r.TokensBefore, TurnsBefore: r.TurnsBefore, TurnsAfter: r.TurnsBefore}
			return r, nil, nil
		}
		out.Sequences = []columns.Sequence{s}
		r.TokensAfter = len(s.Tokens)
		if r.TokensAfter >= r.TokensBefore {
			return Result{Status: Kept, Reason: "the summary is no shorter than what it stands for", TokensBefore: r.TokensBefore, TokensAfter: r.TokensBefore, TurnsBefore: r.TurnsBefore, TurnsAfter: r.TurnsBefore}, nil, nil
		}
	}
	r.TurnsAfter = r.TurnsBefore - (g.to - g.from) + 1
	r.Status = c.fits(r.TokensAfter)
	original, err := json.Marshal(row)
	if err != nil {
		return r, nil, fmt.Errorf("row %s: %w", row.Key, err)
	}
	mark := c.compression(original, g, &r)
	out.Compression = &mark
	return r, &out, nil
}

func columnText(m columns.Message) string {
	var parts []string
	if m.Reasoning != nil {
		parts = append(parts, *m.Reasoning)
	}
	if m.Content != "" {
		parts = append(parts, m.Content)
	}
	for _, call := range m.Calls {
		parts = append(parts, call.Function.Name+" "+call.Function.Arguments)
	}
	return strings.Join(parts, "\n")
}

// seam is an exact row whose tokens are known by message: answer i was sampled as
// runs[i], everything else was given.
type seam struct {
	bridge   Bridge
	row      *columns.Row
	seq      columns.Sequence
	messages []trajectory.Message
	tools    []trajectory.ToolSpec
	answers  []int    // message of each answer
	runs     [][2]int // its tokens
	scaffold int      // tokens of a user's turn beside its text
}

// seam finds the tokens of each message, and sets those of turns. It proves on the row
// itself that template and tokenizer are those of the run: between two answers they must
// give the same tokens as the row.
func (c *Compressor) seam(row *columns.Row, turns []Turn) (*seam, error) {
	if c.o.Bridge == nil {
		return nil, errors.New("it holds exact tokens: give the model's template and tokenizer")
	}
	if len(row.Sequences) != 1 {
		return nil, fmt.Errorf("its trace forks into %d sequences", len(row.Sequences))
	}
	s := &seam{bridge: c.o.Bridge, row: row, seq: row.Sequences[0]}
	if n := len(s.seq.Tokens); len(s.seq.Sampled) != n || len(s.seq.Mask) != n || len(s.seq.LogProbs) != n {
		return nil, errors.New("its columns over tokens are not equally long")
	}
	for i, m := range row.Messages {
		s.messages = append(s.messages, messageOf(m))
		if m.Role == string(trajectory.Assistant) {
			s.answers = append(s.answers, i)
		}
	}
	for _, t := range row.Tools {
		s.tools = append(s.tools, trajectory.ToolSpec{Name: t.Function.Name, Description: t.Function.Description, Parameters: json.RawMessage(t.Function.Parameters)})
	}
	for i, sampled := range s.seq.Sampled {
		switch n := len(s.runs); {
		case !sampled:
		case i > 0 && s.seq.Sampled[i-1]:
			s.runs[n-1][1] = i + 1
		default:
			s.runs = append(s.runs, [2]int{i, i + 1})
		}
	}
	if len(s.runs) != len(s.answers) {
		return nil, fmt.Errorf("%d answers, but %d runs of sampled tokens", len(s.answers), len(s.runs))
	}
	if len(s.answers) < 2 || s.answers[1] == s.answers[0]+1 {
		return nil, errors.New("it has no turn between two answers")
	}
	first, err := s.given(s.answers[0], s.messages[s.answers[0]+1:s.answers[1]])
	if err != nil {
		return nil, err
	}
	if !slices.Equal(first, s.seq.Tokens[s.runs[0][1]:s.runs[1][0]]) {
		return nil, errors.New("template and tokenizer do not give the tokens that the row holds; are they the run's?")
	}
	more, err := s.given(s.answers[0], append(slices.Clone(s.messages[s.answers[0]+1:s.answers[1]]), trajectory.Text(trajectory.User, "x")))
	if err != nil {
		return nil, err
	}
	s.scaffold = max(0, len(more)-len(first))
	s.share(turns)
	return s, nil
}

// share gives each turn its tokens: an answer what was sampled; of what was given before
// an answer, the first turn takes what the others' texts leave.
func (s *seam) share(turns []Turn) {
	begin, answer := 0, 0
	for i := 0; i < len(turns); {
		if turns[i].Role == trajectory.Assistant {
			turns[i].Tokens = s.runs[answer][1] - s.runs[answer][0]
			begin = s.runs[answer][1]
			answer++
			i++
			continue
		}
		end := len(s.seq.Tokens)
		if answer < len(s.runs) {
			end = s.runs[answer][0]
		}
		at, left := i, end-begin
		for i++; i < len(turns) && turns[i].Role != trajectory.Assistant; i++ {
			turns[i].Tokens = min(turns[i].Tokens, left)
			left -= turns[i].Tokens
		}
		turns[at].Tokens = left
		begin = end
	}
}

// given are the tokens between the answer at message a and the next one.
func (s *seam) given(a int, tail []trajectory.Message) ([]int32, error) {
	run := s.runs[slices.Index(s.answers, a)]
	got, err := s.bridge(s.messages[:a+1], s.seq.Tokens[run[1]-1], tail, s.tools)
	if err != nil {
		return nil, fmt.Errorf("render what follows an answer: %w", err)
	}
	return got, nil
}

// splice is the sequence with messages [first, last) replaced by a summary.
func (s *seam) splice(first, last int, summary string) (columns.Sequence, error) {
	before, after := -1, -1 // the answers around the gap
	for i, at := range s.answers {
		if at < first {
			before = i
		}
		if at >= last && after < 0 {
			after = i
		}
	}
	if before < 0 || after < 0 {
		return columns.Sequence{}, errors.New("there is not an answer on both sides of what would be replaced")
	}
	a, b := s.answers[before], s.answers[after]
	tail := slices.Concat(s.messages[a+1:first], []trajectory.Message{trajectory.Text(trajectory.User, summary)}, s.messages[last:b])
	given, err := s.given(a, tail)
	if err != nil {
		return columns.Sequence{}, err
	}
	end := s.runs[before][1]
	from := s.runs[after][0]
	n := len(given)
	q := columns.Sequence{
		Tokens:   slices.Concat(s.seq.Tokens[:end], given, s.seq.Tokens[from:]),
		Mask:     slices.Concat(s.seq.Mask[:end], make([]int32, n), s.seq.Mask[from:]),
		LogProbs: slices.Concat(s.seq.LogProbs[:end], make([]float32, n), s.seq.LogProbs[from:]),
		Sampled:  slices.Concat(s.seq.Sampled[:end], make([]bool, n), s.seq.Sampled[from:]),
	}
	shift := int64(end + n - from)
	force := "" // the version that sampled the answer behind the gap
	for _, v := range s.seq.Versions {
		switch {
		case v.From < int64(end):
			q.Versions = append(q.Versions, v)
			force = v.Version
		case v.From <= int64(from):
			force = v.Version
		}
	}
	if k := len(q.Versions); force != "" && (k == 0 || q.Versions[k-1].Version != force) {
		q.Versions = append(q.Versions, columns.Version{From: int64(from) + shift, Version: force})
	}
	for _, v := range s.seq.Versions {
		if v.From > int64(from) {
			q.Versions = append(q.Versions, columns.Version{From: v.From + shift, Version: v.Version})
		}
	}
	for _, x := range s.seq.Extras { // tensors about tokens that are gone, or have other ones before them, go too
		switch {
		case len(x.Shape) > 0 && x.From+x.Shape[0] <= int64(end):
			q.Extras = append(q.Extras, x)
		case x.From >= int64(from):
			x.From += shift
			q.Extras = append(q.Extras, x)
		}
	}
	return q, nil
}

func messageOf(m columns.Message) trajectory.Message {
	out := trajectory.Text(trajectory.Role(m.Role), m.Content)
	if m.Reasoning != nil {
		out.Reasoning = *m.Reasoning
	}
	if m.ToolCallID != nil {
		out.CallID = *m.ToolCallID
	}
	if m.Name != nil {
		out.Name = *m.Name
	}
	for _, call := range m.Calls {
		out.Calls = append(out.Calls, trajectory.Call{ID: call.ID, Name: call.Function.Name, Arguments: call.Function.Arguments})
	}
	return out
}

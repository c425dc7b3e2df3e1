package chattemplate

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hermes/trajectory"
)

// Bridge renders what follows a sampled turn: the rest of its closing scaffold,
// the messages of tail, the next generation prompt. prev ends with the sampled
// message and is only read for the names and ids of its last calls; last is the
// spelling of the control token that ended the sampled turn, empty if it ended
// without one (its closing token is then part of the bridge). Piece.Message counts
// in tail.
//
// A small conversation is rendered in place of prev: a user's word, an answer with
// the same calls, the tail (and, for the few templates that count calls, as many
// empty calls as prev has). Nothing of prev is rendered, so nothing of it can
// change, and the cost is that of the tail. The answer's end is found in it by a
// mark. The bridge is refused with [ErrRewrites] when the answer does not end there
// as it ends when nothing follows, or when the text before it changes by more
// than thinking that the template drops (with [Follow]: at all).
func (t *Template) Bridge(prev []trajectory.Message, last string, tail []trajectory.Message, tools []trajectory.ToolSpec) ([]Piece, error) {
	if len(prev) == 0 || prev[len(prev)-1].Role != trajectory.Assistant {
		return nil, fmt.Errorf("bridge: the history does not end with an answer of the model")
	}
	if len(tail) == 0 {
		return nil, fmt.Errorf("bridge: nothing follows the answer")
	}
	for i, m := range tail {
		if m.Role == trajectory.Assistant {
			return nil, fmt.Errorf("%w: message %d of the tail is an answer that was not sampled", ErrRewrites, i)
		}
	}
	answer := prev[len(prev)-1]
	if t.opt.History == Follow { // the thinking of any earlier turn counts
		for _, m := range prev {
			answer.Reasoning += m.Reasoning
		}
	}
	c, err := t.cut(answer, tail, tools, past{calls: t.probe.earlier(prev[:len(prev)-1])})
	if err != nil {
		return nil, err
	}
	if c.dropsThinking && t.opt.History == Follow {
		return nil, fmt.Errorf("%w: it drops the thinking of earlier turns", ErrRewrites)
	}
	return c.pieces(last, t.isStop), nil
}

// bridged is a rendering of a probe conversation with the place at which the
// answer ends.
type bridged struct {
	rendering
	first         int    // index of the first message of the tail
	at            int    // the first byte after the answer and its closing token
	closer        string // the closing token that is before at; empty if the turn stays open
	dropsThinking bool
}

// pieces is the bridge after a turn that ended with last.
func (b bridged) pieces(last string, isStop func(string) bool) []Piece {
	at := b.at
	switch {
	case last == "" && isStop(b.closer):
		at -= len(b.closer)
	case last != "" && last != b.closer:
		if end, ok := b.specialAt(at); ok && b.text[at:end] == last {
			at = end // a turn that is ended by the first token of the next
		}
	}
	return b.rendering.pieces(at, b.first)
}

// past is what is in a probe conversation before the answer: rounds of a
// question and an answer, and calls that are done.
type past struct{ rounds, calls int }

// messages has room for more of them behind.
func (p past) messages(more int) []trajectory.Message {
	out := make([]trajectory.Message, 0, 2*p.rounds+3+more)
	for range p.rounds {
		out = append(out, user("u"), assistant("a"))
	}
	out = append(out, user("u"))
	if p.calls > 0 {
		calls := make([]trajectory.Call, p.calls)
		for i := range calls {
			calls[i] = trajectory.Call{ID: fmt.Sprintf("early%04d", i), Name: "e", Arguments: "{}"}
		}
		done := trajectory.Text(trajectory.Tool, "w")
		done.CallID, done.Name = calls[0].ID, calls[0].Name
		out = append(out, assistant("", calls...), done)
	}
	return out
}

// cut renders the probe conversation for one tail and finds the cut.
func (t *Template) cut(answer trajectory.Message, tail []trajectory.Message, tools []trajectory.ToolSpec, earlier past) (bridged, error) {
	for _, m := range tail {
		if t.probe.rounds[m.Role] {
			return bridged{}, errCounts
		}
	}
	if t.probe.toolFree(tail) {
		tools = nil
	}
	var first error
	for _, probe := range probes(answer) {
		b, err := t.cutAfter(probe, tail, tools, earlier)
		if err == nil {
			return b, nil
		}
		if first == nil {
			first = err
		}
	}
	return bridged{}, first
}

// probes are answers that stand for the sampled one: with all its calls, and for
// templates that refuse several calls a turn with one. Thinking and arguments are a
// word each.
func probes(answer trajectory.Message) []trajectory.Message {
	thought := ""
	if answer.Reasoning != "" {
		thought = "w"
	}
	if len(answer.Calls) == 0 {
		m := assistant(mark)
		m.Reasoning = thought
		return []trajectory.Message{m}
	}
	calls := make([]trajectory.Call, len(answer.Calls))
	for i, c := range answer.Calls {
		calls[i] = trajectory.Call{ID: c.ID, Name: c.Name, Arguments: `{"word": "w"}`}
	}
	n := len(calls)
	calls[n-1].Arguments = aCall().Arguments
	out := []trajectory.Message{assistant("", calls...)}
	if n > 1 {
		out = append(out, assistant("", calls[n-1]))
	}
	for i := range out {
		out[i].Reasoning = thought
	}
	return out
}

func (t *Template) cutAfter(answer trajectory.Message, tail []trajectory.Message, tools []trajectory.ToolSpec, earlier past) (bridged, error) {
	opening := append(earlier.messages(1+len(tail)), answer)
	alone, err := t.alone(opening, tools)
	if err != nil {
		return bridged{}, fmt.Errorf("bridge: render a probe conversation: %w", err)
	}
	whole, err := t.render(append(opening, tail...), tools, true)
	if err != nil {
		return bridged{}, fmt.Errorf("bridge: render %d messages after an answer: %w", len(tail), err)
	}
	from, in := afterMark(alone.text), afterMark(whole.text)
	switch {
	case from < 0:
		return t.cutUnmarked(alone, whole, len(opening))
	case in < 0:
		return bridged{}, fmt.Errorf("%w: an earlier answer is left out", ErrRewrites)
	}
	b := bridged{rendering: whole, first: len(opening)}
	before, after := alone.text[:from], whole.text[:in]
	if before != after {
		if withoutThinking(before) != withoutThinking(after) {
			return bridged{}, fmt.Errorf("%w: the text before an answer changes when messages follow", ErrRewrites)
		}
		// an empty block that the template writes for the last answer only was never sampled
		b.dropsThinking = answer.Reasoning != "" || strings.Contains(t.probe.verdict.Generation, "think")
	}
	syntax, closer := alone.ending(from, t.probe.closer) // what ends a call, and the token that ends the turn
	blanks := ""
	if closer != "" && !strings.HasPrefix(whole.text[in:], syntax+closer) {
		bare := strings.TrimRight(syntax, blank)
		if rest, ok := strings.CutPrefix(whole.text[in:], bare); ok && strings.HasPrefix(strings.TrimLeft(rest, blank), closer) {
			syntax, blanks = bare, rest[:len(rest)-len(strings.TrimLeft(rest, blank))]
		}
	}
	syntax += blanks
	if !strings.HasPrefix(whole.text[in:], syntax) {
		return bridged{}, fmt.Errorf("%w: an answer ends with %q as the last message, but goes on with %q when messages follow",
			ErrRewrites, head(syntax+closer, 80), head(whole.text[in:], 80))
	}
	b.at = in + len(syntax)
	end, ok := whole.specialAt(b.at)
	switch {
	case closer == "":
	case ok && whole.text[b.at:end] == closer:
		b.at, b.closer = end, closer
	case ok && whole.nextIsSpecial(end) && !t.opens(whole.text[b.at:end]):
		b.closer, b.at = whole.text[b.at:end], end
	}
	return b, nil
}

// lastAlone keeps the probe conversation that was rendered last with an answer without
// calls: it is the same turn after turn.
type lastAlone struct{ last atomic.Pointer[keptAlone] }

type keptAlone struct {
	said, thought string
	before, calls int // messages and calls before it
	now           time.Time
	tools         []trajectory.ToolSpec
	rendering
}

// alone renders a probe conversation that ends with the answer; the result is read-only.
func (t *Template) alone(opening []trajectory.Message, tools []trajectory.ToolSpec) (rendering, error) {
	answer := opening[len(opening)-1]
	if len(answer.Calls) > 0 {
		return t.render(opening, tools, false)
	}
	calls := 0
	for _, m := range opening {
		calls += len(m.Calls)
	}
	if k := t.answered.last.Load(); k != nil && k.said == answer.Content() && k.thought == answer.Reasoning && k.before == len(opening)-1 && k.calls == calls && k.now.Equal(t.limits.Now) &&
		slices.EqualFunc(k.tools, tools, sameTool) {
		return k.rendering, nil
	}
	r, err := t.render(opening, tools, false)
	if err == nil {
		t.answered.last.Store(&keptAlone{answer.Content(), answer.Reasoning, len(opening) - 1, calls, t.limits.Now, cloneTools(tools), r})
	}
	return r, err
}

// cutUnmarked is for templates that do not print calls: the probe's text is a
// prefix of the whole.
func (t *Template) cutUnmarked(alone, whole rendering, first int) (bridged, error) {
	n := len(alone.special)
	if n == 0 || !strings.HasPrefix(whole.text, alone.text[:alone.special[n-1][1]]) {
		return bridged{}, fmt.Errorf("%w: the calls of an answer are not printed, and its end is not found", ErrRewrites)
	}
	s := alone.special[n-1]
	if alone.message(s[0]) != first-1 {
		return bridged{}, fmt.Errorf("%w: an answer with calls is not printed", ErrRewrites)
	}
	return bridged{rendering: whole, first: first, at: s[1], closer: alone.text[s[0]:s[1]]}, nil
}

// ending splits what follows byte from into the text before the last control
// token, and that token; known is that token where it is known not to be the last.
func (r rendering) ending(from int, known string) (syntax, closer string) {
	if i := strings.LastIndex(r.text[from:], known); i >= 0 && known != "" {
		return r.text[from : from+i], known
	}
	if n := len(r.special); n > 0 && r.special[n-1][0] >= from {
		s := r.special[n-1]
		return r.text[from:s[0]], r.text[s[0]:s[1]]
	}
	return strings.TrimRight(r.text[from:], blank), ""
}

// specialAt is the end of the control token that begins at byte at.
func (r rendering) specialAt(at int) (int, bool) {
	i, ok := slices.BinarySearchFunc(r.special, at, func(s [2]int, at int) int { return s[0] - at })
	if !ok {
		return 0, false
	}
	return r.special[i][1], true
}

// nextIsSpecial reports whether a control token is at byte at, after white space.
func (r rendering) nextIsSpecial(at int) bool {
	rest := r.text[at:]
	_, ok := r.specialAt(at + len(rest) - len(strings.TrimLeft(rest, blank)))
	return ok
}

// afterMark is where the answer's words end. The first mark counts: a tail may
// spell one too.
func afterMark(text string) int {
	if i := strings.Index(text, mark); i >= 0 {
		return i + len(mark)
	}
	return -1
}

// blank is the white space that templates trim.
const blank = " \t\r\n"

// thinkTags are the think blocks that templates write.
var thinkTags = [][2]string{{"<ifm|think>", "</ifm|think>"}, {"<ifm|think_fast>", "</ifm|think_fast>"}, {"<ifm|think_faster>", "</ifm|think_faster>"},
	{"<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"}, {"<think>", "</think>"}, {"<seed:think>", "</seed:think>"}, {"[THINK]", "[/THINK]"}, {"<|START_THINKING|>", "<|END_THINKING|>"},
	{"<|channel>thought", "<channel|>"}, {"<|channel|>analysis<|message|>", "<|end|>"}, {"<|inner_prefix|>", "<|inner_suffix|>"}}

// withoutThinking takes think blocks and all white space out.
func withoutThinking(s string) string {
	s = strings.Join(strings.Fields(s), "")
	for _, tag := range thinkTags {
		open := strings.Join(strings.Fields(tag[0]), "")
		for {
			i := strings.LastIndex(s, open)
			if i < 0 {
				break
			}
			rest := s[i+len(open):]
			if j := strings.Index(rest, tag[1]); j >= 0 {
				rest = rest[j+len(tag[1]):]
			}
			s = s[:i] + rest
		}
	}
	return s
}

func head(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

package parsers

import (
	"errors"
	"fmt"

	"hermes/trajectory"
)

// State says how far the reading of one call may be trusted.
type State string

// The states of a call.
const (
	Complete  State = "complete"  // as the family writes it
	Recovered State = "recovered" // readable after a small repair, or an end marker is missing
	Ambiguous State = "ambiguous" // another reading is possible
	Truncated State = "truncated" // the text ended inside the call
	Malformed State = "malformed" // the name is known, the arguments are not readable
)

// Call is one tool call. Arguments is text, normally a JSON object; numbers keep the
// model's spelling. Start and End are its bytes in the input.
type Call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	State     State  `json:"state"`
	Start     int    `json:"-"`
	End       int    `json:"-"`
}

// Fault is a place that could not be read as the family writes it. Start and End
// are bytes of the input.
type Fault struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
}

// SpanKind says what a byte of the input became.
type SpanKind string

// What bytes become. Frame is a marker or the white space around it.
const (
	InContent   SpanKind = "content"
	InReasoning SpanKind = "reasoning"
	InCall      SpanKind = "call"
	InFault     SpanKind = "fault"
	InFrame     SpanKind = "frame"
)

// Span is a run of bytes of the input. The spans of a [Parsed] cover it without gap
// or overlap.
type Span struct {
	Kind       SpanKind
	Start, End int
}

// Parsed is what one answer of a model says.
type Parsed struct {
	Reasoning string
	Content   string
	Calls     []Call
	Faults    []Fault
	Spans     []Span
}

// ParseOptions is what a parser must know beside the text. The zero value is usable.
type ParseOptions struct {
	Tools       []trajectory.ToolSpec // coercion by schema; some dialects drop undeclared names
	InReasoning bool                  // the prompt opened the think block
	Dialect     Dialect               // zero is ours
	// Special gives the spelling of a special token. Where ids are fed and it is set,
	// the spelling of a special token in ordinary text is no marker.
	Special func(trajectory.Token) (string, bool)
	// Specials lists the spellings of all special tokens. Without it Special is asked
	// for every id when the text could spell one, which costs milliseconds an answer.
	Specials []string
	// CallsBefore counts the calls earlier in the conversation; Kimi numbers on from it.
	CallsBefore int
	// Salt is mixed into call ids that are made up, for instance rollout and turn.
	Salt string
	// Variant holds the switches of single families.
	Variant Variant
}

// Variant holds what single families let a server or a template switch.
type Variant struct {
	Thinking    *bool  // the template's thinking switch; nil is the family's default
	ToolChoice  string // "none": no call is read; "required" or a name: a bare JSON list is read
	MistralNew  bool   // tokenizer v11 or later
	PlainThink  bool   // Mistral v11: think tags are plain text
	FillContent bool   // reasoning becomes content when content would be empty
}

// Stream collects one answer. Feed may be called with chunks of any size; Finish is
// called once, with cut true when the length limit ended the answer.
type Stream interface {
	Feed(text string, ids []trajectory.Token)
	Finish(cut bool) Parsed
}

// Family is one way of writing calls.
type Family struct {
	Name   string
	New    func(ParseOptions) Stream
	Format func(Parsed) string
}

// ErrUnwritable is wrapped by [Family.Write] when the family cannot spell a value so that
// its own parser reads it back.
var ErrUnwritable = errors.New("value cannot be written in this family")

// Parse reads a whole answer.
func (f Family) Parse(text string, opt ParseOptions) Parsed {
	s := f.New(opt)
	s.Feed(text, nil)
	return s.Finish(false)
}

// Write is Format, checked: the text is read back and must give the same calls.
func (f Family) Write(p Parsed) (string, error) {
	text := f.Format(p)
	again := f.Parse(text, ParseOptions{})
	if len(again.Calls) != len(p.Calls) {
		return "", fmt.Errorf("%s: %d calls are read back as %d: %w", f.Name, len(p.Calls), len(again.Calls), ErrUnwritable)
	}
	for i, c := range again.Calls {
		if c.Name != p.Calls[i].Name || c.State == Malformed || c.State == Truncated {
			return "", fmt.Errorf("%s: call %d of %q: %w", f.Name, i, p.Calls[i].Name, ErrUnwritable)
		}
	}
	return text, nil
}

// grammar is what the file of a family says.
type grammar struct {
	name   string
	think  think        // the block in which nothing is executed; zero: none
	read   func(*parse) // reads p.text after the think block
	format func(content string, calls []Call) string
	base   string       // the family whose knobs count, for a combination
	reason func(*parse) // takes reasoning out instead of think
	id     func(*parse, int, *Call)
}

func (g grammar) family() Family {
	return Family{
		Name:   g.name,
		New:    func(o ParseOptions) Stream { return &stream{gram: g, opt: o} },
		Format: func(p Parsed) string { return g.write(p) }, // g.write would be a second copy of the grammar
	}
}

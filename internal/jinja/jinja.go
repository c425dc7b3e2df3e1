package jinja

import (
	"fmt"
	"time"
	"unicode/utf8"
)

// Class says what kind of failure an [Error] is.
type Class string

// The classes of failure.
const (
	ClassTemplate Class = "template" // the template failed on this input, or refused it
	ClassSyntax   Class = "syntax"   // the source is not a template
	ClassLimit    Class = "limit"    // nesting, size or steps ran out
)

// Error is every error of this package. Kind is the Python class that Jinja2
// would raise, such as TemplateError, TypeError or UndefinedError. Line and
// Column count from one; they are zero where the place is not known.
type Error struct {
	Class   Class
	Kind    string
	Message string
	Line    int
	Column  int
}

func (e *Error) Error() string {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf("line %d, column %d: ", e.Line, e.Column)
	}
	if e.Kind == "TemplateError" {
		return where + e.Message
	}
	return where + e.Kind + ": " + e.Message
}

// Options tune [Parse]. The zero value is usable.
type Options struct {
	KeepBlanks bool // switch trim_blocks and lstrip_blocks off
	MaxSource  int  // bytes of source; 0 means 4 MiB
}

// RenderOptions bound one rendering. The zero value is usable.
type RenderOptions struct {
	Now      time.Time // what strftime_now sees; zero means that it raises
	MaxDepth int       // nested macro calls; 0 means 200
	MaxBytes int       // bytes of any text, 16 times the items of any list; 0 means 64 MiB
	MaxSteps int       // loop turns and calls, and one more per 64 bytes handled; 0 means 20 million
}

// Output is a finished rendering. Spans are the generation blocks as
// [start, end), counted in code points, in the order in which they ended.
type Output struct {
	Text  string
	Spans [][2]int
}

// Template is a parsed source. It is immutable and safe for concurrent use.
type Template struct {
	slots   int      // variables of the root frame
	context []string // names taken from the caller's variables
	body    execFn
}

// Parse reads a source. The error is an [*Error] with line and column.
func Parse(source string, o Options) (t *Template, err error) {
	defer catch(&err)
	if o.MaxSource == 0 {
		o.MaxSource = 4 << 20
	}
	if len(source) > o.MaxSource {
		return nil, limitf("source of %d bytes exceeds %d", len(source), o.MaxSource)
	}
	tokens := lex(source, !o.KeepBlanks)
	p := &parser{tokens: tokens}
	return compile(p.template()), nil
}

// Render runs the template. vars may be nil; it is only read. What was rendered
// before an error is not returned.
func (t *Template) Render(vars *Dict, o RenderOptions) (out Output, err error) {
	st := newState(o)
	st.context = make([]any, len(t.context))
	for i, name := range t.context {
		st.context[i] = resolve(vars, name)
	}
	defer func() {
		if e, ok := err.(*Error); ok && e.Line == 0 {
			e.Line, e.Column = st.at.line, st.at.col
		}
	}()
	defer catch(&err)
	f := newFrame(t.slots, nil)
	t.body(st, f)
	return Output{Text: st.out.text(), Spans: st.spans}, nil
}

func resolve(vars *Dict, name string) any {
	if v, ok := vars.Get(name); ok {
		return v
	}
	if g, ok := globalFuncs[name]; ok {
		return g
	}
	return missing
}

// state is one rendering under way.
type state struct {
	lib      *library
	context  []any
	out      *buffer
	top      *buffer
	spans    [][2]int
	now      time.Time
	depth    int
	steps    int
	maxDepth int
	maxBytes int
	at       pos // of the statement under way, for errors
}

func newState(o RenderOptions) *state {
	st := &state{lib: shared(), now: o.Now, steps: o.MaxSteps, maxDepth: o.MaxDepth, maxBytes: o.MaxBytes}
	if st.steps == 0 {
		st.steps = 20_000_000
	}
	if st.maxDepth == 0 {
		st.maxDepth = 200
	}
	if st.maxBytes == 0 {
		st.maxBytes = 64 << 20
	}
	st.top = &buffer{b: make([]byte, 0, 4096)}
	st.out = st.top
	return st
}

// step charges one unit of work, and one per 64 bytes touched.
func (st *state) step(bytes int) {
	st.steps -= 1 + bytes>>6
	if st.steps < 0 {
		panic(limitf("rendering takes too many steps"))
	}
}

// size charges for a text about to be made and refuses one that is too long.
func (st *state) size(bytes int) {
	if bytes > st.maxBytes || bytes < 0 {
		panic(limitf("a text or list of %d bytes exceeds %d", bytes, st.maxBytes))
	}
	st.step(bytes)
}

func (st *state) enter() {
	st.depth++
	st.step(0)
	if st.depth > st.maxDepth {
		panic(&Error{Class: ClassLimit, Kind: "RecursionError", Message: fmt.Sprintf("calls are nested deeper than %d", st.maxDepth)})
	}
}

// frame holds the variables of one function of the template (the root, a macro,
// a call block, a recursive loop). up is the function around it.
type frame struct {
	vars []any
	up   *frame
}

func newFrame(slots int, up *frame) *frame {
	f := &frame{vars: make([]any, slots), up: up}
	for i := range f.vars {
		f.vars[i] = missing
	}
	return f
}

// buffer collects output. counted and runes remember how far code points were
// counted, so that many spans cost one pass.
type buffer struct {
	b       []byte
	counted int
	runes   int
}

func (st *state) write(s string) {
	if len(s) == 0 {
		return
	}
	st.step(len(s))
	if len(st.out.b)+len(s) > st.maxBytes {
		panic(limitf("output exceeds %d bytes", st.maxBytes))
	}
	st.out.b = append(st.out.b, s...)
}

func (b *buffer) text() string { return string(b.b) }

func (b *buffer) points() int {
	b.runes += utf8.RuneCount(b.b[b.counted:])
	b.counted = len(b.b)
	return b.runes
}

// capture runs body with an output of its own.
func (st *state) capture(body func()) string {
	outer := st.out
	inner := &buffer{}
	st.out = inner
	body()
	st.out = outer
	return inner.text()
}

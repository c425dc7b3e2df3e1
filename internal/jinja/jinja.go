package jinja

import (
	"fmt"
	"slices"
	"sync"
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
	MaxSource int // bytes of source; 0 means 4 MiB
}

// RenderOptions bound one rendering. The zero value is usable.
type RenderOptions struct {
	Now      time.Time // what strftime_now sees; zero means that it raises
	MaxDepth int       // nested macro calls; 0 means 200
	MaxBytes int       // bytes of any text, 16 times the items of any list; 0 means 64 MiB
	MaxSteps int       // loop turns and calls, and one more per 64 bytes handled; 0 means 20 million
	Watch    *List     // dicts of the variables, such as the messages: Output.Visits tells which part of the text a loop wrote for which of them
}

// Output is a finished rendering. Spans are the generation blocks as
// [start, end), counted in code points, in the order in which they ended.
type Output struct {
	Text   string
	Spans  [][2]int
	Visits []Visit // with RenderOptions.Watch only
}

// Visit says that from byte At of the text on, until the next visit, a loop of
// the template stood on item Item of [RenderOptions.Watch]; -1 is outside of all.
// What macros and set blocks write counts where their text is printed.
type Visit struct{ Item, At int }

// Template is a parsed source. It is immutable and safe for concurrent use.
type Template struct {
	slots   int      // variables of the root frame
	context []string // names taken from the caller's variables
	body    execFn
	buffers sync.Pool // of *buffer, for the text of a rendering
}

const keptBuffer = 1 << 20 // bytes up to which a buffer is used again

// Parse reads a source. The error is an [*Error] with line and column.
func Parse(source string, o Options) (t *Template, err error) {
	defer catch(&err)
	if o.MaxSource == 0 {
		o.MaxSource = 4 << 20
	}
	if len(source) > o.MaxSource {
		return nil, limitf("source of %d bytes exceeds %d", len(source), o.MaxSource)
	}
	tokens := lex(source)
	p := &parser{tokens: tokens}
	return compile(p.template()), nil
}

// Render runs the template. vars may be nil; it is only read. What was rendered
// before an error is not returned.
func (t *Template) Render(vars *Dict, o RenderOptions) (out Output, err error) {
	st := newState(o)
	top, ok := t.buffers.Get().(*buffer)
	if !ok {
		top = &buffer{b: make([]byte, 0, 4096)}
	}
	st.top, st.out = top, top
	defer func() {
		if cap(top.b) <= keptBuffer {
			*top = buffer{b: top.b[:0]}
			t.buffers.Put(top)
		}
	}()
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
	return Output{Text: st.out.text(), Spans: st.spans, Visits: st.visits}, nil
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
	json     []byte   // of the last tojson, used again
	texts    []string // the parts of sums under way
	at       pos      // of the statement under way, for errors

	watch   *List
	places  map[*Dict]int // of many watched dicts, made when a loop leaves their order
	seen    int           // the last item of watch that a loop came to
	visited int
	visits  []Visit
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
	if o.Watch.Len() > 0 {
		st.watch = o.Watch
	}
	st.visited = -1
	st.visits = make([]Visit, 0, 2*o.Watch.Len())
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

// visitItem notes that a loop has come to an item.
func (st *state) visitItem(item any) {
	if d, ok := item.(*Dict); ok {
		if i := st.watched(d); i >= 0 {
			st.visit(i)
		}
	}
}

// fewWatched is up to how many watched dicts are searched one by one.
const fewWatched = 64

// watched is the index of d among the watched dicts, or -1. Loops come to them in
// order, so the one behind the last is tried before the rest.
func (st *state) watched(d *Dict) int {
	items := st.watch.items
	if i := st.seen + 1; i < len(items) && items[i] == any(d) {
		st.seen = i
		return i
	}
	if len(items) <= fewWatched {
		i := slices.Index(items, any(d))
		if i >= 0 {
			st.seen = i
		}
		return i
	}
	if st.places == nil {
		st.places = make(map[*Dict]int, len(items))
		for i, item := range items {
			if w, ok := item.(*Dict); ok {
				st.places[w] = i
			}
		}
	}
	i, ok := st.places[d]
	if !ok {
		return -1
	}
	st.seen = i
	return i
}

// visit notes that what is written from here on belongs to watched item i. A
// visit of which nothing was written is forgotten.
func (st *state) visit(i int) {
	if i == st.visited || st.watch == nil {
		return
	}
	st.visited = i
	if st.out != st.top {
		return
	}
	at := len(st.top.b)
	if n := len(st.visits); n > 0 && st.visits[n-1].At == at {
		st.visits = st.visits[:n-1]
	}
	st.visits = append(st.visits, Visit{i, at})
}

func (b *buffer) text() string { return string(b.b) }

func (b *buffer) points() int {
	b.runes += utf8.RuneCount(b.b[b.counted:])
	b.counted = len(b.b)
	return b.runes
}

// capture runs body with a separate output.
func (st *state) capture(body func()) string {
	outer := st.out
	inner := &buffer{}
	st.out = inner
	body()
	st.out = outer
	return inner.text()
}

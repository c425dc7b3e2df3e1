package chattemplate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermes/internal/jinja"
	"hermes/parsers"
	"hermes/trajectory"
)

// ErrRewrites says that the template changes what was already rendered or
// sampled when the given messages are added: the history cannot be extended, the
// caller forks (renders the whole conversation with [Template.Prompt]).
var ErrRewrites = errors.New("the template rewrites history")

// History says what counts when a template would drop earlier thinking.
type History string

const (
	// Append keeps what was sampled; [Template.Deviation] says what differs from the
	// template. It is the default.
	Append History = "append"
	// Follow does as the template says: [Template.Bridge] returns [ErrRewrites].
	Follow History = "template"
)

// Options are what a template needs beside its source.
type Options struct {
	Source string // Jinja
	BOS    string // spelling of the token; a template that prints it sees this text
	EOS    string
	PAD    string
	UNK    string
	// Special lists the spellings of all control tokens of the tokenizer (all added
	// tokens that it would recognise in text). Without it they are taken from the
	// source, see [Spellings].
	Special   []string
	Variables map[string]any // further template variables, such as enable_thinking
	Now       time.Time      // what strftime_now sees, see [Template.At]
	History   History        // empty means Append
	Family    string         // empty: detected from the source

	MaxDepth int // nested macro calls; 0 means 200
	MaxBytes int // bytes of a rendering; 0 means 64 MiB
	MaxSteps int // see jinja.RenderOptions; 0 means 20 million
}

// Piece is a run of rendered text.
type Piece struct {
	Text    string
	Special bool // one control token, written by the template; never spelled by a message
	Message int  // index of the message it belongs to; never decreases; a scaffold shared by messages belongs to the first
}

// Template is a model's chat template. It does not change after New and is safe
// for concurrent use.
type Template struct {
	tmpl     *jinja.Template
	opt      Options
	vars     *jinja.Dict // tokens and variables
	specials *matcher
	limits   jinja.RenderOptions
	form     form
	probe    *probe
	family   parsers.Family
	tools    *toolCache
	answered *lastAlone
	meter    func(rendered int) // of tests: bytes of every rendering
}

// New compiles a template, finds out by small renderings how it wants its
// messages and what it can do, see [Template.Verdict]. The error is a
// [*jinja.Error] with line and column when the source cannot be read.
func New(o Options) (*Template, error) {
	switch o.History {
	case "":
		o.History = Append
	case Append, Follow:
	default:
		return nil, fmt.Errorf("history %q: want %q or %q", o.History, Append, Follow)
	}
	tmpl, err := jinja.Parse(o.Source, jinja.Options{})
	if err != nil {
		return nil, fmt.Errorf("read the chat template: %w", err)
	}
	if o.Special == nil {
		o.Special = Spellings(o.Source)
	}
	special := slices.Concat(o.Special, []string{o.BOS, o.EOS, o.PAD, o.UNK})
	t := &Template{
		tmpl: tmpl, opt: o, specials: newMatcher(special), tools: &toolCache{}, answered: &lastAlone{},
		limits: jinja.RenderOptions{Now: o.Now, MaxDepth: o.MaxDepth, MaxBytes: o.MaxBytes, MaxSteps: o.MaxSteps},
	}
	t.vars, err = o.variables()
	if err != nil {
		return nil, err
	}
	t.family, err = o.guess()
	if err != nil {
		return nil, err
	}
	t.form = t.findForm()
	t.probe = t.explore()
	return t, nil
}

// variables are what does not change from one rendering to the next.
func (o Options) variables() (vars *jinja.Dict, err error) {
	vars = jinja.NewDict().Set("documents", nil)
	for _, v := range []struct{ name, text string }{
		{"bos_token", o.BOS}, {"eos_token", o.EOS}, {"pad_token", o.PAD}, {"unk_token", o.UNK}} {
		if v.text != "" {
			vars.Set(v.name, v.text)
		}
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("template variables: %v", r)
		}
	}()
	for k, v := range o.Variables {
		vars.Set(k, v)
	}
	return vars, nil
}

// At is t with its clock stopped at now: a rollout opens one, so that all its
// turns see the same date.
func (t *Template) At(now time.Time) *Template {
	c := *t
	c.limits.Now = now
	return &c
}

// Prompt renders a whole conversation up to where the model goes on. tools may be
// empty. The concatenated texts equal apply_chat_template of Transformers with
// add_generation_prompt.
func (t *Template) Prompt(msgs []trajectory.Message, tools []trajectory.ToolSpec) ([]Piece, error) {
	r, err := t.render(msgs, tools, true)
	if err != nil {
		return nil, fmt.Errorf("render %d messages: %w", len(msgs), err)
	}
	return r.pieces(0, 0), nil
}

// Family is the family whose parser reads what the model writes.
func (t *Template) Family() parsers.Family { return t.family }

// Writes reports whether the template's source contains a spelling: that of a token which
// it can write itself.
func (t *Template) Writes(spelling string) bool { return strings.Contains(t.opt.Source, spelling) }

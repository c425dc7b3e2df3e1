package chattemplate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hermes/internal/jinja"
	"hermes/trajectory"
)

// probe is what New learned about a template.
type probe struct {
	verdict     Verdict
	freeResults bool   // results of tools are rendered the same without the list of tools
	freeUser    bool   // so is a further message of the user
	closer      string // what ends a turn, in a template that always adds the generation prompt
	opener      string // the control token with which the generation prompt begins
	stops       []string
	counts      int                      // how many earlier calls can change how results are rendered: 0, 1, or math.MaxInt
	rounds      map[trajectory.Role]bool // messages of the role are rendered by how many questions came before
}

// earlier is the number of calls in msgs, as far as the template cares.
func (p *probe) earlier(msgs []trajectory.Message) int {
	n := 0
	for i := 0; i < len(msgs) && n < p.counts; i++ {
		n += len(msgs[i].Calls)
	}
	return min(n, p.counts)
}

// errCounts refuses a bridge that would need all of the history.
var errCounts = fmt.Errorf("%w: a message is rendered by how many questions came before it", ErrRewrites)

// toolFree reports whether tail is rendered the same without the list of tools.
func (p *probe) toolFree(tail []trajectory.Message) bool {
	return !slices.ContainsFunc(tail, func(m trajectory.Message) bool {
		return m.Role == trajectory.Tool && !p.freeResults || m.Role != trajectory.Tool && !p.freeUser
	})
}

// Verdict says what a template can do in a rollout.
type Verdict struct {
	Family          string   // of calls
	Tools           bool     // the list of tools is printed
	Calls           bool     // calls of earlier turns are printed
	ToolLoop        bool     // a conversation with calls and results can be rendered
	BridgesResults  bool     // results of tools can be appended
	BridgesUser     bool     // a further message of the user can be appended
	Generation      string   // the generation prompt
	OpensThink      bool     // the generation prompt opens a think block
	DropsThinking   bool     // the template drops thinking of earlier turns: with History append they stay
	DropsInLoop     bool     // it does so when results follow, not only at the user's next message
	Stops           []string // control tokens that end a turn
	WhyNotResults   string   // why results cannot be appended
	WhyNotUser      string
	ReasoningField  string // field in which reasoning is handed in; inline: within the content; empty: not at all
	ArgumentsAsText bool
	NullContent     bool // content is None beside calls
	CountsCalls     bool // results are rendered by how many calls there were
	ParallelRefused bool // of several calls a turn not all are printed
}

// Verdict is what New found out.
func (t *Template) Verdict() Verdict { return t.probe.verdict }

// Stops are the control tokens that end a turn of the model, the template's usual
// one first.
func (t *Template) Stops() []string { return slices.Clone(t.probe.stops) }

// StopTokens are the ids of Stops; spellings that the tokenizer does not know as
// one token are left out.
func (t *Template) StopTokens(id func(string) (trajectory.Token, bool)) []trajectory.Token {
	var out []trajectory.Token
	for _, s := range t.probe.stops {
		if tok, ok := id(s); ok {
			out = append(out, tok)
		}
	}
	return out
}

// isStop reports whether tok ends a turn.
func (t *Template) isStop(tok string) bool { return tok != "" && slices.Contains(t.probe.stops, tok) }

// Deviation says in a sentence how a conversation that is extended by bridges
// differs from what the template would render again; empty if it does not. It is
// for the record of the run.
func (t *Template) Deviation() string {
	v := t.probe.verdict
	switch {
	case t.opt.History != Append || !v.DropsThinking:
		return ""
	case v.DropsInLoop:
		return "thinking of earlier turns stays in the context, where the template would drop it after every turn"
	}
	return "thinking of earlier turns stays in the context, where the template would drop it at the user's next message"
}

// opens reports whether tok begins the generation prompt.
func (t *Template) opens(tok string) bool { return tok == t.probe.opener }

// aResult answers [aCall].
func aResult() trajectory.Message {
	m := trajectory.Text(trajectory.Tool, "hermesproberesult")
	m.CallID, m.Name = aCall().ID, aCall().Name
	return m
}

// explore renders two dozen small conversations.
func (t *Template) explore() *probe {
	p := &probe{rounds: map[trajectory.Role]bool{}, verdict: Verdict{Family: t.family.Name, ReasoningField: t.form.reasoning, ArgumentsAsText: t.form.argText, NullContent: t.form.nullText}}
	c := *t
	c.opt.History, c.probe = Append, p
	c.limits = probeLimits(t.limits)
	c.generation(p)
	c.findStops(p)
	c.exploreTools(p)
	if t.opt.Family == "" {
		t.family = c.readBack(p)
		p.verdict.Family = t.family.Name
	}
	c.exploreBridges(p)
	return p
}

// probeLimits bound the small renderings of New, so that a hostile template is
// found out soon: real ones need a few thousand steps.
func probeLimits(o jinja.RenderOptions) jinja.RenderOptions {
	const steps, bytes = 300_000, 4 << 20
	if o.MaxSteps == 0 || o.MaxSteps > steps {
		o.MaxSteps = steps
	}
	if o.MaxBytes == 0 || o.MaxBytes > bytes {
		o.MaxBytes = bytes
	}
	if o.Now.IsZero() { // the rollout brings its own clock, see At
		o.Now = time.Unix(0, 0).UTC()
	}
	return o
}

// generation compares a prompt with and without the generation prompt.
func (t *Template) generation(p *probe) {
	gen, err := t.render([]trajectory.Message{user("u")}, nil, true)
	if err != nil {
		return
	}
	p.verdict.OpensThink = InReasoning(gen.text)
	plain, err := t.render([]trajectory.Message{user("u")}, nil, false)
	if err != nil || !strings.HasPrefix(gen.text, plain.text) {
		return
	}
	p.verdict.Generation = gen.text[len(plain.text):]
	if end, ok := gen.specialAt(len(plain.text)); ok {
		p.opener = gen.text[len(plain.text):end]
	}
}

// exploreTools finds what of tools, calls and results is printed.
func (t *Template) exploreTools(p *probe) {
	v, tools := &p.verdict, []trajectory.ToolSpec{aTool()}
	printed := func(word string, msgs ...trajectory.Message) bool {
		r, err := t.render(msgs, tools, false)
		return err == nil && strings.Contains(r.text, word)
	}
	call, again := assistant("", aCall()), aCall()
	again.ID = "call00002"
	v.Tools = printed(aTool().Name, user("u"))
	v.Calls = printed(mark, user("u"), call)
	v.ToolLoop = v.Calls && printed(aResult().Content(), user("u"), call, aResult())
	again.Arguments = `{"word": "hermesprobeagain"}`
	v.ParallelRefused = v.Calls && !printed("hermesprobeagain", user("u"), assistant("", aCall(), again))
}

// exploreBridges tries both kinds of tails, with and without the list of tools.
func (t *Template) exploreBridges(p *probe) {
	v, tools := &p.verdict, []trajectory.ToolSpec{aTool()}
	try := func(answer trajectory.Message, tail trajectory.Message) (free bool, why error) {
		full, err := t.cut(answer, []trajectory.Message{tail}, tools, past{})
		if err != nil {
			return false, err
		}
		if later, err := t.cut(answer, []trajectory.Message{tail}, tools, past{rounds: 1}); err != nil || !later.same(full) {
			p.rounds[tail.Role] = true
			return false, errCounts
		}
		bare, err := t.cut(answer, []trajectory.Message{tail}, nil, past{})
		return err == nil && bare.same(full), nil
	}
	// what one and two earlier calls change
	after := func(n int) (bridged, error) {
		return t.cut(assistant("", aCall()), []trajectory.Message{aResult()}, tools, past{calls: n})
	}
	if none, err := after(0); err == nil {
		if one, err := after(1); err == nil && !one.same(none) {
			p.counts = 1
			if two, err := after(2); err == nil && !two.same(one) {
				p.counts = math.MaxInt
			}
		}
	}
	freeResults, whyResults := try(assistant("", aCall()), aResult())
	freeUser, whyUser := try(assistant(mark), user("next"))
	p.freeResults, p.freeUser = freeResults, freeUser
	v.BridgesResults, v.BridgesUser = v.ToolLoop && whyResults == nil, whyUser == nil
	if whyResults != nil {
		v.WhyNotResults = whyResults.Error()
	} else if !v.ToolLoop {
		v.WhyNotResults = "calls or results are not printed"
	}
	if whyUser != nil {
		v.WhyNotUser = whyUser.Error()
	}
	v.CountsCalls = p.counts > 0
	v.DropsInLoop = t.dropsThinking(assistant("", aCall()), aResult())
	v.DropsThinking = v.DropsInLoop || t.dropsThinking(assistant("answer"), user("next"))
}

// same reports whether two bridges are the same.
func (b bridged) same(c bridged) bool { return b.closer == c.closer && b.text[b.at:] == c.text[c.at:] }

// findStops looks at what ends an answer.
func (t *Template) findStops(p *probe) {
	add := func(s string) {
		if s != "" && !slices.Contains(p.stops, s) {
			p.stops = append(p.stops, s)
		}
	}
	const asked, next = "hermesprobeasks", "hermesprobenext"
	msgs := []trajectory.Message{user(asked), assistant(mark)}
	alone, err := t.render(msgs, nil, false)
	if whole, err2 := t.render(append(msgs, user(next)), nil, true); err == nil && err2 == nil {
		question, answer := whole.between(asked, mark), whole.between(mark, next)
		if t.alwaysGenerates(question) {
			for _, s := range answer {
				if slices.Contains(question, s) {
					p.closer = s
					break
				}
			}
		}
		if m := afterMark(alone.text); m >= 0 {
			if _, closer := alone.ending(m, p.closer); closer != "" {
				add(closer)
			} else if len(answer) > 0 { // a turn that ends where the next begins
				add(answer[0])
				if b, err := t.cutAfter(assistant("", aCall()), []trajectory.Message{aResult()}, nil, past{}); err == nil {
					if end, ok := b.specialAt(b.at); ok {
						add(b.text[b.at:end])
					}
				}
			}
		}
	}
	if r, err := t.render([]trajectory.Message{user("u"), assistant("", aCall())}, []trajectory.ToolSpec{aTool()}, false); err == nil && afterMark(r.text) >= 0 {
		if _, closer := r.ending(afterMark(r.text), p.closer); !strings.Contains(closer, "call") { // not the end of the call itself
			add(closer)
		}
	}
	for _, known := range turnEnders {
		if t.specials.has(known) && strings.Contains(t.opt.Source, known) {
			add(known)
		}
	}
	add(t.opt.EOS)
	p.verdict.Stops = p.stops
}

// alwaysGenerates reports whether a prompt ends with what is before an
// answer, although no generation prompt was asked for.
func (t *Template) alwaysGenerates(beforeAnswer []string) bool {
	const asked = "hermesprobeasks"
	r, err := t.render([]trajectory.Message{user(asked)}, nil, false)
	if err != nil || len(beforeAnswer) == 0 {
		return false
	}
	after := r.between(asked, "")
	return len(after) > 1 && slices.Equal(after, beforeAnswer[:min(len(after), len(beforeAnswer))])
}

// between are the control tokens after the last from and before the last to.
func (r rendering) between(from, to string) []string {
	start, end := strings.LastIndex(r.text, from), len(r.text)
	if to != "" {
		end = strings.LastIndex(r.text, to)
	}
	var out []string
	for _, s := range r.special {
		if start >= 0 && s[0] >= start && s[1] <= end {
			out = append(out, r.text[s[0]:s[1]])
		}
	}
	return out
}

// turnEnders end a turn in some situations only, such as after calls.
var turnEnders = []string{"<|call|>", "<|return|>", "<|eom_id|>", "<|eot_id|>"}

// dropsThinking reports whether the reasoning of an answer vanishes when a message
// follows.
func (t *Template) dropsThinking(answer, next trajectory.Message) bool {
	const thought = "hermesprobethought"
	answer.Reasoning = thought
	msgs := []trajectory.Message{user("u"), answer}
	alone, err := t.render(msgs, nil, false)
	if err != nil || !strings.Contains(alone.text, thought) {
		return false
	}
	whole, err := t.render(append(msgs, next), nil, true)
	return err == nil && !strings.Contains(whole.text, thought)
}

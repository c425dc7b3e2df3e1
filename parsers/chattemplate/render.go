package chattemplate

import (
	"maps"
	"slices"
	"sort"
	"strings"

	"hermes/internal/jinja"
	"hermes/trajectory"
)

// rendering is a rendered text with the places of its control tokens and of its
// messages.
type rendering struct {
	text    string
	special [][2]int
	visits  []jinja.Visit
}

// render renders messages. What a message says cannot become a control token:
//
//  1. values are guarded and rendered; the tokens in the result are the template's;
//  2. where anything was guarded, the plain values are rendered too, and must give
//     the same text. They do not when the template itself looks for a spelling
//     (content.split('</think>')); then that spelling is not guarded: the template
//     gives it its meaning, and where it still reaches the text outside of the
//     assistant's words its surroundings tell whose it is (see [rendering.disown]).
//
// The text is always that of the plain rendering.
func (t *Template) render(msgs []trajectory.Message, tools []trajectory.ToolSpec, generate bool) (rendering, error) {
	g := &guard{specials: t.specials, base: planes[0]}
	guarded, err := t.run(msgs, tools, generate, g)
	for plane := 1; g.clash() && plane <= len(planes); plane++ {
		next := &guard{specials: t.specials}
		if plane < len(planes) {
			next.base = planes[plane]
		}
		g = next
		guarded, err = t.run(msgs, tools, generate, g)
	}
	if g.used == 0 && (g.base != 0 || len(g.found) == 0) {
		return t.mark(guarded, guarded.Text), err
	}
	plain, plainErr := t.run(msgs, tools, generate, nil)
	if plainErr != nil {
		return rendering{}, plainErr
	}
	if err == nil && g.used > 0 && g.restore(guarded.Text) == plain.Text {
		return t.marked(guarded, g, plain), nil
	}
	for _, spare := range t.spares(g) {
		again := &guard{specials: t.specials, base: g.base, spare: spare}
		guarded, err = t.run(msgs, tools, generate, again)
		if err == nil && again.restore(guarded.Text) == plain.Text {
			r := t.marked(guarded, again, plain)
			r.disown(spare, msgs, tools)
			return r, nil
		}
	}
	r := t.mark(plain, plain.Text)
	r.disown(g.found, msgs, tools)
	return r, nil
}

// spares are sets of spellings to try unguarded: each alone that the template's
// source mentions, then all of these.
func (t *Template) spares(g *guard) []map[string]bool {
	if g.base == 0 {
		return nil
	}
	all := map[string]bool{}
	for tok := range g.found {
		if strings.Contains(t.opt.Source, tok) {
			all[tok] = true
		}
	}
	const tries = 6
	var sets []map[string]bool
	for _, tok := range slices.Sorted(maps.Keys(all)) {
		if len(sets) < tries {
			sets = append(sets, map[string]bool{tok: true})
		}
	}
	return append(sets, all)
}

// clash reports that a value uses the plane of the twins.
func (g *guard) clash() bool {
	return g.used > 0 && (g.base == planes[0] && g.saw[0] || g.base == planes[1] && g.saw[1])
}

// run is one rendering; a nil guard leaves the values as they are.
func (t *Template) run(msgs []trajectory.Message, tools []trajectory.ToolSpec, generate bool, g *guard) (jinja.Output, error) {
	v := values{form: t.form, guard: func(s string) string { return s }}
	if g != nil {
		v.guard = g.text
	}
	list, err := v.messages(msgs)
	if err != nil {
		return jinja.Output{}, err
	}
	specs, err := t.toolList(v, tools, g)
	if err != nil {
		return jinja.Output{}, err
	}
	vars := jinja.NewDict().Set("messages", list).Set("tools", specs).Set("add_generation_prompt", generate)
	t.vars.Each(func(k, val any) bool {
		vars.Set(k.(string), val)
		return true
	})
	limits := t.limits
	limits.Watch = list
	out, err := t.tmpl.Render(vars, limits)
	if t.meter != nil {
		t.meter(len(out.Text))
	}
	return out, err
}

// toolList is the variable tools, None where there are none.
func (t *Template) toolList(v values, tools []trajectory.ToolSpec, g *guard) (any, error) {
	if len(tools) == 0 {
		return nil, nil
	}
	if list := t.tools.get(tools); list != nil {
		return list, nil
	}
	var before guard
	if g != nil {
		before = *g
		g.used = 0
		g.found = nil
		g.saw = [2]bool{}
	}
	list, err := v.tools(tools)
	if err != nil {
		return nil, err
	}
	if g != nil {
		if g.used == 0 && len(g.found) == 0 && g.saw == [2]bool{} {
			t.tools.put(tools, list)
		}
		g.used += before.used
		for tok := range before.found {
			g.note(tok)
		}
		g.saw = [2]bool{g.saw[0] || before.saw[0], g.saw[1] || before.saw[1]}
	}
	return list, nil
}

// mark finds the control tokens of a text in which no value spells one.
func (t *Template) mark(out jinja.Output, text string) rendering {
	return rendering{text: text, special: t.specials.find(out.Text), visits: out.Visits}
}

// marked takes the places of the control tokens from the guarded text. They are
// moved to where they stand in the plain one, whose characters are shorter.
func (t *Template) marked(out jinja.Output, g *guard, plain jinja.Output) rendering {
	r := rendering{text: plain.Text, special: t.specials.find(out.Text), visits: plain.Visits}
	at, shift := 0, 0
	for i, s := range r.special {
		part := out.Text[at:s[0]]
		shift += len(part) - len(g.restore(part))
		at = s[1]
		r.special[i] = [2]int{s[0] - shift, s[1] - shift}
	}
	return r
}

// context is how many bytes on either side tell a message's spelling from the
// template's.
const context = 24

// disown takes from the control tokens those spare spellings that stand in the
// text as they stand in a message of another role than the assistant, or in a
// tool. What an assistant's message spells stays what the template made of it.
func (r *rendering) disown(spare map[string]bool, msgs []trajectory.Message, tools []trajectory.ToolSpec) {
	type place struct{ before, after string }
	places := map[string][]place{}
	look := func(s string) {
		for tok, on := range spare {
			for at := 0; on; {
				i := strings.Index(s[at:], tok)
				if i < 0 {
					break
				}
				i, at = at+i, at+i+len(tok)
				places[tok] = append(places[tok], place{strings.TrimLeft(s[max(0, i-context):i], blank), strings.TrimRight(s[at:min(len(s), at+context)], blank)})
			}
		}
	}
	for _, m := range msgs {
		if m.Role != trajectory.Assistant {
			look(m.Content())
		}
	}
	for _, s := range tools {
		look(s.Description)
		look(string(s.Parameters))
	}
	r.special = slices.DeleteFunc(r.special, func(s [2]int) bool {
		return slices.ContainsFunc(places[r.text[s[0]:s[1]]], func(p place) bool {
			return strings.HasSuffix(r.text[:s[0]], p.before) && strings.HasPrefix(r.text[s[1]:], p.after)
		})
	})
}

// message is the message to which byte at belongs.
func (r rendering) message(at int) int {
	i := sort.Search(len(r.visits), func(i int) bool { return r.visits[i].At > at })
	for i--; i >= 0; i-- {
		if r.visits[i].Item >= 0 {
			return r.visits[i].Item
		}
	}
	return 0
}

// pieces cuts the text from byte from on into pieces. Messages count from
// message first.
func (r rendering) pieces(from, first int) []Piece {
	out := make([]Piece, 0, 2*len(r.special)+len(r.visits)+1)
	last, begin := 0, 0
	add := func(from, to int, special bool) {
		if from == to {
			return
		}
		last = max(last, r.message(from)-first)
		if n := len(out); n > 0 && !special && !out[n-1].Special && out[n-1].Message == last {
			out[n-1].Text = r.text[begin:to]
			return
		}
		begin = from
		out = append(out, Piece{r.text[from:to], special, last})
	}
	texts := func(from, to int) {
		i := sort.Search(len(r.visits), func(i int) bool { return r.visits[i].At > from })
		for ; i < len(r.visits) && r.visits[i].At < to; i++ {
			add(from, r.visits[i].At, false)
			from = r.visits[i].At
		}
		add(from, to, false)
	}
	for _, s := range r.special {
		if s[0] >= from {
			texts(from, s[0])
			add(s[0], s[1], true)
			from = s[1]
		}
	}
	texts(from, len(r.text))
	return out
}

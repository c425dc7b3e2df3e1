package parsers

import (
	"slices"
	"strings"

	"hermes/internal/pyvalue"
)

// body is one call in JSON, read from p.text.
type body struct {
	name, args string
	end        int
	state      State
	err        error // why it is no call
	why        string
}

// jsonKeys names the keys under which a family writes a call.
type jsonKeys struct{ name, args []string }

var (
	nameArguments  = jsonKeys{[]string{"name"}, []string{"arguments", "parameters"}}
	nameParameters = jsonKeys{[]string{"name"}, []string{"parameters", "arguments"}}
)

// jsonCall reads a call object at i. When strict reading fails and the dialect
// repairs, the object is read as a Python dictionary with raw newlines.
func (p *parse) jsonCall(i int, keys jsonKeys) body {
	if p.spent > 8*len(p.text)+1<<16 {
		return body{end: i, err: errBad, why: "too many attempts"}
	}
	p.twice, p.checked = false, p.opt.Dialect == Ours
	sc := scanner{text: p.text, raw: p.raw}
	if p.checked {
		sc.doubled = &p.twice
	}
	ms, end, err := sc.object(i)
	if err != nil {
		p.spent += end - i
	}
	text, state := p.text, Complete
	if err != nil && p.k.Repair && i < len(p.text) && p.text[i] == '{' {
		fixed, n, perr := pyvalue.Read(p.text[i:], pyvalue.Options{RawNewlines: true, JSONEscapes: true})
		p.spent += n
		if perr == nil {
			text, state = fixed, Recovered
			p.checked = false
			ms, _, err = scanner{text: fixed}.object(0)
			end = i + n
		}
	}
	if err != nil {
		return body{end: end, err: err, why: err.Error()}
	}
	b := p.fromMembers(text, ms, keys)
	b.end = end
	if b.err == nil && b.state == Complete {
		b.state = state
	}
	return b
}

// Keys that models write in place of a family's own, and keys that say nothing about the
// arguments.
var (
	argumentKeys = []string{"arguments", "parameters", "args", "params", "input", "kwargs", "tool_input", "tool_args", "action_input", "function_arguments"}
	nameKeys     = []string{"name", "tool_name", "function", "tool", "function_name"}
	freeKeys     = []string{"id", "type", "index", "tool_call_id", "call_id"}
)

// fromMembers makes a call of an object's members.
func (p *parse) fromMembers(text string, ms []member, keys jsonKeys) body {
	n, ok := lookup(ms, keys.name...)
	if !ok && p.opt.Dialect == Ours {
		return p.misnamed(text, ms, keys)
	}
	if !ok {
		return body{err: errBad, why: "the object has no name"}
	}
	name, ok := unquote(text[n.a:n.b])
	if !ok || name == "" {
		return body{err: errBad, why: "the name is no text"}
	}
	b := body{name: name, args: "{}", state: Complete}
	if p.opt.Dialect == Ours {
		p.members(&b, text, ms, n, keys)
		return b
	}
	a, ok := lookup(ms, keys.args...)
	switch {
	case ok:
		b.args = text[a.a:a.b]
	case p.k.NeedArgs:
		return body{err: errBad, why: "the object has no arguments"}
	}
	if b.args != "null" && b.args[0] != '{' && b.args[0] != '"' {
		b.state = Malformed
	}
	if b.args[0] == '"' {
		b.state = Malformed // the peers give the text on, spelled as JSON once more
	}
	return b
}

// misnamed reads a call whose name is under another key: in an object "function", as
// servers write it, or under a synonym if the name is declared.
func (p *parse) misnamed(text string, ms []member, keys jsonKeys) body {
	for _, k := range nameKeys {
		m, ok := lookup(ms, k)
		if !ok {
			continue
		}
		if text[m.a] == '{' {
			inner, _, err := scanner{text: text, raw: p.raw}.object(m.a)
			if _, named := lookup(inner, keys.name...); err == nil && named {
				b := p.fromMembers(text, inner, keys)
				b.state = worse(b.state, Recovered)
				return b
			}
		}
		if name, ok := unquote(text[m.a:m.b]); ok && p.tools.has(strings.TrimSpace(name)) {
			return p.fromMembers(text, ms, jsonKeys{[]string{k}, keys.args})
		}
	}
	return body{err: errBad, why: "the object has no name"}
}

// members finds the arguments of a call in our dialect. Nothing that the object says is
// left out in silence: arguments under another key, or beside the name, are recovered; what
// is said twice in two ways is malformed.
func (p *parse) members(b *body, text string, ms []member, name member, keys jsonKeys) {
	declared := func(key string) bool { // a schema is decoded only where a key asks for it
		return p.tools.params(strings.TrimSpace(b.name)).Prop(key) != nil
	}
	var given, like, other []member
	for _, m := range ms {
		switch {
		case m.key == name.key:
			if text[m.a:m.b] != text[name.a:name.b] {
				b.state = Malformed
			}
		case slices.Contains(keys.args, m.key):
			given = append(given, m)
		case slices.Contains(freeKeys, m.key) && text[m.a] != '{' && text[m.a] != '[' && !declared(m.key):
			p.also += text[m.a:m.b] + " "
		case slices.Contains(argumentKeys, m.key) && (text[m.a] == '{' || strings.HasPrefix(text[m.a:], `"{`)) && !declared(m.key):
			like = append(like, m)
		default:
			other = append(other, m)
		}
	}
	set := func(m member, st State) { b.args, b.state = text[m.a:m.b], worse(b.state, st) }
	switch {
	case len(given) == 0 && len(like) == 0 && len(other) == 0:
		if p.k.NeedArgs {
			b.err, b.why = errBad, "the object has no arguments"
		}
		return
	case len(given) == 0 && len(like) == 0:
		p.flat(b, text, other)
		return
	case len(given) == 0:
		given = like
		b.state = worse(b.state, Recovered)
	case len(like) > 0:
		given = append(given, like...)
	}
	set(given[0], Complete)
	for _, m := range given[1:] {
		v := text[m.a:m.b]
		switch {
		case v == b.args || void(v):
			p.also += v + " "
			b.state = worse(b.state, Recovered)
		case void(b.args):
			set(m, Recovered)
		default:
			set(m, Malformed)
		}
	}
	for _, m := range other {
		p.also += m.key + " " + text[m.a:m.b] + " "
		b.state = worse(b.state, Recovered)
		if declared(m.key) {
			b.state = Malformed
		}
	}
}

// void says that a value of arguments says nothing.
func void(v string) bool {
	return v == "null" || v == `""` || strings.TrimSpace(strings.Trim(v, "{}")) == ""
}

// flat takes the members beside the name as the arguments.
func (p *parse) flat(b *body, text string, ms []member) {
	tool := strings.TrimSpace(b.name)
	if p.k.NeedArgs && !p.tools.has(tool) {
		b.err, b.why = errBad, "the object has no arguments"
		return
	}
	ps := make([]pair, len(ms))
	b.state = worse(b.state, Recovered)
	for i, m := range ms {
		ps[i] = pair{m.key, text[m.a:m.b]}
		if p.tools.has(tool) && !p.tools.params(tool).Declares(m.key) {
			b.state = Malformed
		}
	}
	b.args = p.object(ps)
}

// jsonList reads a list of call objects at i; each item becomes a call or a fault.
// It returns the end of the list, or an error when it is none.
func (p *parse) jsonList(i int, keys jsonKeys) (int, error) {
	if p.spent > 8*len(p.text)+1<<16 {
		return i, errBad
	}
	sc := scanner{text: p.text}
	items, end, err := sc.list(i)
	if err != nil {
		p.spent += end - i
		return p.looseList(i, end, err, keys)
	}
	p.frame(i, i+1)
	at := i + 1
	for _, it := range items {
		p.frame(at, it.a)
		p.addJSON(it.a, it.b, keys, Complete)
		at = it.b
	}
	p.frame(at, end)
	return end, nil
}

// looseList reads what can be read of a list that is cut or damaged: every item that
// is alone is kept, one bad item does not lose the others.
func (p *parse) looseList(i, end int, err error, keys jsonKeys) (int, error) {
	if i >= len(p.text) || p.text[i] != '[' || !p.k.Repair {
		return end, err
	}
	found := 0
	at := i + 1
	for {
		at = p.skipSpace(at)
		if at >= len(p.text) {
			break
		}
		if p.text[at] == ']' {
			at++
			break
		}
		b := p.jsonCall(at, keys)
		if b.err != nil {
			next := p.index("{\""+keys.name[0]+"\"", at+1)
			if next < 0 || b.err == errCut && next < b.end {
				break
			}
			p.refuse(at, next, "malformed", "item of the list: %s", b.why)
			at = next
			continue
		}
		found++
		p.call(at, b.end, b.name, b.args, worse(b.state, Recovered))
		at = p.skipSpace(b.end)
		if at < len(p.text) && p.text[at] == ',' {
			at++
		}
	}
	if found == 0 {
		return end, err
	}
	return at, nil
}

// addJSON adds the object at a..b as a call or refuses it.
func (p *parse) addJSON(a, b int, keys jsonKeys, st State) bool {
	c := p.jsonCall(a, keys)
	if c.err != nil {
		p.refuse(a, b, "malformed", "call object: %s", c.why)
		return false
	}
	p.call(a, b, c.name, c.args, worse(c.state, st))
	return true
}

var rank = map[State]int{Complete: 0, Recovered: 1, Ambiguous: 2, Truncated: 3, Malformed: 4}

func worse(a, b State) State {
	if rank[a] >= rank[b] {
		return a
	}
	return b
}

// repair reads a whole text as a loose dictionary and spells it as JSON.
func repair(text string) (string, bool) {
	fixed, n, err := pyvalue.Read(text, pyvalue.Options{RawNewlines: true, JSONEscapes: true})
	return fixed, err == nil && n == len(text) && fixed != "" && fixed[0] == '{'
}

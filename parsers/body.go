package parsers

import (
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
	sc := scanner{text: p.text, raw: p.raw}
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
			ms, _, err = scanner{text: fixed}.object(0)
			end = i + n
		}
	}
	if err != nil {
		return body{end: end, err: err, why: err.Error()}
	}
	b := fromMembers(text, ms, keys, p.k.NeedArgs)
	b.end = end
	if b.err == nil && b.state == Complete {
		b.state = state
	}
	return b
}

// fromMembers makes a call of an object's members.
func fromMembers(text string, ms []member, keys jsonKeys, needArgs bool) body {
	n, ok := lookup(ms, keys.name...)
	if !ok {
		return body{err: errBad, why: "the object has no name"}
	}
	name, ok := unquote(text[n.a:n.b])
	if !ok || name == "" {
		return body{err: errBad, why: "the name is no text"}
	}
	b := body{name: name, args: "{}", state: Complete}
	a, ok := lookup(ms, keys.args...)
	switch {
	case ok:
		b.args = text[a.a:a.b]
	case needArgs:
		return body{err: errBad, why: "the object has no arguments"}
	}
	if b.args != "null" && b.args[0] != '{' && b.args[0] != '"' {
		b.state = Malformed
	}
	if b.args[0] == '"' {
		if inner, ok := unquote(b.args); ok && strings.HasPrefix(strings.TrimSpace(inner), "{") && isJSON(inner) {
			b.args, b.state = inner, Recovered // an object printed into a string
		} else {
			b.state = Malformed
		}
	}
	return b
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
// stands alone is kept, one bad item does not lose the others.
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

package chat

import (
	"bytes"
	"encoding/json"
	"strings"

	"hermes/rollout/policy"
	"hermes/rollout/policy/loose"
)

type called struct {
	Index    loose.Place     `json:"index"`
	ID       loose.Label     `json:"id"`
	Function *function       `json:"function"`
	Custom   *function       `json:"custom"`        // of a call of the type custom
	Extra    json.RawMessage `json:"extra_content"` // signatures of thoughts
	function                 // where a server leaves the member function out
}

type function struct {
	Name      loose.Label     `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // text; an object from Ollama and some others
	// What some servers call the arguments.
	Parameters json.RawMessage `json:"parameters"`
	Input      json.RawMessage `json:"input"`
	Args       json.RawMessage `json:"args"`
	Tool       loose.Label     `json:"tool_name"` // and the name
}

// given are the arguments, by whatever name.
func (f *function) given() json.RawMessage {
	list := []json.RawMessage{f.Arguments, f.Parameters, f.Input, f.Args}
	for _, raw := range list {
		if !idle(raw) {
			return raw
		}
	}
	for _, raw := range list {
		if loose.Present(raw) {
			return raw
		}
	}
	return nil
}

// partial is a call whose pieces are still coming.
type partial struct {
	index loose.Place
	id    string
	fresh bool // pieces came with other ids
	name  string
	args  strings.Builder
	said  []piece // of the arguments, where they came in several
	extra json.RawMessage
}

// whole reports whether the arguments are a complete object.
func (p *partial) whole() bool { return isObject(p.args.String()) }

// isObject reports whether s is a JSON object.
func isObject(s string) bool {
	s = strings.TrimSpace(s)
	return strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && json.Valid([]byte(s))
}

// readCalls reads the list of calls of a message or a delta; one call without a list is a
// list of one.
func readCalls(raw json.RawMessage) ([]called, error) {
	if !loose.Present(raw) || raw[0] != '{' && raw[0] != '[' && raw[0] != '"' {
		return nil, nil
	}
	if raw[0] == '"' { // the list as text
		if text := []byte(strings.TrimSpace(loose.Unquote(raw))); len(text) > 0 && json.Valid(text) {
			return readCalls(text)
		}
		return nil, nil
	}
	if raw[0] == '{' {
		var one called
		err := json.Unmarshal(raw, &one)
		return []called{one}, err
	}
	var list []called
	err := json.Unmarshal(raw, &list)
	return list, err
}

// says is the name and the arguments of a call. Servers put them in a member function or
// custom, beside it, or one here and the other there.
func (c *called) says() (name string, args json.RawMessage) {
	for _, f := range []*function{c.Function, c.Custom, &c.function} {
		if f == nil {
			continue
		}
		if name == "" {
			name = strings.TrimSpace(string(f.Name)) // no tool has blanks in its name
		}
		if name == "" {
			name = strings.TrimSpace(string(f.Tool))
		}
		if given := f.given(); idle(args) && loose.Present(given) && (args == nil || !idle(given)) {
			args = given
		}
	}
	return name, args
}

// void reports whether an entry of a list of calls says nothing at all.
func (c *called) void() bool {
	name, args := c.says()
	return !c.Index.Known && c.ID == "" && name == "" && !loose.Present(c.Extra) && (len(args) == 0 || string(args) == `""`)
}

// idle reports whether arguments say nothing.
func idle(raw json.RawMessage) bool {
	return !loose.Present(raw) || string(raw) == `""` || string(raw) == "{}"
}

// partCalls are the calls among the parts of a content, as Anthropic, Gemini and
// OpenAI's newer form have them.
func partCalls(raw json.RawMessage) []called {
	if len(raw) == 0 || raw[0] != '[' {
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var calls []called
	for _, one := range list {
		var part struct {
			Type   loose.Label `json:"type"`
			CallID loose.Label `json:"call_id"`
			Inner  *function   `json:"functionCall"`
			called
		}
		if len(one) == 0 || one[0] != '{' || json.Unmarshal(one, &part) != nil {
			continue
		}
		switch part.Type {
		case "tool_use", "tool_call", "function_call", "custom_tool_call", "tool-call":
		default:
			if part.Inner == nil {
				continue
			}
		}
		if part.CallID != "" {
			part.ID = part.CallID
		}
		if part.Inner != nil {
			part.Function = part.Inner
		}
		calls = append(calls, part.called)
	}
	return calls
}

// call takes one call or a piece of one.
func (a *answer) call(c *called, whole bool) error {
	name, given := c.says()
	args, err := loose.Text(given)
	if err != nil {
		return policy.Malformedf("arguments of a call of %s: %w", name, err)
	}
	if !whole && a.repeated(c, name, args) {
		return nil
	}
	var at *partial
	if !whole { // the calls of a whole message are complete
		at = a.find(c.Index, string(c.ID), name, args)
	}
	if at == nil && name+args+string(c.ID) == "" && !loose.Present(c.Extra) {
		return nil // an empty piece begins nothing
	}
	if at == nil {
		at = &partial{index: c.Index}
		a.calls = append(a.calls, at)
	}
	a.pieces++
	a.open = at
	if at.id == "" {
		at.id = string(c.ID)
	}
	at.fresh = at.fresh || c.ID != "" && at.id != string(c.ID)
	switch {
	case strings.HasPrefix(name, at.name): // the first, again, or longer by what came meanwhile
		at.name = name
	case at.args.Len() == 0:
		at.name += name
	}
	if loose.Present(c.Extra) {
		at.extra = c.Extra
	}
	at.args.WriteString(args)
	if !whole && args != "" {
		at.said = append(at.said, piece{text: args, index: c.Index, tail: name == "" && c.ID == "", nth: a.pieces})
	}
	return nil
}

// repeated reports whether a piece says once more what is there already: a call at the
// same place with the same id and the same complete arguments.
func (a *answer) repeated(c *called, name, args string) bool {
	if c.ID == "" || !c.Index.Known || !isObject(args) {
		return false
	}
	for _, p := range a.calls {
		if p.index == c.Index && p.id == string(c.ID) && (name == "" || name == p.name) && p.whole() && sameJSON(loose.Mend(p.args.String()), loose.Mend(args)) {
			return true
		}
	}
	return false
}

// sameJSON reports whether two JSON texts differ in white space at most.
func sameJSON(x, y string) bool {
	var a, b bytes.Buffer
	return json.Compact(&a, []byte(x)) == nil && json.Compact(&b, []byte(y)) == nil && bytes.Equal(a.Bytes(), b.Bytes())
}

// find returns the call that a piece continues, or nil where it begins one. Servers
// disagree about index and id: some leave one out, some give every call the same, some
// give every piece another. The index counts first, then the id; a piece with neither id
// nor name belongs to the call that is open.
func (a *answer) find(index loose.Place, id, name, args string) *partial {
	if len(a.calls) == 0 {
		return nil
	}
	if id == "" && name == "" {
		at := a.indexed(index)
		switch {
		case at == nil:
			a.stray = a.stray || index.Known && strings.TrimSpace(args) != ""
			return a.open
		case at != a.open && at.whole() && !a.open.whole() && strings.TrimSpace(args) != "" && !strings.HasPrefix(args, at.args.String()):
			a.stray = true
			return a.open // nothing has a place behind complete arguments
		}
		return at
	}
	at := a.indexed(index)
	for _, p := range a.calls { // where calls share a place, the id tells them apart
		if at != nil && at.id != id && id != "" && p.id == id && p.index == index {
			at = p
		}
	}
	if at == nil && index.Known && (name != "" || !a.identified(id)) {
		if name != "" || args == "" || begun(args) || a.open.whole() {
			return nil // another place is another call
		}
		return a.open // every piece has its own place and id
	}
	if at == nil {
		for _, p := range a.calls {
			if id != "" && p.id == id {
				at = p
			}
		}
	}
	if at == nil {
		at = a.open
	}
	if at.begins(id, name, args) {
		return nil
	}
	return at
}

// indexed is the last call with an index, or nil.
func (a *answer) indexed(index loose.Place) (at *partial) {
	for _, p := range a.calls {
		if index.Known && p.index == index {
			at = p
		}
	}
	if at != nil && a.open != nil && a.open.index == index {
		return a.open
	}
	return at
}

func (a *answer) identified(id string) bool {
	for _, p := range a.calls {
		if id != "" && p.id == id {
			return true
		}
	}
	return false
}

// begins reports whether a piece with an id or a name, which would fit behind p, begins
// another call all the same.
func (p *partial) begins(id, name, args string) bool {
	other := id != "" && p.id != "" && id != p.id
	switch {
	case other && name != "": // a new id for each piece goes with the same name amid the arguments
		return p.args.Len() == 0 || p.whole() || begun(args) || name != p.name
	case other: // a new id for each piece, or a call whose name is to come
		return p.whole()
	case name == "" || p.name == "":
		return false
	case p.whole(): // the name once more, at the end, or another call
		return strings.TrimSpace(args) != "" || id == ""
	case p.args.Len() > 0:
		return name != p.name
	}
	return false // a name in pieces, or again before the arguments
}

// begun reports whether args are the beginning of an object.
func begun(args string) bool { return strings.HasPrefix(strings.TrimSpace(args), "{") }

package parsers

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"hermes/internal/late"
	"hermes/internal/pyvalue"
)

// region is an open field of the message.
type region struct {
	f        *responseField
	at, from int // where its mark begins and where its text does
	groups   []pair
}

// read reads the fields one after another: the first mark that opens one counts, the longest
// where several begin at one place.
func (t *responseTemplate) read(p *parse) {
	p.own, p.suffix = true, t.words
	next := make(map[*responseField]mark, len(t.fields)+1) // the next opening mark of each field, closing of the implicit one
	at := p.pos
	if p.opt.InReasoning {
		for _, f := range t.fields {
			if f.reasons() {
				at = t.region(p, region{f: f, at: at, from: at})
				break
			}
		}
	}
	for at < len(p.text) {
		r, found := t.opening(p, next, at)
		end := len(p.text)
		if found {
			end = r.at
		}
		t.outside(p, next, at, end)
		if !found {
			return
		}
		at = max(t.region(p, r), at)
		if r.from == r.at && at == r.at { // a mark without text that opened nothing
			delete(next, r.f)
			next[r.f] = mark{a: len(p.text) + 1}
		}
	}
}

// opening is the next field that opens at or behind at.
func (t *responseTemplate) opening(p *parse, next map[*responseField]mark, at int) (region, bool) {
	var best region
	found := false
	for _, f := range t.fields {
		m, ok := next[f]
		if !ok || m.a < at {
			m, ok = f.open.find(p, at)
			if !ok {
				m = mark{a: len(p.text) + 1}
			}
			next[f] = m
		}
		if m.a <= len(p.text) && (!found || m.a < best.at || m.a == best.at && m.b > best.from) {
			best, found = region{f: f, at: m.a, from: m.b, groups: m.groups}, true
		}
	}
	return best, found
}

func (f *responseField) reasons() bool {
	return slices.Contains([]string{"thinking", "reasoning", "reasoning_content"}, f.name)
}

// outside is text between the fields: of the field without an opening mark, or of none.
func (t *responseTemplate) outside(p *parse, next map[*responseField]mark, a, b int) {
	for a < b && t.implicit != nil && t.implicit.close != nil {
		m, ok := next[t.implicit]
		if !ok || m.a < a {
			m, ok = t.implicit.close.find(p, a)
			if !ok {
				m = mark{a: len(p.text) + 1}
			}
			next[t.implicit] = m
		}
		if m.a >= b {
			break
		}
		t.text(p, t.implicit, a, m.a)
		p.frame(m.a, min(m.b, b))
		if m.b <= a {
			break
		}
		a = min(m.b, b)
	}
	if t.implicit != nil {
		t.text(p, t.implicit, a, b)
		return
	}
	if strings.TrimSpace(p.text[a:b]) != "" {
		p.fault(a, b, "dropped_text", "text outside of the fields of the response template")
		p.seg(InFault, a, b)
	}
}

// text gives a..b to the message.
func (t *responseTemplate) text(p *parse, f *responseField, a, b int) {
	if f.args.strips() {
		for a < b && isSpace(p.text[a]) {
			a++
		}
		for a < b && isSpace(p.text[b-1]) {
			b--
		}
	}
	switch {
	case f.reasons():
		p.reason(a, b)
	case f.name == "content":
		p.content(a, b)
	case f.name == "tool_calls":
		t.calls(p, region{f: f, at: a, from: a}, b, b, Complete)
	case a < b:
		p.fault(a, b, "other_field", "text of the field %q", f.name)
		p.seg(InFault, a, b)
	}
}

// region reads one field and returns where it ends.
func (t *responseTemplate) region(p *parse, r region) int {
	end := len(p.text)
	next := len(p.text)
	st := Complete
	if r.f.close != nil {
		m, ok := r.f.close.find(p, t.behind(p, r))
		if ok {
			end, next = m.a, m.b
			r.groups = append(r.groups, m.groups...)
		} else {
			st = Recovered
		}
	}
	if r.f.name == "tool_calls" {
		t.calls(p, r, end, next, st)
		return next
	}
	p.frame(r.at, r.from)
	if st == Recovered && r.f.reasons() {
		p.fault(end, end, "unclosed_reasoning", "reasoning is not closed")
	}
	t.text(p, r.f, r.from, end)
	p.frame(end, next)
	return next
}

// behind is where the closing mark of a region is looked for: behind the JSON value that its
// text begins with, as a mark inside its strings is text.
func (t *responseTemplate) behind(p *parse, r region) int {
	j := p.skipSpace(r.from)
	if r.f.content != "json" || j >= len(p.text) || p.text[j] != '{' && p.text[j] != '[' || p.spent > 8*len(p.text) {
		return r.from
	}
	end, err := scanner{text: p.text}.value(j, 0)
	if err != nil {
		p.spent += end - j
		return r.from
	}
	return end
}

// calls reads the calls whose text is from..end.
func (t *responseTemplate) calls(p *parse, r region, end, next int, st State) {
	body := p.text[r.from:end]
	if r.f.content == "python-call-list" {
		p.before(end, func(p *parse) {
			if _, err := p.pylist(p.skipSpace(r.from), pyvalue.Options{}); err != nil {
				p.refuse(r.from, end, "malformed", "no list of calls: %v", err)
			}
		})
		p.frame(r.at, r.from)
		p.frame(end, next)
		return
	}
	v, state, err := t.value(p, r, body)
	if err != nil {
		kind := "malformed"
		if err == errCut || next == len(p.text) && st != Complete {
			kind = "truncated"
		}
		p.refuse(r.at, next, kind, "the text of a call: %v", err)
		return
	}
	st = worse(st, state)
	v = strings.TrimSpace(v)
	if v != "" && v[0] == '[' {
		items, _, err := scanner{text: v}.list(0)
		if err != nil {
			p.refuse(r.at, next, "malformed", "the list of calls: %v", err)
			return
		}
		at := r.at
		for n, it := range items {
			b := next
			if n < len(items)-1 { // each call has the bytes up to the next
				if i := strings.Index(p.text[at:end], v[it.a:it.b]); i >= 0 {
					b = at + i + it.b - it.a
				} else {
					b = at
				}
			}
			t.one(p, r, v[it.a:it.b], at, b, st)
			at = b
		}
		if len(items) == 0 {
			p.frame(r.at, next)
		}
		return
	}
	t.one(p, r, v, r.at, next, st)
}

// one makes a call of a value, which is at a..b.
func (t *responseTemplate) one(p *parse, r region, v string, a, b int, st State) {
	text := v
	if len(r.f.transform) > 0 {
		out, ok := transformed(r, v)
		if !ok {
			p.refuse(a, b, "malformed", "the transform of the response template does not fit the text of a call")
			return
		}
		text = out
	}
	sc := scanner{text: text, raw: p.raw}
	ms, _, err := sc.object(sc.space(0))
	if err != nil {
		p.refuse(a, b, "malformed", "a call that is no object: %v", err)
		return
	}
	if f, ok := lookup(ms, "function"); ok && text[f.a] == '{' {
		ms, _, err = sc.object(f.a)
		if err != nil {
			p.refuse(a, b, "malformed", "the function of a call: %v", err)
			return
		}
	}
	p.twice, p.checked = false, false
	c := p.fromMembers(text, ms, nameArguments)
	if c.err != nil {
		p.refuse(a, b, "malformed", "call object: %s", c.why)
		return
	}
	p.also += freeWords(v)
	p.call(a, b, c.name, c.args, worse(st, c.state))
}

// freeWords are the members of a call that say nothing about it: its id, for instance.
func freeWords(v string) string {
	out := ""
	ms, _, _ := scanner{text: v, raw: true}.object(0)
	for _, m := range ms {
		if slices.Contains(freeKeys, m.key) && v[m.a] != '{' && v[m.a] != '[' {
			out += v[m.a:m.b] + " "
		}
	}
	return out
}

// value reads the text of a field as JSON.
func (t *responseTemplate) value(p *parse, r region, body string) (string, State, error) {
	tool := ""
	for _, g := range r.groups {
		if g.key == "name" {
			tool = strings.TrimSpace(g.value)
		}
	}
	switch r.f.content {
	case "json":
		return looseJSON(p, body, r.f.args)
	case "xml-inline":
		var ps []pair
		key, val := r.f.tags.SubexpIndex("key"), r.f.tags.SubexpIndex("value")
		for _, m := range r.f.tags.FindAllStringSubmatchIndex(body, -1) {
			if m[2*key] < 0 || m[2*val] < 0 {
				continue
			}
			k := body[m[2*key]:m[2*key+1]]
			p.keep(k, r.from+m[2*val], r.from+m[2*val+1])
			ps = append(ps, pair{k, t.parameter(p, tool, k, body[m[2*val]:m[2*val+1]], r.f.args.ValueParser)})
		}
		return p.object(ps), Complete, nil
	case "kv-lines":
		return t.lines(p, r, tool, body), Complete, nil
	}
	return quote(body), Complete, nil
}

// lines reads KEY SEP VALUE, one a line.
func (t *responseTemplate) lines(p *parse, r region, tool, body string) string {
	lineSep, kvSep := r.f.args.LineSep, r.f.args.KVSep
	lineSep = cmp.Or(lineSep, "\n")
	kvSep = cmp.Or(kvSep, ":")
	var ps []pair
	at := r.from
	for _, line := range strings.Split(body, lineSep) {
		if key, v, ok := strings.Cut(line, kvSep); ok {
			p.keep(strings.TrimSpace(key), at+len(key)+len(kvSep), at+len(line))
			ps = append(ps, pair{strings.TrimSpace(key), t.parameter(p, tool, strings.TrimSpace(key), strings.TrimSpace(v), r.f.args.ValueParser)})
		}
		at += len(line) + len(lineSep)
	}
	return p.object(ps)
}

// parameter is the value of a parameter: by the schema where one declares it, else as the
// template says.
func (t *responseTemplate) parameter(p *parse, tool, key, raw string, how *valueParser) string {
	if how == nil {
		how = &valueParser{Name: "text", Args: contentArgs{Strip: new(bool)}}
	}
	if how.Args.strips() {
		raw = strings.TrimSpace(raw)
	}
	params := p.tools.params(tool)
	if prop := params.Prop(key); prop != nil {
		return p.declared(prop, params, raw)
	}
	text := strings.TrimSpace(raw)
	switch how.Name {
	case "json":
		if v, _, err := looseJSON(p, text, how.Args); err == nil {
			return v
		}
	case "int", "float":
		if v, ok := as("number", text); ok {
			return v
		}
	case "bool":
		if v, ok := as("boolean", text); ok {
			return v
		}
	}
	return quote(raw)
}

// bareKey is a key without quotes.
var bareKey = late.Regexp(`^\w+\s*:`)

// looseJSON reads JSON whose strings may be between other marks and whose keys may have no
// quotes, as args allow.
func looseJSON(p *parse, body string, args contentArgs) (string, State, error) {
	text := strings.TrimSpace(body)
	if args.Unquoted || len(args.Delims) > 0 {
		if json.Valid([]byte(text)) {
			return text, Complete, nil
		}
		text = plainJSON(text, args)
	}
	end, err := scanner{text: text}.value(0, 0)
	if err == nil && end == len(text) {
		return text, Complete, nil
	}
	if args.AllowText {
		return quote(body), Complete, nil
	}
	if p.k.Repair && err != errCut {
		if fixed, ok := repair(text); ok {
			return fixed, Recovered, nil
		}
	}
	if err == nil {
		err = errBad
	}
	return "", Malformed, err
}

// plainJSON spells the strings and keys of text as JSON does.
func plainJSON(text string, args contentArgs) string {
	var b strings.Builder
	before := byte(0) // the last byte that is no blank
next:
	for i := 0; i < len(text); {
		for _, d := range args.Delims {
			if d[0] != "" && strings.HasPrefix(text[i:], d[0]) {
				if n := strings.Index(text[i+len(d[0]):], d[1]); n >= 0 {
					b.WriteString(quote(text[i+len(d[0]) : i+len(d[0])+n]))
					i += len(d[0]) + n + len(d[1])
					before = '"'
					continue next
				}
			}
		}
		if text[i] == '"' {
			end, err := scanner{text: text, raw: true}.str(i)
			if err != nil {
				end = i + 1
			}
			b.WriteString(text[i:end])
			i, before = end, '"'
			continue
		}
		if args.Unquoted && (before == '{' || before == ',') {
			if m := bareKey.FindString(text[i:]); m != "" {
				b.WriteString(quote(strings.TrimSpace(strings.TrimSuffix(m, ":"))) + ":")
				i, before = i+len(m), ':'
				continue
			}
		}
		b.WriteByte(text[i])
		if !isSpace(text[i]) {
			before = text[i]
		}
		i++
	}
	return b.String()
}

// transformed puts a value and the groups of the marks into the transform of the field. With
// transform_each the members of the value are names too. Texts are JSON.
func transformed(r region, v string) (string, bool) {
	scope := []pair{{"content", v}}
	for _, g := range r.groups {
		scope = append(scope, pair{g.key, quote(strings.TrimSpace(g.value))})
	}
	if r.f.each {
		ms, _, err := scanner{text: v}.object(0)
		if err != nil {
			return "", false
		}
		for _, m := range ms {
			scope = append(scope, pair{m.key, v[m.a:m.b]})
		}
	}
	return substituted(string(r.f.transform), scope)
}

// placeholder is a text of a transform in place of which a value is put.
var placeholder = late.Regexp(`^\{(\w+(?:\.\w+)*)\}$`)

// substituted replaces the placeholders in the JSON value t. One that names no value is no
// member of the result.
func substituted(t string, scope []pair) (string, bool) {
	t = strings.TrimSpace(t)
	if t == "" {
		return "", false
	}
	switch t[0] {
	case '{':
		ms, _, err := scanner{text: t}.object(0)
		if err != nil {
			return "", false
		}
		var ps []pair
		for _, m := range ms {
			if v, ok := substituted(t[m.a:m.b], scope); ok {
				ps = append(ps, pair{m.key, v})
			}
		}
		return object(ps), true
	case '[':
		ms, _, err := scanner{text: t}.list(0)
		if err != nil {
			return "", false
		}
		var out []string
		for _, m := range ms {
			if v, ok := substituted(t[m.a:m.b], scope); ok {
				out = append(out, v)
			}
		}
		return "[" + strings.Join(out, ", ") + "]", true
	}
	text, ok := unquote(t)
	m := placeholder.FindStringSubmatch(text)
	if !ok || m == nil {
		return t, true
	}
	path := strings.Split(m[1], ".")
	i := slices.IndexFunc(scope, func(q pair) bool { return q.key == path[0] })
	if i < 0 {
		return "", false
	}
	v := scope[i].value
	for _, key := range path[1:] {
		ms, _, err := scanner{text: v}.object(0)
		one, found := lookup(ms, key)
		if err != nil || !found {
			return "", false
		}
		v = v[one.a:one.b]
	}
	return v, true
}

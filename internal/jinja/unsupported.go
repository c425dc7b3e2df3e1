package jinja

import "strings"

// unsupported refuses a construct by name: rather an error than a text that differs from
// Python's, or from one rendering to the next.
func unsupported(construct, why string) *Error {
	return raisef("NotImplementedError", "%s is not supported in chat templates: %s", construct, why)
}

// blocksOf is the variable self, through which Jinja2 renders a block once more.
type blocksOf struct{}

func (blocksOf) attr(name string) (any, bool) {
	panic(unsupported("self."+name+"()", "a block is rendered where it is written; use a macro"))
}

// randomFilter gives the only item of a sequence.
func randomFilter(st *state, v any, a arguments) any {
	a.none("random")
	items := st.collect(v)
	switch len(items) {
	case 0:
		return &Undefined{name: "random"}
	case 1:
		return items[0]
	}
	panic(unsupported("the filter random", "a prompt must be the same each time; use first, last or an index"))
}

// xmlAttr writes a dictionary as attributes of a tag. None and undefined values are left out.
func xmlAttr(st *state, v any, a arguments) any {
	p := a.take("xmlattr", 0, "autospace")
	d, ok := v.(*Dict)
	if !ok {
		defined(v)
		panic(raisef("AttributeError", "'%s' object has no attribute 'items'", typeName(v)))
	}
	var parts []string
	d.Each(func(k, v any) bool {
		if _, none := v.(*Undefined); none || v == nil {
			return true
		}
		key := st.text(k)
		if strings.ContainsAny(key, " \t\n\r\f\v/>=") {
			panic(raisef("ValueError", "Invalid character in attribute name: %s", reprString(key)))
		}
		parts = append(parts, string(st.escaped(k))+`="`+string(st.escaped(v))+`"`)
		return true
	})
	out := strings.Join(parts, " ")
	st.size(len(out))
	if out != "" && (p[0] == missing || st.truth(p[0])) {
		out = " " + out
	}
	return out
}

// encodeMethod refuses: there are no bytes here.
func encodeMethod(*state, string, arguments) any {
	panic(unsupported("str.encode()", "there are no values of bytes"))
}

// blockStatement reads a block, which is rendered where it is written: no template extends a chat
// template. It has its own scope. In a loop, a macro, a with or another block Jinja2
// hides the variables there from it, unless it is scoped: there it must be.
func (p *parser) blockStatement(tag token) stmt {
	name := p.expect(tokName, "name")
	if p.blocks[name.text] {
		e := syntaxf(name.pos, "block %s defined twice", reprString(name.text))
		e.Kind = "TemplateAssertionError"
		panic(e)
	}
	if p.blocks == nil {
		p.blocks = map[string]bool{}
	}
	p.blocks[name.text] = true
	scoped := p.skip(tokName, "scoped")
	if p.name("required") {
		panic(syntaxf(name.pos, "block %s is required, but no template extends a chat template", reprString(name.text)))
	}
	if (p.loops > 0 || p.functions > 0) && !scoped {
		panic(syntaxf(tag.pos, "block %s is in a loop, a macro, a with or another block: write {%% block %s scoped %%}", reprString(name.text), name.text))
	}
	body := p.function("endblock")
	if p.cur().kind == tokName && p.cur().text == name.text {
		p.next()
	}
	return &withStmt{pos: tag.pos, body: body}
}

package chattemplate

import (
	"hermes/trajectory"
)

// Render is the whole conversation, with or without the generation prompt.
func (t *Template) Render(msgs []trajectory.Message, tools []trajectory.ToolSpec, generate bool) (string, error) {
	r, err := t.render(msgs, tools, generate)
	return r.text, err
}

// Last is the control token that ends answer in front of tail, as the template
// writes it.
func (t *Template) Last(prev []trajectory.Message, answer trajectory.Message, tail []trajectory.Message, tools []trajectory.ToolSpec) string {
	c, err := t.cut(answer, tail, tools, past{calls: t.probe.earlier(prev)})
	if err != nil {
		return ""
	}
	if end, ok := c.specialAt(c.at); c.closer == "" && ok && t.isStop(c.text[c.at:end]) {
		return c.text[c.at:end]
	}
	return c.closer
}

// Metered returns t with a function that sees the bytes of each rendering.
func (t *Template) Metered(meter func(int)) *Template {
	c := *t
	c.meter = meter
	return &c
}

// Written is an answer as the template writes it after its own generation prompt.
func (t *Template) Written(answer trajectory.Message, tools []trajectory.ToolSpec) (text string, inReasoning, ok bool) {
	return t.written(t.probe, answer, tools)
}

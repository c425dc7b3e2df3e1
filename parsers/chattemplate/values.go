package chattemplate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"hermes/internal/jinja"
	"hermes/trajectory"
)

// form is how a template wants what the conventions leave open.
type form struct {
	reasoning string // field of an assistant message, inline, or empty: not printed
	nullText  bool   // content is None beside calls, when there is none
	argText   bool   // arguments are text, not an object
}

const inline = "inline"

// values builds the variables of one rendering. Every text that comes from
// outside goes through guard.
type values struct {
	form
	guard func(string) string
}

func (v values) messages(msgs []trajectory.Message) (*jinja.List, error) {
	list := jinja.NewList()
	list.Grow(len(msgs))
	names := map[string]string{} // of calls, by id
	for i, m := range msgs {
		d, err := v.message(m, names)
		if err != nil {
			return nil, fmt.Errorf("message %d (%s): %w", i, m.Role, err)
		}
		list.Append(d)
	}
	return list, nil
}

// role is the value of a role; those of every turn cost no allocation.
func role(r trajectory.Role) any {
	switch r {
	case trajectory.User:
		return "user"
	case trajectory.Assistant:
		return "assistant"
	case trajectory.Tool:
		return "tool"
	case trajectory.System:
		return "system"
	}
	return string(r)
}

func (v values) message(m trajectory.Message, names map[string]string) (*jinja.Dict, error) {
	texts := make([]string, 0, 4)
	for _, p := range m.Parts {
		if p.Kind != trajectory.PartText && p.Kind != "" {
			return nil, fmt.Errorf("a part of kind %q cannot be rendered as text", p.Kind)
		}
		texts = append(texts, p.Text)
	}
	content := strings.Join(texts, "") // no copy of a single one
	d := jinja.NewDict().Set("role", role(m.Role))
	if m.Reasoning != "" && v.reasoning == inline {
		content = "<think>\n" + strings.Trim(m.Reasoning, "\n") + "\n</think>\n\n" + content
	}
	if content == "" && len(m.Calls) > 0 && v.nullText {
		d.Set("content", nil)
	} else {
		d.Set("content", v.guard(content))
	}
	if m.Reasoning != "" && v.reasoning != "" && v.reasoning != inline {
		d.Set(v.reasoning, v.guard(m.Reasoning))
	}
	if len(m.Calls) > 0 {
		calls := jinja.NewList()
		for _, c := range m.Calls {
			names[c.ID] = c.Name
			calls.Append(v.call(c))
		}
		d.Set("tool_calls", calls)
	}
	if m.Role == trajectory.Tool {
		name := m.Name
		if name == "" {
			name = names[m.CallID]
		}
		if name != "" {
			d.Set("name", v.guard(name))
		}
		if m.CallID != "" {
			d.Set("tool_call_id", v.guard(m.CallID))
		}
	} else if m.Name != "" {
		d.Set("name", v.guard(m.Name))
	}
	return d, nil
}

func (v values) call(c trajectory.Call) *jinja.Dict {
	call := jinja.NewDict()
	if c.ID != "" {
		call.Set("id", v.guard(c.ID))
	}
	fn := jinja.NewDict().Set("name", v.guard(c.Name))
	args, err := jinja.Decode([]byte(c.Arguments))
	switch _, object := args.(*jinja.Dict); {
	case strings.TrimSpace(c.Arguments) == "" && !v.argText:
		fn.Set("arguments", jinja.NewDict())
	case err != nil, !object, v.argText: // what is no object is shown as the model wrote it
		fn.Set("arguments", v.guard(c.Arguments))
	default:
		fn.Set("arguments", v.guardAll(args))
	}
	return call.Set("type", "function").Set("function", fn)
}

// toolCache keeps the tools that were converted last: a rollout renders the same
// ones turn after turn. Only those are kept in which nothing is guarded.
type toolCache struct{ last atomic.Pointer[cachedTools] }

type cachedTools struct {
	specs []trajectory.ToolSpec
	list  *jinja.List
}

// get is the list for specs, or nil.
func (c *toolCache) get(specs []trajectory.ToolSpec) *jinja.List {
	if kept := c.last.Load(); kept != nil && slices.EqualFunc(kept.specs, specs, sameTool) {
		return kept.list
	}
	return nil
}

func (c *toolCache) put(specs []trajectory.ToolSpec, list *jinja.List) {
	c.last.Store(&cachedTools{cloneTools(specs), list})
}

// cloneTools copies tools, for the caller's may change.
func cloneTools(specs []trajectory.ToolSpec) []trajectory.ToolSpec {
	kept := slices.Clone(specs)
	for i := range kept {
		kept[i].Parameters = bytes.Clone(kept[i].Parameters)
	}
	return kept
}

func sameTool(a, b trajectory.ToolSpec) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Parameters, b.Parameters)
}

func (v values) tools(specs []trajectory.ToolSpec) (*jinja.List, error) {
	list := jinja.NewList()
	for _, s := range specs {
		raw := s.Parameters
		if len(raw) == 0 {
			raw = json.RawMessage(`{"type": "object", "properties": {}}`)
		}
		params, err := jinja.Decode(raw)
		if err != nil {
			return nil, fmt.Errorf("parameters of tool %q: %w", s.Name, err)
		}
		fn := jinja.NewDict().Set("name", v.guard(s.Name)).Set("description", v.guard(s.Description)).Set("parameters", v.guardAll(params))
		list.Append(jinja.NewDict().Set("type", "function").Set("function", fn))
	}
	return list, nil
}

// guardAll guards the texts inside a decoded value, keys too. A value without
// anything to guard is returned as it is.
func (v values) guardAll(x any) any {
	switch x := x.(type) {
	case string:
		return v.guard(x)
	case *jinja.List:
		var list *jinja.List // nil as long as nothing has changed
		for i := range x.Len() {
			item := v.guardAll(x.At(i))
			if list == nil && item != x.At(i) {
				list = jinja.NewList()
				for before := range i {
					list.Append(x.At(before))
				}
			}
			if list != nil {
				list.Append(item)
			}
		}
		if list != nil {
			return list
		}
	case *jinja.Dict:
		var d *jinja.Dict // nil as long as nothing has changed
		at := 0
		x.Each(func(k, val any) bool {
			key, item := v.guard(k.(string)), v.guardAll(val)
			if d == nil && (key != k.(string) || item != val) {
				d = beginning(x, at)
			}
			if d != nil {
				d.Set(key, item)
			}
			at++
			return true
		})
		if d != nil {
			return d
		}
	}
	return x
}

// beginning is a dict of the first n items of d.
func beginning(d *jinja.Dict, n int) *jinja.Dict {
	out := jinja.NewDict()
	d.Each(func(k, val any) bool {
		if out.Len() < n {
			out.Set(k.(string), val)
		}
		return out.Len() < n
	})
	return out
}

package journal

import (
	"strconv"

	"hermes/trajectory"
)

// appendJSON appends a record as encoding/json writes it, to the byte, without escapes for
// HTML. The messages of traces, which are nearly all of it, are written without reflection and eight
// bytes at a time.
func appendJSON(b []byte, r *trajectory.Record) ([]byte, error) {
	trace, children := r.Trace, r.Children
	rest := *r
	rest.Trace, rest.Children = nil, nil // the last two fields
	if rest.Tools == nil && trace != nil {
		rest.Tools = trace.Tools // what a trace alone knows of its tools is stored here
	}
	b, err := trajectory.AppendJSON(b, &rest)
	if err != nil {
		return b, err
	}
	b = b[:len(b)-1] // the brace
	if trace != nil {
		b, err = appendTrace(append(b, `,"trace":`...), trace)
		if err != nil {
			return b, err
		}
	}
	for i, child := range children {
		b = append(b, either(i == 0, `,"children":[`, ",")...)
		if child == nil {
			b = append(b, "null"...)
		} else if b, err = appendJSON(b, child); err != nil {
			return b, err
		}
	}
	return append(b, either(len(children) > 0, "]}", "}")...), nil
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func appendTrace(b []byte, t *trajectory.Trace) (_ []byte, err error) {
	b = trajectory.AppendQuoted(append(b, `{"mode":`...), string(t.Mode))
	b = append(b, `,"nodes":`...)
	if t.Nodes == nil {
		b = append(b, "null"...)
	}
	for i := range t.Nodes {
		b = append(b, either(i == 0, "[", ",")...)
		b, err = appendNode(b, &t.Nodes[i])
		if err != nil {
			return b, err
		}
	}
	if t.Nodes != nil {
		b = append(b, either(len(t.Nodes) == 0, "[]", "]")...)
	}
	b = strconv.AppendInt(append(b, `,"head":`...), int64(t.Head), 10)
	if len(t.Pending) > 0 {
		b, err = trajectory.AppendJSON(append(b, `,"pending":`...), t.Pending)
		if err != nil {
			return b, err
		}
	}
	b, err = trajectory.AppendJSON(append(b, `,"usage":`...), t.Usage)
	if err != nil {
		return b, err
	}
	return append(b, either(t.Sealed, `,"sealed":true}`, "}")...), nil
}

func appendNode(b []byte, n *trajectory.Node) (_ []byte, err error) {
	b = strconv.AppendInt(append(b, `{"parent":`...), int64(n.Parent), 10)
	b, err = appendMessage(append(b, `,"delta":{"message":`...), &n.Delta.Message)
	if err != nil {
		return b, err
	}
	if n.Delta.Given != 0 {
		b = strconv.AppendInt(append(b, `,"given":`...), int64(n.Delta.Given), 10)
	}
	if len(n.Delta.Masked) > 0 {
		b, err = trajectory.AppendJSON(append(b, `,"masked":`...), n.Delta.Masked)
		if err != nil {
			return b, err
		}
	}
	for i, v := range n.Delta.Versions {
		b = append(b, either(i == 0, `,"versions":[`, ",")...)
		b = strconv.AppendInt(append(b, `{"from":`...), int64(v.From), 10)
		b = append(trajectory.AppendQuoted(append(b, `,"version":`...), v.Version), '}')
	}
	if len(n.Delta.Versions) > 0 {
		b = append(b, ']')
	}
	if len(n.Delta.Extras) > 0 {
		b, err = trajectory.AppendJSON(append(b, `,"extras":`...), n.Delta.Extras)
		if err != nil {
			return b, err
		}
	}
	b = append(b, '}')
	b = appendField(b, `,"finish":`, string(n.Finish))
	if len(n.Faults) > 0 {
		b, err = trajectory.AppendJSON(append(b, `,"faults":`...), n.Faults)
		if err != nil {
			return b, err
		}
	}
	b = appendField(b, `,"model":`, n.Model)
	return append(b, either(n.Abandoned, `,"abandoned":true}`, "}")...), nil
}

func appendMessage(b []byte, m *trajectory.Message) (_ []byte, err error) {
	b = trajectory.AppendQuoted(append(b, `{"role":`...), string(m.Role))
	for i := range m.Parts {
		p := &m.Parts[i]
		b = append(b, either(i == 0, `,"parts":[{"kind":`, `,{"kind":`)...)
		b = trajectory.AppendQuoted(b, string(p.Kind))
		b = appendField(b, `,"text":`, p.Text)
		b = appendField(b, `,"url":`, p.URL)
		b = appendField(b, `,"blob":`, p.Blob)
		b = appendField(b, `,"media_type":`, p.MediaType)
		b = append(b, either(p.Ephemeral, `,"ephemeral":true}`, "}")...)
	}
	if len(m.Parts) > 0 {
		b = append(b, ']')
	}
	b = appendField(b, `,"reasoning":`, m.Reasoning)
	if len(m.Calls) > 0 {
		b, err = trajectory.AppendJSON(append(b, `,"calls":`...), m.Calls)
		if err != nil {
			return b, err
		}
	}
	b = appendField(b, `,"call_id":`, m.CallID)
	b = appendField(b, `,"name":`, m.Name)
	if len(m.Opaque) > 0 {
		b, err = trajectory.AppendJSON(append(b, `,"opaque":`...), m.Opaque)
		if err != nil {
			return b, err
		}
	}
	if m.Ephemeral {
		b = append(b, `,"ephemeral":true`...)
	}
	return append(b, either(m.Failed, `,"failed":true}`, "}")...), nil
}

// appendField appends a member whose value is text; none where that is empty.
func appendField(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return trajectory.AppendQuoted(append(b, key...), text)
}

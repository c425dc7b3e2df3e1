package journal

import (
	"bytes"
	"encoding/json"
	"math/bits"
	"strconv"
	"unicode/utf8"

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
	b, err := appendAny(b, &rest)
	if err != nil {
		return b, err
	}
	b = b[:len(b)-1] // the brace
	if trace != nil {
		if b, err = appendTrace(append(b, `,"trace":`...), trace); err != nil {
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

// appendAny leaves a value to the library.
func appendAny(b []byte, v any) ([]byte, error) {
	buf := bytes.NewBuffer(b)
	e := json.NewEncoder(buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return b, err
	}
	return buf.Bytes()[:buf.Len()-1], nil // without the newline of the encoder
}

func appendTrace(b []byte, t *trajectory.Trace) (_ []byte, err error) {
	b = appendText(append(b, `{"mode":`...), string(t.Mode))
	b = append(b, `,"nodes":`...)
	if t.Nodes == nil {
		b = append(b, "null"...)
	}
	for i := range t.Nodes {
		b = append(b, either(i == 0, "[", ",")...)
		if b, err = appendNode(b, &t.Nodes[i]); err != nil {
			return b, err
		}
	}
	if t.Nodes != nil {
		b = append(b, either(len(t.Nodes) == 0, "[]", "]")...)
	}
	b = strconv.AppendInt(append(b, `,"head":`...), int64(t.Head), 10)
	if len(t.Pending) > 0 {
		if b, err = appendAny(append(b, `,"pending":`...), t.Pending); err != nil {
			return b, err
		}
	}
	if b, err = appendAny(append(b, `,"usage":`...), t.Usage); err != nil {
		return b, err
	}
	return append(b, either(t.Sealed, `,"sealed":true}`, "}")...), nil
}

func appendNode(b []byte, n *trajectory.Node) (_ []byte, err error) {
	b = strconv.AppendInt(append(b, `{"parent":`...), int64(n.Parent), 10)
	if b, err = appendMessage(append(b, `,"delta":{"message":`...), &n.Delta.Message); err != nil {
		return b, err
	}
	if n.Delta.Given != 0 {
		b = strconv.AppendInt(append(b, `,"given":`...), int64(n.Delta.Given), 10)
	}
	for i, v := range n.Delta.Versions {
		b = append(b, either(i == 0, `,"versions":[`, ",")...)
		b = strconv.AppendInt(append(b, `{"from":`...), int64(v.From), 10)
		b = append(appendText(append(b, `,"version":`...), v.Version), '}')
	}
	if len(n.Delta.Versions) > 0 {
		b = append(b, ']')
	}
	if len(n.Delta.Extras) > 0 {
		if b, err = appendAny(append(b, `,"extras":`...), n.Delta.Extras); err != nil {
			return b, err
		}
	}
	b = append(b, '}')
	b = appendField(b, `,"finish":`, string(n.Finish))
	b = appendField(b, `,"model":`, n.Model)
	return append(b, either(n.Abandoned, `,"abandoned":true}`, "}")...), nil
}

func appendMessage(b []byte, m *trajectory.Message) (_ []byte, err error) {
	b = appendText(append(b, `{"role":`...), string(m.Role))
	for i := range m.Parts {
		p := &m.Parts[i]
		b = append(b, either(i == 0, `,"parts":[{"kind":`, `,{"kind":`)...)
		b = appendText(b, string(p.Kind))
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
		if b, err = appendAny(append(b, `,"calls":`...), m.Calls); err != nil {
			return b, err
		}
	}
	b = appendField(b, `,"call_id":`, m.CallID)
	b = appendField(b, `,"name":`, m.Name)
	if len(m.Opaque) > 0 {
		if b, err = appendAny(append(b, `,"opaque":`...), m.Opaque); err != nil {
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
	return appendText(append(b, key...), text)
}

const hexadecimal = "0123456789abcdef"

// appendText appends a text as a JSON string.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := plain(s); i < len(s); i += plain(s[i:]) {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				b = append(append(b, s[from:i]...), `\ufffd`...)
				from = i + n
			case r == '\u2028' || r == '\u2029': // JavaScript takes them for line ends
				b = append(append(append(b, s[from:i]...), `\u202`...), hexadecimal[r&15])
				from = i + n
			}
			i += n
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexadecimal[c>>4], hexadecimal[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}

// plain is the length of what s begins with that stands in JSON as it is, of ASCII. It looks
// at eight bytes at once: the top bit of each says whether it is none of these, for the first
// that is none and all before it.
func plain(s string) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		x := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		quote, slash := x^(ones*'"'), x^(ones*'\\')
		if no := (x | (x-ones*' ')&^x | (quote-ones)&^quote | (slash-ones)&^slash) & tops; no != 0 {
			return i + bits.TrailingZeros64(no)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

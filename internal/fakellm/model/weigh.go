package model

import (
	"bytes"
	"encoding/hex"
	"unicode/utf16"
	"unicode/utf8"

	"hermes/internal/fakellm/rawjson"
)

// weigh returns how many ids [Bytes] makes of what [Markup.Render] writes, without writing it.
func (m Markup) weigh(messages, tools []byte) int {
	const begin = len("<|im_start|>") + len("\n")
	n := len(m.Assistant)
	if len(tools) > 2 {
		n += begin + len("system") + len(m.ToolsOpen) + len(m.ToolsClose) + 2
		list := 0
		_ = rawjson.Elems(tools, func(t []byte) bool { // broken tools were refused before
			n += weighed(t, len(t)) + min(list, 1)
			list++
			return true
		})
	}
	_ = rawjson.Elems(messages, func(msg []byte) bool { // broken messages were refused before
		var role, content, reasoning, calls []byte
		_ = rawjson.Fields(msg, func(key, val []byte) {
			switch string(key) {
			case "role":
				role = val
			case "content":
				content = val
			case "reasoning_content":
				reasoning = val
			case "tool_calls":
				calls = val
			}
		})
		n += 2 // the end mark and a new line
		switch string(role) {
		case `"user"`:
			n += len(m.User) + weighText(content)
		case `"tool"`:
			n += len(m.User) + len(m.ToolOpen) + weighText(content) + len(m.ToolClose)
		case `"assistant"`:
			n += len(m.Assistant)
			n += m.weighSaid(content, reasoning, calls)
		default:
			n += begin + weighText(role) + weighText(content)
		}
		return true
	})
	return n
}

// weighSaid is the same for what an assistant said. What it can't tell from the raw JSON it
// writes and counts.
func (m Markup) weighSaid(content, reasoning, calls []byte) int {
	n := 0
	line := true
	plain := true // line: what was written so far ends one
	if len(content) > 2 && content[0] != 'n' {
		n, line = weighText(content), false
		plain = content[0] == '"' && bytes.IndexByte(content[max(0, len(content)-len(`\u000a"`)):], '\\') < 0
	}
	if len(reasoning) > 2 {
		n += len(m.ThinkOpen) + weighText(reasoning) + len(m.ThinkClose)
	}
	if len(calls) <= 2 {
		return n
	}
	if plain {
		_ = rawjson.Elems(calls, func(call []byte) bool { // broken ones were refused before
			var name, args []byte
			_ = rawjson.Fields(rawjson.Field(call, "function"), func(key, val []byte) {
				switch string(key) {
				case "name":
					name = val
				case "arguments":
					args = val
				}
			})
			plain = bare(name)
			if !line {
				n++
			}
			line = false
			n += len(m.CallOpen) + len(`{"name": `) + len(name) + len(`, "arguments": `) + weighText(args) + len("}") + len(m.CallClose)
			return plain
		})
	}
	if !plain {
		a := said(content, reasoning, calls)
		return Bytes{}.Count(m.write(&a, false))
	}
	return n
}

// bare reports whether a raw JSON text is written as we write it: letters, digits, signs.
func bare(raw []byte) bool {
	for _, c := range raw {
		if c < ' ' || c >= utf8.RuneSelf || c == '\\' {
			return false
		}
	}
	return len(raw) >= 2 && raw[0] == '"'
}

// weighed is n less what the end marks in raw save.
func weighed(raw []byte, n int) int {
	return n - (len(ChatML.End)-1)*bytes.Count(raw, []byte(ChatML.End))
}

// weighText is how many ids [Bytes] makes of a raw JSON text.
func weighText(raw []byte) int {
	if len(raw) < 2 || raw[0] != '"' {
		return Bytes{}.Count(rawjson.Text(raw))
	}
	body := raw[1 : len(raw)-1]
	n, codes := unescaped(body)
	if codes && bytes.Contains(body, []byte("im_end")) { // the mark may be escaped itself
		return Bytes{}.Count(rawjson.Text(raw))
	}
	return weighed(body, n)
}

// unescaped is how many bytes the inside of a JSON text has when its escapes are read, and
// whether it has any of the form \uXXXX.
func unescaped(body []byte) (n int, codes bool) {
	n = len(body)
	for i := bytes.IndexByte(body, '\\'); i >= 0; {
		if r, ok := code(body[i:]); ok {
			codes = true
			size := 6
			if low, ok := code(body[i+6:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
				r, size = utf16.DecodeRune(r, low), 12
			}
			if utf16.IsSurrogate(r) {
				r = utf8.RuneError
			}
			n -= size - utf8.RuneLen(r)
			i += size
		} else {
			n--
			i += 2
		}
		if i >= len(body) {
			break
		}
		next := bytes.IndexByte(body[i:], '\\')
		if next < 0 {
			break
		}
		i += next
	}
	return n, codes
}

// code reads the escape \uXXXX with which b begins.
func code(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var two [2]byte
	if _, err := hex.Decode(two[:], b[2:6]); err != nil {
		return 0, false
	}
	return rune(two[0])<<8 | rune(two[1]), true
}

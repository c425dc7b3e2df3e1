package compress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hermes/trajectory"
	"hermes/trajectory/columns"
)

// member is one key of an object with the bytes of its value.
type member struct {
	key   string
	value json.RawMessage
}

// members splits an object without changing a byte of its values.
func members(text []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var out []member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: t.(string)} // the decoder admits no other
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("text behind the object")
	}
	return out, nil
}

func join(list []member) []byte {
	b := []byte{'{'}
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(trajectory.AppendQuoted(b, m.key), ':'), m.value...)
	}
	return append(b, '}')
}

// conversation is a row that was read.
type conversation struct {
	row      []member
	at       int // of the conversation in row
	sharegpt bool
	entries  []json.RawMessage
	turns    []Turn
}

func readLine(text []byte) (*conversation, error) {
	row, err := members(text)
	if err != nil {
		return nil, err
	}
	c := &conversation{row: row}
	c.at = slices.IndexFunc(row, func(m member) bool { return m.key == "conversations" })
	c.sharegpt = c.at >= 0
	if !c.sharegpt {
		c.at = slices.IndexFunc(row, func(m member) bool { return m.key == "messages" })
		if c.at < 0 {
			return nil, errors.New("neither conversations nor messages")
		}
	}
	if err := json.Unmarshal(row[c.at].value, &c.entries); err != nil {
		return nil, fmt.Errorf("%s: want a list: %w", row[c.at].key, err)
	}
	for i, raw := range c.entries {
		role, text, err := c.entry(raw)
		if err != nil {
			return nil, fmt.Errorf("%s, entry %d: %w", row[c.at].key, i, err)
		}
		c.turns = appendTurn(c.turns, role, text, i)
	}
	return c, nil
}

// appendTurn adds an entry; a further result of a tool joins the turn before it.
func appendTurn(turns []Turn, role trajectory.Role, text string, at int) []Turn {
	if n := len(turns); n > 0 && role == trajectory.Tool && turns[n-1].Role == trajectory.Tool {
		turns[n-1].Text += "\n" + text
		turns[n-1].Last = at + 1
		return turns
	}
	return append(turns, Turn{Role: role, Text: text, First: at, Last: at + 1})
}

// entry reads one turn of either layout.
func (c *conversation) entry(raw json.RawMessage) (trajectory.Role, string, error) {
	if c.sharegpt {
		var t struct {
			From  string `json:"from"`
			Value string `json:"value"`
		}
		if err := json.Unmarshal(raw, &t); err != nil {
			return "", "", err
		}
		switch t.From {
		case "system":
			return trajectory.System, t.Value, nil
		case "human", "user":
			return trajectory.User, t.Value, nil
		case "gpt", "assistant", "model", "function_call":
			return trajectory.Assistant, t.Value, nil
		case "tool", "observation", "function", "function_response":
			return trajectory.Tool, t.Value, nil
		}
		return "", "", fmt.Errorf("from %q is no speaker", t.From)
	}
	var m struct {
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		Reasoning string          `json:"reasoning_content"`
		Calls     json.RawMessage `json:"tool_calls"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return "", "", err
	}
	var text string
	if len(m.Content) > 0 && json.Unmarshal(m.Content, &text) != nil {
		text = string(m.Content) // parts, as JSON
	}
	role := trajectory.Role(m.Role)
	switch m.Role {
	case "system", "user", "assistant", "tool":
	case "developer":
		role = trajectory.System
	case "function":
		role = trajectory.Tool
	default:
		return "", "", fmt.Errorf("role %q is unknown", m.Role)
	}
	parts := []string{}
	for _, s := range []string{m.Reasoning, text, string(m.Calls)} {
		if s != "" && s != "null" && s != "[]" {
			parts = append(parts, s)
		}
	}
	return role, strings.Join(parts, "\n"), nil
}

// made is the turn of a summary in the row's layout.
func (c *conversation) made(text string) json.RawMessage {
	if c.sharegpt {
		return append(trajectory.AppendQuoted([]byte(`{"from":"human","value":`), text), '}')
	}
	return append(trajectory.AppendQuoted([]byte(`{"role":"user","content":`), text), '}')
}

// Sum names the original of a compressed row.
func Sum(row []byte) string {
	s := sha256.Sum256(row)
	return "sha256:" + hex.EncodeToString(s[:])
}

// Line compresses one JSON line. An error ends the whole work.
func (c *Compressor) Line(ctx context.Context, key string, text []byte) (Result, error) {
	conv, err := readLine(text)
	if err != nil {
		return Result{Status: Unreadable, Reason: err.Error()}, nil
	}
	r := Result{TurnsBefore: len(conv.turns), TurnsAfter: len(conv.turns)}
	total, err := c.countAll(conv.turns)
	if err != nil {
		return Result{Status: Unreadable, Reason: err.Error()}, nil
	}
	r.TokensBefore, r.TokensAfter = total, total
	if total <= c.o.Target {
		r.Status = Under
		return r, nil
	}
	g, ok := c.plan(conv.turns, total, 0)
	if !ok {
		r.Status, r.Reason = Kept, "nothing between the protected turns is worth a summary"
		return r, nil
	}
	began := time.Now()
	summary, tokens, err := c.summary(ctx, key, conv.turns[g.from:g.to], &r)
	if err != nil {
		return r, err
	}
	r.Seconds = time.Since(began).Seconds()
	r.TokensAfter, r.TurnsAfter = total-g.saved+tokens, r.TurnsBefore-(g.to-g.from)+1
	first, last := conv.turns[g.from].First, conv.turns[g.to-1].Last
	conv.row[conv.at].value = list(slices.Concat(conv.entries[:first], []json.RawMessage{conv.made(summary)}, conv.entries[last:]))
	r.Status = c.fits(r.TokensAfter)
	r.row = conv.mark(c.compression(text, g, &r))
	return r, nil
}

func (c *Compressor) fits(tokens int) Status {
	if tokens > c.o.Target {
		return Over
	}
	return Compressed
}

func (c *Compressor) compression(original []byte, g gap, r *Result) columns.Compression {
	m := columns.Compression{Original: Sum(original), Turns: int64(g.to - g.from), TokensBefore: int64(r.TokensBefore), TokensAfter: int64(r.TokensAfter), Summary: r.Summary}
	if r.Summary == "model" {
		m.Model = c.o.Model
	}
	return m
}

func list(entries []json.RawMessage) json.RawMessage {
	return append(append([]byte{'['}, bytes.Join(asBytes(entries), []byte{','})...), ']')
}

func asBytes(entries []json.RawMessage) [][]byte {
	out := make([][]byte, len(entries))
	for i, e := range entries {
		out[i] = e
	}
	return out
}

// mark is the row with the member that says how it was compressed, on one line.
func (c *conversation) mark(m columns.Compression) []byte {
	raw, err := json.Marshal(m)
	if err != nil {
		raw = []byte("null") // a struct of texts and numbers always encodes
	}
	if i := slices.IndexFunc(c.row, func(m member) bool { return m.key == "compression" }); i >= 0 {
		c.row[i].value = raw
	} else {
		c.row = append(c.row, member{"compression", raw})
	}
	return join(c.row)
}

// marked returns how a row was compressed; false where it was not.
func marked(text []byte) (columns.Compression, bool) {
	if !bytes.Contains(text, []byte(`ompression"`)) { // Parquet rows have it with a capital
		return columns.Compression{}, false
	}
	var row struct {
		Compression *columns.Compression `json:"compression"`
	}
	if json.Unmarshal(text, &row) != nil || row.Compression == nil || !strings.HasPrefix(row.Compression.Original, "sha256:") {
		return columns.Compression{}, false
	}
	return *row.Compression, true
}

package datasets

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hermes/datasets/scan"
	"hermes/internal/expr"
	"hermes/trajectory"
)

// Text is one row as it is in its file. It is valid during one call.
type Text struct {
	data []byte
	raw  raw
	dec  *decoder
}

// Lookup returns the JSON of a member; a.b is the member b of a where no member has that
// name itself. nil: there is none.
func (t Text) Lookup(name string) []byte {
	if v, ok := scan.Find(t.data, name); ok {
		return v
	}
	at := t.data
	for _, part := range strings.Split(name, ".") {
		v, ok := scan.Find(at, part)
		if !ok || v == nil {
			return nil
		}
		at = v
	}
	return at
}

// Row decodes the row as a task.
func (t Text) Row() (Row, error) { return t.dec.row(t.raw) }

// Key is what rows of one group have in common: the task's messages (name ""), the row
// without its id ("row"), or the value of a member. ok is false where the row has none.
func (t Text) Key(name string) (sum [32]byte, ok bool, err error) {
	switch name {
	case "":
		row, err := t.Row()
		if err != nil {
			return sum, false, err
		}
		raw, err := json.Marshal(row.Prompt)
		return sha256.Sum256(raw), true, err
	case "row":
		fields, err := t.dec.split(t.data)
		if err != nil {
			return sum, false, t.raw.fault(err)
		}
		h := sha256.New()
		for _, f := range fields {
			if f.Key != "id" {
				fmt.Fprintf(h, "%q:%d:%s", f.Key, len(f.Value), f.Value)
			}
		}
		return [32]byte(h.Sum(nil)), true, nil
	}
	v := t.Lookup(name)
	if v == nil || scan.Null(v) {
		return sum, false, nil
	}
	if text, err := scan.Unquote(v); err == nil { // however it is escaped
		return sha256.Sum256([]byte("text " + text)), true, nil
	}
	return sha256.Sum256(v), true, nil
}

// Pick writes rows, as they are, to those of paths that choose names by number; a
// negative number leaves a row out. The names must end in .jsonl, also with .gz or .zst;
// the files appear when all are whole. It returns the rows of each file. A row that is no
// object, or of which choose says [RowError], ends it unless bad is [Skip].
func (d *Dataset) Pick(ctx context.Context, paths []string, bad BadRows, choose func(Text) (int, error)) (rows []int64, err error) {
	outs := make([]*output, len(paths))
	defer func() {
		for _, o := range outs {
			if o != nil {
				err = errors.Join(err, o.abort())
			}
		}
	}()
	for i, p := range paths {
		if byName(p) != JSONL {
			return nil, fmt.Errorf("%s: want a name that ends in .jsonl, .jsonl.gz or .jsonl.zst", p)
		}
		outs[i], err = create(p, 1<<18)
		if err != nil {
			return nil, err
		}
	}
	rows = make([]int64, len(paths))
	err = d.Texts(ctx, bad, func(t Text) error {
		i, err := choose(t)
		if err != nil || i < 0 {
			return err
		}
		rows[i]++
		return outs[i].line(t.data)
	})
	for _, o := range outs {
		if err == nil {
			err = o.commit()
		}
	}
	return rows, err
}

// Texts calls yield with every row.
func (d *Dataset) Texts(ctx context.Context, bad BadRows, yield func(Text) error) error {
	dec := newDecoder(d.o)
	return d.each(ctx, func(r raw) error {
		err := r.err
		if err == nil && scan.Kind(r.data) != "an object" {
			err = errors.New("not an object")
		}
		if err == nil {
			_, err = dec.split(r.data)
		}
		var fault *RowError
		switch {
		case err != nil && bad == Skip:
			return nil
		case err != nil:
			return r.fault(err)
		case d.o.Shard.N > 1 && !d.o.Shard.holds(dec.quickID(r)):
			return nil
		}
		err = yield(Text{data: r.data, raw: r, dec: dec})
		if errors.As(err, &fault) && bad == Skip {
			return nil
		}
		return err
	})
}

// Condition is a condition on a row.
type Condition func(Text) bool

// ParseCondition reads a condition on the members of rows, such as
// `reward >= 0.5 and metadata.source == "web"`. len.NAME is the number of elements of a
// list, of members of an object or of characters of a text. A member that is not there
// fulfils no comparison.
func ParseCondition(s string) (Condition, error) {
	c, err := expr.Parse(s, compareMember)
	return c, err
}

func compareMember(name, op, value string, quoted bool) (func(Text) bool, error) {
	number, err := strconv.ParseFloat(value, 64)
	if !quoted && err == nil {
		return func(t Text) bool {
			have, ok := t.number(name)
			return ok && expr.Compare(have, op, number)
		}, nil
	}
	if op != "==" && op != "=" && op != "!=" {
		return nil, fmt.Errorf("%s %s %q: a text can only be compared with == and !=", name, op, value)
	}
	return func(t Text) bool {
		v := t.Lookup(name)
		if v == nil {
			return false
		}
		have := string(v)
		if text, err := scan.Unquote(v); err == nil {
			have = text
		} else if quoted {
			return op == "!="
		}
		return (have == value) == (op != "!=")
	}, nil
}

func (t Text) number(name string) (float64, bool) {
	if v := t.Lookup(name); v != nil {
		f, err := strconv.ParseFloat(string(v), 64)
		return f, err == nil
	}
	of, ok := strings.CutPrefix(name, "len.")
	if !ok {
		return 0, false
	}
	v := t.Lookup(of)
	switch {
	case v == nil:
		return 0, false
	case scan.Kind(v) == "text":
		text, err := scan.Unquote(v)
		return float64(len([]rune(text))), err == nil
	}
	var list []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case json.Unmarshal(v, &list) == nil:
		return float64(len(list)), true
	case json.Unmarshal(v, &object) == nil:
		return float64(len(object)), true
	}
	return 0, false
}

// Share is one part of a split.
type Share struct {
	Name   string
	Weight float64
}

// PartOf is the number of the part to which a group belongs: by its key's hash and the
// seed, so that a group is never torn, and stays where it is when rows are added.
func PartOf(key [32]byte, seed uint64, parts []Share) int {
	total := 0.0
	for _, p := range parts {
		total += p.Weight
	}
	h := sha256.Sum256(binary.BigEndian.AppendUint64(key[:], seed))
	at := float64(binary.BigEndian.Uint64(h[:8])>>11) / (1 << 53) * total
	for i, p := range parts {
		at -= p.Weight
		if at < 0 {
			return i
		}
	}
	return len(parts) - 1
}

// Fault is an error about this row.
func (t Text) Fault(err error) error { return t.raw.fault(err) }

// Conversation is the whole conversation of a row that holds one, else its task.
func (t Text) Conversation() ([]trajectory.Message, error) {
	for _, key := range []string{"messages", "conversations"} {
		if v := t.Lookup(key); v != nil {
			list, err := conversation(v, true)
			if err != nil {
				return nil, t.Fault(fmt.Errorf("%s: %w", key, err))
			}
			return list, nil
		}
	}
	row, err := t.Row()
	return row.Prompt, err
}

// Tools are what the member tools tells the model: OpenAI's list, or that of the functions
// alone. Rows without it have none.
func (t Text) Tools() ([]trajectory.ToolSpec, error) {
	v := t.Lookup("tools")
	if v == nil || scan.Null(v) {
		return nil, nil
	}
	if text, err := scan.Unquote(v); err == nil {
		v = []byte(text) // JSON text, as tables hold it
	}
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	var list []struct {
		function
		Function *function `json:"function"`
	}
	if err := json.Unmarshal(v, &list); err != nil {
		return nil, t.Fault(fmt.Errorf("tools: want a list of functions: %w", err))
	}
	var out []trajectory.ToolSpec
	for _, e := range list {
		f := e.function
		if e.Function != nil {
			f = *e.Function
		}
		if f.Name == "" {
			return nil, t.Fault(errors.New("tools: a function has no name"))
		}
		out = append(out, trajectory.ToolSpec{Name: f.Name, Description: f.Description, Parameters: f.Parameters})
	}
	return out, nil
}

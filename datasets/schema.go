package datasets

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"hermes/datasets/scan"
)

// shape is what the values of one key have in common; the column is made of it.
type shape struct {
	kind  shapeKind
	keys  []string // of an object, in order of appearance
	kids  map[string]*shape
	item  *shape // of a list
	large bool   // an integer that a double would round
	other bool   // some text reads as another JSON value: a number, a list …
	nulls bool   // null was written out, not just left out

	column int // set by number: the first leaf
	depth  int // set by number: lists around the items, this one included
}

type shapeKind byte

const (
	nothing  shapeKind = iota // only null so far
	truth                     // boolean
	integer                   // int64
	floating                  // double
	textual                   // UTF-8
	listing                   // list of item
	object                    // group of kids
	mixed                     // anything: texts as they are, other values as their JSON text
)

// Bounds behind which nested values are kept as JSON text in one column.
const (
	maxColumns = 256
	maxNesting = 16
)

// learn widens s so that it holds v, a checked JSON value.
func (s *shape) learn(v []byte, depth int) {
	if scan.Null(v) {
		s.nulls = true
		return
	}
	kind := kindOfValue(v)
	if kind == textual {
		s.other = s.other || readsOther(v)
	}
	if s.kind == mixed {
		return
	}
	if depth > maxNesting {
		kind = mixed
	}
	switch {
	case s.kind == nothing:
		s.kind = kind
	case s.kind == integer && kind == floating, s.kind == floating && kind == integer:
		s.kind = floating
	case s.kind != kind:
		s.kind = mixed
	}
	switch s.kind {
	case integer, floating:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && (n > 1<<53 || n < -1<<53) {
			s.large = true
		}
		if s.kind == floating && s.large {
			s.kind = mixed
		}
	case listing:
		s.learnList(v, depth)
	case object:
		s.learnObject(v, depth)
	}
}

func kindOfValue(v []byte) shapeKind {
	switch v[0] {
	case '"':
		return textual
	case '[':
		return listing
	case '{':
		return object
	case 't', 'f':
		return truth
	}
	if _, err := strconv.ParseInt(string(v), 10, 64); err == nil && string(v) != "-0" {
		return integer
	}
	if f, err := strconv.ParseFloat(string(v), 64); err == nil && !math.IsInf(f, 0) && !isInteger(v) {
		return floating
	}
	return mixed // beyond 64 bits: its digits are kept
}

// readsOther reports whether the text that v quotes is the JSON of something that is no text.
func readsOther(v []byte) bool {
	text, err := scan.Unquote(v)
	if err != nil {
		return false
	}
	return notText([]byte(text))
}

// notText reports whether b is the JSON of something that is no text.
func notText(b []byte) bool {
	t := bytes.TrimSpace(b)
	return len(t) > 0 && strings.IndexByte("{[-0123456789tfn", t[0]) >= 0 && json.Valid(t)
}

func isInteger(v []byte) bool { return !bytes.ContainsAny(v, ".eE") }

func (s *shape) learnList(v []byte, depth int) {
	items, err := scan.Array(v, nil)
	if err != nil {
		s.kind = mixed
		return
	}
	if s.item == nil {
		s.item = &shape{}
	}
	for _, item := range items {
		s.item.learn(item, depth+1)
	}
}

func (s *shape) learnObject(v []byte, depth int) {
	fields, err := scan.Object(v, nil, nil)
	if err != nil || depth > 0 && len(fields) == 0 {
		s.kind = mixed // an empty group cannot be a column; doubled keys cannot either
		return
	}
	if s.kids == nil {
		s.kids = map[string]*shape{}
	}
	for _, f := range fields {
		kid := s.kids[f.Key]
		if kid == nil {
			if depth > 0 && (len(s.keys) >= maxColumns || f.Key == "") {
				s.kind = mixed
				return
			}
			kid = &shape{}
			s.kids[f.Key] = kid
			s.keys = append(s.keys, f.Key)
		}
		kid.learn(f.Value, depth+1)
	}
}

// node is the Parquet form of s; everything may be absent.
func (s *shape) node() parquet.Node {
	switch s.kind {
	case truth:
		return parquet.Optional(parquet.Leaf(parquet.BooleanType))
	case integer:
		return parquet.Optional(parquet.Int(64))
	case floating:
		return parquet.Optional(parquet.Leaf(parquet.DoubleType))
	case listing:
		return parquet.Optional(parquet.List(s.item.node()))
	case object:
		return parquet.Optional(s.group())
	}
	return parquet.Optional(parquet.String())
}

func (s *shape) group() parquet.Group {
	g := parquet.Group{}
	for key, kid := range s.kids {
		g[key] = kid.node()
	}
	return g
}

// number gives the leaves their columns, in the order in which Parquet has them: by
// name. It returns the next free column.
func (s *shape) number(from, depth int) int {
	s.column, s.depth = from, depth
	switch s.kind {
	case listing:
		s.depth++
		return s.item.number(from, s.depth)
	case object:
		for _, key := range sortedKeys(s.kids) {
			from = s.kids[key].number(from, depth)
		}
		return from
	}
	return from + 1
}

// shred appends the values of v to the columns. v nil means absent.
func (s *shape) shred(row [][]parquet.Value, v []byte, rep, def int) error {
	if v == nil || scan.Null(v) {
		s.absent(row, rep, def)
		return nil
	}
	def++ // present
	switch s.kind {
	case listing:
		items, err := scan.Array(v, nil)
		if err != nil {
			return err
		}
		if len(items) == 0 {
			s.item.absent(row, rep, def)
			return nil
		}
		for i, item := range items {
			at := rep
			if i > 0 {
				at = s.depth
			}
			if err := s.item.shred(row, item, at, def+1); err != nil {
				return err
			}
		}
		return nil
	case object:
		fields, err := scan.Object(v, nil, nil)
		if err != nil {
			return err
		}
		for _, key := range sortedKeys(s.kids) {
			if err := s.kids[key].shred(row, find(fields, key), rep, def); err != nil {
				return err
			}
		}
		return nil
	}
	value, err := s.leaf(v)
	if err != nil {
		return err
	}
	row[s.column] = append(row[s.column], value.Level(rep, def, s.column))
	return nil
}

func (s *shape) leaf(v []byte) (parquet.Value, error) {
	switch s.kind {
	case truth:
		return parquet.BooleanValue(v[0] == 't'), nil
	case integer:
		n, err := strconv.ParseInt(string(v), 10, 64)
		return parquet.Int64Value(n), err
	case floating:
		f, err := strconv.ParseFloat(string(v), 64)
		return parquet.DoubleValue(f), err
	}
	if v[0] == '"' { // in a mixed column too a text stays a text
		text, err := scan.Unquote(v)
		return parquet.ByteArrayValue([]byte(text)), err
	}
	return parquet.ByteArrayValue(append([]byte(nil), v...)), nil
}

// absent marks every leaf under s as missing from level def on.
func (s *shape) absent(row [][]parquet.Value, rep, def int) {
	switch s.kind {
	case listing:
		s.item.absent(row, rep, def)
	case object:
		for _, kid := range s.kids {
			kid.absent(row, rep, def)
		}
	default:
		row[s.column] = append(row[s.column], parquet.Value{}.Level(rep, def, s.column))
	}
}

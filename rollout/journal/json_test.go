package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"hermes/trajectory"
)

// TestAppendJSON holds our writer against the library's, on records whose every field is
// filled or left out by chance, so that a field that is added is missed here.
func TestAppendJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	long := 0
	for range 3000 {
		var rec trajectory.Record
		fill(r, reflect.ValueOf(&rec).Elem(), 0)
		got, err := appendJSON([]byte("x"), &rec)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(tooled(&rec)); err != nil {
			t.Fatal(err)
		}
		if s := "x" + strings.TrimSuffix(want.String(), "\n"); string(got) != s {
			t.Fatalf("got  %s\nwant %s", got, s)
		}
		long = max(long, len(got))
	}
	if long < 5000 {
		t.Errorf("the longest record has %d bytes", long)
	}
	for _, bad := range []*trajectory.Record{
		{Extra: json.RawMessage("{")},
		{Trace: &trajectory.Trace{Nodes: []trajectory.Node{{Delta: trajectory.Delta{Message: trajectory.Message{Opaque: json.RawMessage("{")}}}}}},
		{Children: []*trajectory.Record{{Metadata: json.RawMessage("]")}}},
	} {
		if _, err := appendJSON(nil, bad); err == nil {
			t.Errorf("%+v is written", bad)
		}
	}
}

// BenchmarkRecordJSON is a record of 20 turns without its tokens.
func BenchmarkRecordJSON(b *testing.B) {
	t := trajectory.New(trajectory.ModeText, nil)
	for range 20 {
		if _, err := t.Commit(trajectory.Turn{
			Given:   []trajectory.Delta{{Message: trajectory.Text(trajectory.User, strings.Repeat("all work and no play\n", 45))}},
			Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, strings.Repeat("dull ", 40))},
			Finish:  trajectory.FinishStop,
			Model:   "m",
		}); err != nil {
			b.Fatal(err)
		}
	}
	rec := &trajectory.Record{Row: "r", Trace: t}
	var room []byte
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			room, _ = appendJSON(room[:0], rec)
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			room, _ = trajectory.AppendJSON(room[:0], rec)
		}
	})
}

// tooled is the record with the tools that only its trace knows.
func tooled(r *trajectory.Record) *trajectory.Record {
	c := *r
	if c.Tools == nil && c.Trace != nil {
		c.Tools = c.Trace.Tools
	}
	c.Children = nil
	for _, child := range r.Children {
		if child != nil {
			child = tooled(child)
		}
		c.Children = append(c.Children, child)
	}
	return &c
}

// fill puts something into each field, often nothing.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	if r.IntN(3) == 0 && depth > 0 || depth > 12 {
		return
	}
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(r.Int64N(2e9), r.Int64N(1e9)).UTC()
		return
	case *json.RawMessage:
		*x = json.RawMessage([]string{`{"a": [1, "<&>\u2028"]}`, "null", "1e5 ", `"\ud800"`}[r.IntN(4)])
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(someText(r))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(r.Int64N(2000) - 1000)
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(256)))
	case reflect.Float64, reflect.Float32:
		v.SetFloat(r.NormFloat64())
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*trajectory.Record]() && depth > 4 {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(r, v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			fill(r, v.Index(i), depth+1)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range r.IntN(3) {
			e := reflect.New(v.Type().Elem()).Elem()
			fill(r, e, depth+1)
			v.SetMapIndex(reflect.ValueOf(someText(r)).Convert(v.Type().Key()), e)
		}
	default:
		panic(fmt.Sprintf("nothing to fill %v with", v.Type()))
	}
}

func someText(r *rand.Rand) string {
	pieces := []string{
		"a", "<b>&", "\"", "\\", "\n", "\r\t", "\b\f", "\x00\x1f\x7f", "é", "世界", "\u2028", "\u2029", "\xff", "\xe4\xb8",
		"\U0001F600", "\ufffd", strings.Repeat("word ", 20),
	}
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

package sharegpt

import (
	"strings"
	"testing"
)

// FuzzEmbed: the fast way gives the bytes of the slow one, or nothing.
func FuzzEmbed(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, ` {"a" : 1 , "b":[1.50,-0,2e3,1e400,0.00001], "c":null} `, `{"a":1,"a":2}`, `"x\u003c\u2028\ud800"`, "\"\xff\"", `[1 2]`, `[1,]`, `{"a":1,}`, `01`, `-`,
		`1.`, `1e`, `"\x"`, "\"\n\"", `true false`, `nul`, `{"a":{"b":[[["c"]]]}}`, `"é☃\/\b\f\n\r\t\"\\"`, `{"\u0061":1,"a":2}`, strings.Repeat("[",
			502) + strings.Repeat("]", 502),
		strings.Repeat("[", 500) + "1" + strings.Repeat("]", 500), `"\u0000\u001f\u007f"`, `-0`, `-0.0`, `1E+2`, `{"a"}`, `{1:2}`, ``, ` `,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if s == "" {
			return
		}
		if got, ok := appendWalked(nil, s); ok && string(got) != embedSlowly(s) {
			t.Errorf("%q: %q, want %q", s, got, embedSlowly(s))
		}
	})
}

// TestWalkedIsUsual: what tools answer is not left to the slow way.
func TestWalkedIsUsual(t *testing.T) {
	for _, s := range []string{
		`{"output":"a\n\u003cb\u003e é","exit_code":0,"error":null,"ok":true}`,
		`{"todos":[{"id":"1","content":"x"}],"summary":{"total":1.5}}`,
		`[]`,
	} {
		if _, ok := appendWalked(nil, s); !ok {
			t.Errorf("%s is left to the slow way", s)
		}
	}
}

func BenchmarkEmbed(b *testing.B) {
	s := `{"todos":[` + strings.Repeat(`{"id":"1","content":"all work and no play makes a dull agent; all work","status":"pending"},`, 20) + `{}]}`
	for _, way := range []struct {
		name string
		do   func(string) string
	}{{"walked", embed}, {"slow", embedSlowly}} {
		b.Run(way.name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				way.do(s)
			}
		})
	}
}

package trajectory_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"hermes/trajectory"
)

// FuzzAppendQuoted: what is appended is what encoding/json writes without the escapes of HTML.
func FuzzAppendQuoted(f *testing.F) {
	for _, s := range []string{
		"", "plain text of more than eight bytes", "\"\\\b\f\n\r\t\x00\x1f\x7f", "é\u2028\u2029\u202a�", "\xff\xc3(\xe2\x80",
		"12345678\"", "1234567é", "<&>",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		if got := string(trajectory.AppendQuoted([]byte("x"), s)); got+"\n" != "x"+want.String() {
			t.Errorf("%q: got %s, want x%s", s, got, &want)
		}
	})
}

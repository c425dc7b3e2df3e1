package jinja

import (
	"reflect"
	"strings"
	"testing"
)

// FuzzDecode: the quick reader of valid JSON agrees with the standard library's
// tokens, in values and in errors.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		"", " ", "1", "-0", "-0.0", "1e400", "12345678901234567890", `"a"`, `"\u00e9\ud83d\ude00\ud800\n"`, "\"\xff\"", "[]", "{}", " [ 1 , [ ] , { } ] ", `{"a": 1, "b": {"c": [true, false, null]}, "a": 2}`,
		`{"a": 1,}`, `[1 2]`, `{"a" 1}`, "[1] x", `"open`, "nul", "NaN", `{"": ",:}]"}`, strings.Repeat("[",
			899) + strings.Repeat("]",
			899), strings.Repeat("[", 902) + strings.Repeat("]", 902), strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Decode([]byte(text))
		want, wantErr := decodeSlowly([]byte(text))
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() || !reflect.DeepEqual(got, want) {
			t.Fatalf("%.200q: %v, %v; want %v, %v", text, got, err, want, wantErr)
		}
	})
}

package pyvalue_test

import (
	"encoding/json"
	"errors"
	"testing"

	"hermes/internal/pyvalue"
)

func TestRead(t *testing.T) {
	tests := []struct{ in, want string }{
		{`'a\'b"c'`, `"a'b\"c"`}, {`"""x\ny"""`, `"x\ny"`}, {`r'\n'`, `"\\n"`}, {`'a' "b"`, `"ab"`},
		{`'\x41\u00e9\U0001F600\101'`, `"Aé😀A"`}, {`'\ud83d\ude00'`, `"😀"`},
		{`-12345678901234567890`, `-12345678901234567890`}, {`0x10`, `16`}, {`1_000`, `1000`}, {`.5`, `0.5`}, {`5.`, `5.0`}, {`1e5`, `1e5`},
		{`[1, (2, 3), {4}]`, `[1, [2, 3], [4]]`}, {`(1)`, `1`}, {`(1,)`, `[1]`}, {`()`, `[]`},
		{`{'a': None, 1: True, "c": [false,],}`, `{"a": null, "1": true, "c": [false]}`},
	}
	for _, tt := range tests {
		got, n, err := pyvalue.Read(tt.in, pyvalue.Options{})
		if err != nil || got != tt.want || n != len(tt.in) || !json.Valid([]byte(got)) {
			t.Errorf("%s: %s, %d, %v; want %s", tt.in, got, n, err, tt.want)
		}
	}
	for in, want := range map[string]error{`[1, `: pyvalue.ErrCut, `'abc`: pyvalue.ErrCut, `Tr`: pyvalue.ErrCut, ``: pyvalue.ErrCut,
		`007`: pyvalue.ErrSyntax, `foo()`: pyvalue.ErrSyntax, `{1 2}`: pyvalue.ErrSyntax, "'a\nb'": pyvalue.ErrSyntax, `{[1]: 2}`: pyvalue.ErrSyntax} {
		if _, _, err := pyvalue.Read(in, pyvalue.Options{}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", in, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{'a': [1, (2,), "x"]}`, true)
	f.Fuzz(func(t *testing.T, text string, loose bool) {
		got, n, err := pyvalue.Read(text, pyvalue.Options{RawNewlines: loose, JSONEscapes: loose, ZeroPadded: loose})
		if n < 0 || n > len(text) {
			t.Fatalf("%q: %d bytes read", text, n)
		}
		if err == nil && !json.Valid([]byte(got)) {
			t.Fatalf("%q: %q is no JSON", text, got)
		}
	})
}

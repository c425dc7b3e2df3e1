package pyvalue_test

import (
	"encoding/json"
	"errors"
	"testing"

	"hermes/internal/pyvalue"
)

// What Python's ast.literal_eval makes of strings: the left side is Python, the right side
// JSON, "" where Python refuses it, or where JSON has no form for what it is.
func TestStrings(t *testing.T) {
	tests := []struct{ in, want string }{
		{`'20 \N{DEGREE SIGN}C \N{degree sign} \N{CJK UNIFIED IDEOGRAPH-65E5}'`, `"20 °C ° 日"`},
		{`'\N{HANGUL SYLLABLE GAGS}\N{Hangul Syllable A}\N{HANGUL SYLLABLE SSANG}\N{HANGUL SYLLABLE HIH}'`, `"갃아쌍힣"`},
		{`'\N{LF}\N{NBSP}\N{VS16}\N{vs17}\N{LATIN SMALL LETTER GHA}'`, `"\n` + "\u00a0\ufe0f\U000e0100\u01a3" + `"`},
		{`'\N{NO SUCH NAME}'`, ""}, {`'\N{}'`, ""}, {`'C:\New'`, ""}, {`'\N{KEYCAP DIGIT ONE}'`, ""}, {`'\N{HANGUL SYLLABLE X}'`, ""},
		{`'\N{CJK UNIFIED IDEOGRAPH-41}'`, ""}, {`'\N{CJK UNIFIED IDEOGRAPH-0041}'`, ""}, {`'\N{VS0}'`, ""}, {`'\N{VS01}'`, ""},
		{`'\101\7\08\8\400\777'`, `"A\u0007\u00008\\8Āǿ"`},
		{`'\x41\xe9'`, `"Aé"`}, {`'\x4G'`, ""}, {"'\\x\x10\x11'", ""}, {`'\u00E9\U0001f600'`, `"é😀"`},
		{`'\U00110000'`, ""}, {`'\UFFFFFFFF'`, ""}, {`'\u12'`, ""},
		{`'\ud83d\ude00'`, `"😀"`}, {`'a\ud83d "b'`, `"a\ud83d \"b"`}, {`'\ude00\ud83d'`, `"\ude00\ud83d"`},
		{"'a\\\nb\\\r\nc\\\rd'", `"abcd"`}, {"'''a\r\nb\rc\nd'''", `"a\nb\nc\nd"`}, {"'a\rb'", ""}, {"r'''a\\\r\nb'''", `"a\\\nb"`},
		{`r'\n\'\N{X}\u1'`, `"\\n\\'\\N{X}\\u1"`}, {`R"a\\"`, `"a\\\\"`}, {`u'\x41'`, `"A"`}, {`'\q\ \/'`, `"\\q\\ \\/"`},
		{`b'a\x41\101\u00e9\N{X}'`, `"aAA\\u00e9\\N{X}"`}, {`b'\xc3\xa9'`, `"é"`}, {`b'\xff'`, ""}, {`b'é'`, ""},
		{`b'\400a'`, `"\u0000a"`}, {`Rb'\x41'`, `"\\x41"`}, {`bR'\''`, `"\\'"`},
		{`'a' "b" r'\c' u"d" """e"""`, `"ab\\cde"`}, {`'a'r'\b'`, `"a\\b"`}, {`b'a' rb'b'`, `"ab"`}, {`'a' b'b'`, ""}, {`b'a' 'b'`, ""},
		{`['a' 'b', r'c' 'd']`, `["ab", "cd"]`}, {`{'a' 'b': 'c' u'd'}`, `{"ab": "cd"}`},
		{`ur'a'`, ""}, {`f'a'`, ""}, {`bb'a'`, ""}, {`rr'a'`, ""}, {`rub'a'`, ""}, {`t'a'`, ""},
	}
	for _, tt := range tests {
		got, n, err := pyvalue.Read(tt.in, pyvalue.Options{})
		if tt.want == "" {
			if err == nil {
				t.Errorf("%s: %s, want an error", tt.in, got)
			}
			continue
		}
		if err != nil || got != tt.want || n != len(tt.in) || !json.Valid([]byte(got)) {
			t.Errorf("%s: %s, %d, %v; want %s", tt.in, got, n, err, tt.want)
		}
	}
	for in, want := range map[string]bool{`b'a'`: true, `['a', b'a']`: true, `'a'`: false, `[1]`: false} {
		odd := false
		if _, _, err := pyvalue.Read(in, pyvalue.Options{Odd: &odd}); err != nil || odd != want {
			t.Errorf("%s: %v, odd %v", in, err, odd)
		}
	}
	for in, want := range map[string]string{`"C:\New \N{x} \N{DEGREE SIGN}\/"`: `"C:\\New \\N{x} °/"`} {
		if got, _, err := pyvalue.Read(in, pyvalue.Options{JSONEscapes: true}); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{`'\N`, `'\N{DEGREE`, `'\x4`, `'\u`, `r'\`, `b'`, `'a' r'`, `'\`} {
		if _, _, err := pyvalue.Read(in, pyvalue.Options{}); !errors.Is(err, pyvalue.ErrCut) {
			t.Errorf("%s: %v, want ErrCut", in, err)
		}
	}
}

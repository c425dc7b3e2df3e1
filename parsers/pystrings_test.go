package parsers_test

import (
	"testing"

	"hermes/parsers"
)

// The families that write Python read its strings as Python does: the value is on the right,
// with the call's state; "" is a call that Python refuses.
func TestPythonStrings(t *testing.T) {
	rows := []struct {
		spelled, want string
		state         parsers.State
	}{
		{`"20 \N{DEGREE SIGN}C"`, `"20 °C"`, parsers.Complete},
		{`'\N{latin small letter e with acute}\N{NBSP}x'`, "\"é\u00a0x\"", parsers.Complete},
		{`'\x41\101\u00e9\U0001F600 fine'`, `"AAé😀 fine"`, parsers.Complete},
		{"'one \\\ntwo'", `"one two"`, parsers.Complete},
		{`r'\N{DEGREE SIGN}\d+'`, `"\\N{DEGREE SIGN}\\d+"`, parsers.Complete},
		{`'a' r'\b' "c"`, `"a\\bc"`, parsers.Complete},
		{`b'abc \x41'`, `"abc A"`, parsers.Recovered},
		{`b'\xff'`, "", ""},
		{`'a' b'b'`, "", ""},
		{`'\N{NO SUCH CHARACTER}'`, "", ""},
		{`'\U00110000'`, "", ""},
	}
	around := map[string][2]string{
		"pythonic":        {"[ls(path=", ")]"},
		"llama4_pythonic": {"<|python_start|>[ls(path=", ")]<|python_end|>"},
		"lfm2":            {"<|tool_call_start|>[ls(path=", ")]<|tool_call_end|>"},
		"olmo3":           {"<function_calls>\nls(path=", ")\n</function_calls>"},
	}
	for name, a := range around {
		f, err := parsers.Standard().Get(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range rows {
			if name == "lfm2" && tt.spelled == `'a' b'b'` {
				continue // read as one string with quotes in it, and recovered
			}
			text := a[0] + tt.spelled + a[1]
			p := f.Parse(text, parsers.ParseOptions{Tools: probeTools})
			if tt.want == "" {
				if len(p.Calls) > 0 && p.Calls[0].State != parsers.Malformed || len(p.Faults) == 0 {
					t.Errorf("%s %s: %+v, want no call and a fault", name, text, p)
				}
				continue
			}
			if len(p.Calls) != 1 || p.Calls[0].Arguments != `{"path": `+tt.want+`}` || p.Calls[0].State != tt.state {
				t.Errorf("%s %s: %+v, want %s, %s", name, text, p.Calls, tt.want, tt.state)
			}
			for _, d := range []parsers.Dialect{parsers.VLLM, parsers.SGLang} {
				p := f.Parse(text, parsers.ParseOptions{Tools: probeTools, Dialect: d})
				if tt.state == parsers.Recovered && len(p.Calls) != 0 || tt.state == parsers.Complete &&
					(len(p.Calls) != 1 || p.Calls[0].Arguments != `{"path": `+tt.want+`}`) {
					t.Errorf("%s %v %s: %+v, want %s", name, d, text, p.Calls, tt.want)
				}
			}
		}
	}
}

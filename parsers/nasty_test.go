package parsers_test

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"hermes/parsers"
	"hermes/trajectory"
)

var nastyTools = []trajectory.ToolSpec{
	{Name: "write", Parameters: json.RawMessage(`{"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}`)},
	{
		Name: "calc",
		Parameters: json.RawMessage(`{"type": "object", "properties": {"n": {"type": "integer"}, "x": {"type": "number"}, "on": {"type": "boolean"}, "o": {"type": "object"},
		"l": {"type": "array", "items": {"type": "string"}}, "m": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}`),
	},
}

// TestNastyArguments: what a family writes for nasty arguments is read back, or doubted where
// its form cannot carry the value. Nothing is wrong in silence.
func TestNastyArguments(t *testing.T) {
	raw, err := os.ReadFile("testdata/nasty.json")
	if err != nil {
		t.Fatal(err)
	}
	var nasty struct{ Texts, Objects []string }
	if err := json.Unmarshal(raw, &nasty); err != nil {
		t.Fatal(err)
	}
	var all []parsers.Call
	for _, s := range nasty.Texts {
		q, _ := json.Marshal(s)
		all = append(all, parsers.Call{
			Name:      "write",
			Arguments: `{"text": ` + string(q) + `}`,
		}, parsers.Call{Name: "write", Arguments: `{"text": ` + string(q) + `, "path": "b"}`})
	}
	for _, a := range nasty.Objects {
		all = append(all, parsers.Call{Name: "calc", Arguments: a})
	}
	right := 0
	doubted := 0
	wrong := 0
	for _, f := range families() {
		fr := 0
		fd := 0
		fw := 0
		for _, c := range all {
			for _, calls := range [][]parsers.Call{{c}, {c, {Name: "write", Arguments: `{"text": "then"}`}}} {
				if oneCall[f.Name] && len(calls) > 1 {
					continue
				}
				text := f.Format(parsers.Parsed{Calls: calls})
				got := f.Parse(text, parsers.ParseOptions{Tools: nastyTools})
				switch {
				case sameAs(got.Calls, calls):
					fr++
				case isDoubted(got, calls):
					fd++
				default:
					fw++
					if fw <= 3 {
						t.Errorf("%s: %.500q: calls %.400v, faults %.200v", f.Name, text, got.Calls, got.Faults)
					}
				}
			}
		}
		if fd+fw > 0 {
			t.Logf("%-18s %d right, %d doubted, %d wrong", f.Name, fr, fd, fw)
		}
		right, doubted, wrong = right+fr, doubted+fd, wrong+fw
	}
	t.Logf("%d right, %d doubted, %d wrong", right, doubted, wrong)
	if right*100 < 97*(right+doubted+wrong) {
		t.Error("fewer than 97 % are read back")
	}
}

func sameAs(got, want []parsers.Call) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if got[i].Name != want[i].Name || !reflect.DeepEqual(value(got[i].Arguments), value(want[i].Arguments)) {
			return false
		}
	}
	return true
}

// isDoubted says that every call that is given as complete is right, and that what is not is
// reported.
func isDoubted(p parsers.Parsed, want []parsers.Call) bool {
	for i, c := range p.Calls {
		if c.State == parsers.Complete && (i >= len(want) || !sameAs(p.Calls[i:i+1], want[i:i+1])) {
			return false
		}
	}
	return len(p.Faults) > 0
}

package parsers_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hermes/parsers"
	"hermes/trajectory"
)

// reportCase is a text that was read wrongly once. Content is not compared when it is
// missing, arguments are not when they are null, calls are not when they are null.
type reportCase struct {
	Report  string
	ID      string
	Family  string
	Text    string
	Tools   []struct{ Function trajectory.ToolSpec }
	Content *string
	Faults  bool
	Calls   []struct {
		Name      string
		Arguments json.RawMessage
		States    []parsers.State
	}
}

// TestReports reads the inputs of public reports and others of their kinds.
func TestReports(t *testing.T) {
	n := 0
	readJSONL(t, "testdata/reports.jsonl", func(c reportCase) {
		n++
		var o parsers.ParseOptions
		for _, tool := range c.Tools {
			o.Tools = append(o.Tools, tool.Function)
		}
		p := familyOf(t, c.Family).Parse(c.Text, o)
		if why := reportMiss(c, p); why != "" {
			t.Errorf("%s %s, %s: %q\n\t%s\n\tcontent %q, reasoning %q, calls %+v, faults %+v", c.Report,
				c.ID, c.Family, c.Text, why, p.Content, p.Reasoning, p.Calls, p.Faults)
		}
		if err := checkLaws(c.Text, p); err != nil {
			t.Errorf("%s %s, %s: %q: %v", c.Report, c.ID, c.Family, c.Text, err)
		}
	})
	if n < 300 {
		t.Errorf("only %d cases", n)
	}
}

func reportMiss(c reportCase, p parsers.Parsed) string {
	switch {
	case c.Content != nil && *c.Content != p.Content:
		return "other content"
	case c.Faults && len(p.Faults) == 0:
		return "no fault"
	case c.Calls == nil:
		return ""
	case len(c.Calls) != len(p.Calls):
		return "other calls"
	case len(c.Calls) == 0 && !c.Faults && len(p.Faults) > 0 && !strings.Contains(c.Text, "<think>"):
		return "a fault"
	}
	for i, want := range c.Calls {
		got := p.Calls[i]
		if want.Name != got.Name || !slices.Contains(want.States, got.State) {
			return "other name or state"
		}
		if args := string(want.Arguments); args != "" && args != "null" && !reflect.DeepEqual(value(args), value(got.Arguments)) {
			return "other arguments, want " + args
		}
	}
	return ""
}

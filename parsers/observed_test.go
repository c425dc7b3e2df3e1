package parsers_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hermes/internal/realdata"
	"hermes/parsers"
)

type observation struct {
	Parser   string                     `json:"parser"`
	Cases    []string                   `json:"cases"`
	Tools    json.RawMessage            `json:"tools"`
	Text     string                     `json:"text"`
	Observed map[string]json.RawMessage `json:"observed"`
}

type observedResult struct {
	Content *string `json:"content"`
	Calls   []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"calls"`
	Error any `json:"error"`
}

// TestOursWherePeersAgree compares our own dialect with what at least two peers both
// return for a text.
func TestOursWherePeersAgree(t *testing.T) {
	set := parsers.Standard()
	known := map[string]bool{}
	if b, err := os.ReadFile("testdata/disagree.tsv"); err == nil {
		for line := range strings.Lines(string(b)) {
			id, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			known[id] = true
		}
	}
	agreed := 0
	hit := 0
	others := 0
	var out []string
	readJSONL(t, filepath.Join(realdata.Path(t, "parsers-observed"), "observed.jsonl"), func(o observation) {
		var results []observedResult
		for _, raw := range o.Observed {
			var r observedResult
			if json.Unmarshal(raw, &r) != nil || r.Error != nil {
				return
			}
			results = append(results, r)
		}
		if len(results) < 2 {
			return
		}
		for _, r := range results[1:] {
			if text(r.Content) != text(results[0].Content) || !sameCalls(r, results[0]) {
				return
			}
		}
		if undeclared(o.Tools, results[0]) { // no call here: report "undeclared names become calls"
			a := parseLine(t, set, parsers.Ours, map[string]any{"family": o.Parser, "text": o.Text, "tools": o.Tools})
			others++
			if len(a.Calls) >= len(results[0].Calls) {
				t.Errorf("%s: %q: a call of a tool that is not declared", o.Parser, o.Text)
			}
			return
		}
		agreed++
		req := map[string]any{"family": o.Parser, "text": o.Text, "tools": o.Tools}
		if o.Tools == nil {
			delete(req, "tools")
		}
		a := parseLine(t, set, parsers.Ours, req)
		why := ""
		if text(a.Content) != text(results[0].Content) {
			why = "content " + text(a.Content)
		} else if got := asObserved(a); !sameCalls(got, results[0]) {
			b, _ := json.Marshal(a.Calls)
			why = "calls " + string(b)
		}
		id := o.Parser + "/" + strings.Join(o.Cases[:min(1, len(o.Cases))], "")
		switch {
		case why == "" && known[id]:
			t.Errorf("%s agrees but is listed", id)
		case why == "":
			hit++
		case !known[id]:
			t.Errorf("%s: %.300q: %.300s", id, o.Text, why)
		}
		if why != "" {
			out = append(out, id+"\t"+strings.ReplaceAll(why, "\n", " "))
		}
	})
	t.Logf("%d of %d texts as all their peers read them; in %d more they call tools that are not declared", hit, agreed, others)
	if path := os.Getenv("PARSER_DISAGREE"); path != "" {
		if err := os.WriteFile(path, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// undeclared says that the result calls a tool that a given list does not declare.
func undeclared(tools json.RawMessage, r observedResult) bool {
	var list []struct {
		Name     string
		Function struct{ Name string }
	}
	if json.Unmarshal(tools, &list) != nil || len(list) == 0 {
		return false
	}
	names := map[string]bool{}
	for _, t := range list {
		names[t.Name], names[t.Function.Name] = true, true
	}
	for _, c := range r.Calls {
		if !names[strings.TrimSpace(c.Name)] {
			return true
		}
	}
	return false
}

func asObserved(a parseAnswer) observedResult {
	var r observedResult
	for _, c := range a.Calls {
		q, _ := json.Marshal(c.Arguments)
		r.Calls = append(r.Calls, struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		}{c.Name, q})
	}
	return r
}

// argument unwraps arguments that are given as text.
func argument(raw json.RawMessage) any {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return value(s)
	}
	return value(string(raw))
}

func sameCalls(a, b observedResult) bool {
	if len(a.Calls) != len(b.Calls) {
		return false
	}
	for i := range a.Calls {
		if a.Calls[i].Name != b.Calls[i].Name || !reflect.DeepEqual(argument(a.Calls[i].Arguments), argument(b.Calls[i].Arguments)) {
			return false
		}
	}
	return true
}

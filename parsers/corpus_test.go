package parsers_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hermes/internal/realdata"
	"hermes/parsers"
)

type corpusCase struct {
	ID        string          `json:"id"`
	Parser    string          `json:"parser"`
	Peer      string          `json:"peer"`
	Options   json.RawMessage `json:"options"`
	Tools     json.RawMessage `json:"tools"`
	Text      string          `json:"text"`
	Chunks    []string        `json:"chunks"`
	Content   *string         `json:"expect_content"`
	HasText   bool            `json:"content_asserted"`
	Reasoning *string         `json:"expect_reasoning"`
	HasReason bool            `json:"reasoning_asserted"`
	Calls     []expectedCall  `json:"expect_calls"`
	CallsNull bool            `json:"-"`
	AtLeast   bool            `json:"calls_at_least"`
}

type expectedCall struct {
	ID      *string         `json:"id"`
	Name    *string         `json:"name"`
	Args    json.RawMessage `json:"arguments"`
	Raw     *string         `json:"arguments_raw"`
	Partial bool            `json:"arguments_partial"`
}

type parseAnswer struct {
	Content, Reasoning *string
	Calls              []parsers.Call
	Faults             []parsers.Fault
	Error              string
}

func readJSONL[T any](t testing.TB, path string, each func(T)) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(bytes.NewReader(b))
	s.Buffer(nil, 1<<26)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		each(v)
	}
}

func parseLine(t testing.TB, set *parsers.Set, d parsers.Dialect, req map[string]any) parseAnswer {
	t.Helper()
	line, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := parsers.Lines(bytes.NewReader(line), &out, set, d); err != nil {
		t.Fatal(err)
	}
	var a parseAnswer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v", out.Bytes(), err)
	}
	return a
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func value(raw string) any {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return raw
	}
	return plain(v)
}

// plain makes numbers comparable as Python compares them.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil {
			return f
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}

// miss says how the answer differs from what the case asserts; empty is agreement.
func miss(c corpusCase, a parseAnswer) string {
	switch {
	case a.Error != "":
		return "error " + a.Error
	case c.HasText && text(c.Content) != text(a.Content):
		return "content " + text(a.Content)
	case c.HasReason && text(c.Reasoning) != text(a.Reasoning):
		return "reasoning " + text(a.Reasoning)
	}
	if c.Calls == nil {
		return ""
	}
	if len(a.Calls) < len(c.Calls) || len(a.Calls) > len(c.Calls) && !c.AtLeast {
		b, _ := json.Marshal(a.Calls)
		return "calls " + string(b)
	}
	for i, want := range c.Calls {
		got := a.Calls[i]
		if want.Name != nil && *want.Name != got.Name || want.ID != nil && *want.ID != got.ID {
			return "name or id " + got.Name + " " + got.ID
		}
		if want.Raw != nil && *want.Raw != got.Arguments && !reflect.DeepEqual(value(*want.Raw), value(got.Arguments)) {
			return "raw arguments " + got.Arguments
		}
		if len(want.Args) == 0 || string(want.Args) == "null" {
			continue
		}
		w, g := value(string(want.Args)), value(got.Arguments)
		if want.Partial {
			wm, ok := w.(map[string]any)
			gm, ok2 := g.(map[string]any)
			for k := range wm {
				if !ok || !ok2 || !reflect.DeepEqual(wm[k], gm[k]) {
					return "arguments " + got.Arguments
				}
			}
		} else if !reflect.DeepEqual(w, g) {
			return "arguments " + got.Arguments
		}
	}
	return ""
}

var peerDialect = map[string]parsers.Dialect{"vllm": parsers.VLLM, "sglang": parsers.SGLang, "hermes-agent": parsers.Upstream}

func TestCorpus(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(realdata.Path(t, "parsers"), "*.jsonl"))
	known := knownMisses(t)
	set := parsers.Standard()
	total, hit := 0, 0
	var found []string
	for _, f := range files {
		readJSONL(t, f, func(c corpusCase) {
			total++
			req := map[string]any{"id": c.ID, "family": c.Parser, "tools": c.Tools, "options": c.Options, "text": c.Text}
			if c.Tools == nil {
				delete(req, "tools")
			}
			if c.Options == nil {
				delete(req, "options")
			}
			if len(c.Chunks) > 0 && strings.Join(c.Chunks, "") == c.Text {
				req["chunks"] = c.Chunks
			}
			why := miss(c, parseLine(t, set, peerDialect[c.Peer], req))
			_, listed := known[c.ID]
			switch {
			case why == "":
				hit++
				if listed {
					t.Errorf("%s passes but is listed as a miss", c.ID)
				}
			case !listed:
				t.Errorf("%s: %.300q: %.300s", c.ID, c.Text, why)
			}
			if why != "" {
				found = append(found, c.ID+"\t"+strings.ReplaceAll(why, "\n", " "))
			}
		})
	}
	t.Logf("%d of %d cases as their peer has them (%.1f %%)", hit, total, 100*float64(hit)/float64(total))
	if path := os.Getenv("PARSER_MISSES"); path != "" {
		if err := os.WriteFile(path, []byte(strings.Join(found, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// knownMisses reads the list of cases that are known to differ, with the reason.
func knownMisses(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("testdata/misses.tsv")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, why, ok := strings.Cut(line, "\t")
		if !ok || why == "" {
			t.Fatalf("misses.tsv: %q has no reason", line)
		}
		out[id] = why
	}
	return out
}

package datasets_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/datasets"
)

const good = `{"prompt":"fine"}`

func TestBadRows(t *testing.T) {
	tests := []struct {
		name, row, want string
	}{
		{"not JSON", `hello`, `'h' where a value should start`},
		{"cut off", `{"prompt":"a`, "ends inside a value"},
		{"a list", `[1,2]`, "a list, not a JSON object"},
		{"text", `"x"`, "text, not a JSON object"},
		{"a number", `17`, "a number, not a JSON object"},
		{"null", `null`, "null, not a JSON object"},
		{"behind the object", `{"prompt":"a"} x`, "'x' behind the object"},
		{"two objects", `{"prompt":"a"}{"prompt":"b"}`, "'{' behind the object"},
		{"key twice", `{"prompt":"a","prompt":"b"}`, `"prompt" is given twice`},
		{"escaped key twice", `{"id":"a","\u0069d":"b","prompt":"c"}`, `"id" is given twice`},
		{"comma at the end", `{"prompt":"a",}`, "quoted key"},
		{"single quotes", `{'prompt':'a'}`, "quoted key"},
		{"NaN", `{"prompt":"a","x":NaN}`, "NaN and Infinity"},
		{"minus infinity", `{"prompt":"a","x":-Infinity}`, "NaN and Infinity"},
		{"leading zero", `{"prompt":"a","x":012}`, "leading zero"},
		{"bad escape", `{"prompt":"\x41"}`, "unknown escape"},
		{"tab in a string", "{\"prompt\":\"a\tb\"}", "byte 0x09 inside a string"},
		{"NUL byte", "{\"prompt\":\"a\x00b\"}", "a NUL byte inside a string"},
		{"NUL character", `{"prompt":"a\u0000b"}`, "holds a NUL character"},
		{"half a character", `{"prompt":"\ud83d"}`, "lone surrogate"},
		{"not UTF-8", "{\"prompt\":\"a\xffb\"}", "byte 12: not valid UTF-8"},
		{"no task", `{"text":"a","n":1}`, `no task: the keys are "text", "n", and none is messages`},
		{"empty prompt", `{"prompt":"  \n"}`, "prompt: the task is empty"},
		{"null prompt", `{"prompt":null}`, "prompt is null"},
		{"number for a prompt", `{"prompt":5}`, "prompt: a number, want text or a list"},
		{"messages without user", `{"messages":[{"role":"system","content":"x"}]}`, "no user message"},
		{"empty messages", `{"messages":[]}`, "no user message"},
		{"unknown role", `{"messages":[{"role":"wizard","content":"x"}]}`, `message 0: unknown role "wizard"`},
		{"no role", `{"messages":[{"content":"x"}]}`, "message 0: no role"},
		{"message is text", `{"messages":["x"]}`, "message 0: text, not a JSON object"},
		{"bad part", `{"messages":[{"role":"user","content":[{"type":"smell"}]}]}`, `unknown type "smell"`},
		{"call without name", `{"messages":[{"role":"assistant","tool_calls":[{"function":{}}]},{"role":"user","content":"x"}]}`, "without name"},
		{"id is a list", `{"id":[1],"prompt":"a"}`, "id: a list, want text or a number"},
		{"empty id", `{"id":"","prompt":"a"}`, "id: empty"},
		{"id with a line break", `{"id":"a\nb","prompt":"a"}`, "control character"},
		{"long id", `{"id":"` + strings.Repeat("x", 600) + `","prompt":"a"}`, "600 bytes, at most 512"},
		{"hermes is a list", `{"prompt":"a","hermes":[]}`, "hermes: a list, not a JSON object"},
		{"unknown override", `{"prompt":"a","hermes":{"imgae":"x"}}`, "hermes: imgae: unknown key"},
		{"climbing file", `{"prompt":"a","hermes":{"files":{"../x":"y"}}}`, "climbs out"},
		{"file is a number", `{"prompt":"a","hermes":{"files":{"x":1}}}`, "a number, not text"},
		{"network is another word", `{"prompt":"a","hermes":{"network":"all"}}`, `network: "all", want "none" or a list of hosts`},
		{"network is a number", `{"prompt":"a","hermes":{"network":1}}`, "network: "},
		{"bad variable", `{"prompt":"a","hermes":{"env":{"A=B":"1"}}}`, "environment variable"},
		{"prefill by the system", `{"prompt":"a","hermes":{"prefill":[{"role":"system","content":"x"}]}}`, "want user or assistant"},
		{"image with a blank", `{"prompt":"a","docker_image":"de bian"}`, "not an image reference"},
		{"script is text", `{"prompt":"a","hermes":{"script":"x"}}`, "want a list of assistant turns"},
		{"too deep", `{"prompt":"a","x":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, "nested deeper than 512"},
		{"too long", `{"prompt":"` + strings.Repeat("y", 5000) + `"}`, "longer than 4096 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "rows.jsonl")
			if err := os.WriteFile(path, []byte(good+"\n\n"+tt.row+"\r\n"+good), 0o644); err != nil {
				t.Fatal(err)
			}
			d, err := datasets.Open(t.Context(), datasets.Options{MaxLine: 4096}, path)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			rep, err := d.Validate(t.Context())
			if err != nil || rep.Rows != 2 || rep.Bad != 1 || len(rep.Errors) != 1 {
				t.Fatalf("report %+v, %v: want 2 good rows and 1 bad", rep, err)
			}
			if e := rep.Errors[0]; e.Line != 3 || e.Row != 1 || e.File != path || !strings.Contains(e.Error(), tt.want) {
				t.Errorf("line %d, row %d: %v; want line 3, row 1 and %q", e.Line, e.Row, e, tt.want)
			}
			if rep.Err(datasets.Skip) != nil || rep.Err(datasets.Fail) == nil {
				t.Errorf("skip: %v, fail: %v", rep.Err(datasets.Skip), rep.Err(datasets.Fail))
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	tests := []struct {
		name, file, text, want string
	}{
		{"UTF-16", "a.jsonl", "\xff\xfe{\x00", "UTF-16"},
		{"false Parquet", "a.parquet", "hello", "does not begin with PAR1"},
		{"cut Parquet", "a.parquet", "PAR1\x00\x00", "parquet"},
		{"cut gzip", "a.jsonl.gz", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab", "EOF"},
		{"empty", "a.jsonl", "\n\n", "no usable rows"},
		{"unclosed array", "a.json", `[{"prompt":"a"},`, "not closed"},
		{"array without comma", "a.json", `[{"prompt":"a"} {"prompt":"b"}]`, "where a comma should stand"},
		{"array with a tail", "a.json", `[{"prompt":"a"}] x`, "behind the end of the list"},
		{"CSV cells", "a.csv", "prompt,id\na\n", "1 cells, the header has 2"},
		{"CSV header twice", "a.csv", "prompt,prompt\na,b\n", "is given twice"},
		{"CSV quote", "a.csv", "prompt\n\"a\n", "quote"},
		{"CSV no UTF-8", "a.csv", "prompt\n\xff\n", "not valid UTF-8"},
		{
			"doubled id",
			"a.jsonl",
			`{"id":"x","prompt":"a"}` + "\n" + `{"id":"y","prompt":"a"}` + "\n" + `{"id":"x","prompt":"b"}`,
			`a.jsonl:3: id "x" is given twice, first at`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), tt.file)
			if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			d, err := datasets.Open(t.Context(), datasets.Options{}, path)
			if err == nil {
				defer d.Close()
				var rep datasets.Report
				rep, err = d.Validate(t.Context())
				if err == nil {
					err = rep.Err(datasets.Fail)
				}
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestBadOptions(t *testing.T) {
	for _, spec := range []string{"", "a", "a=", "=b", "a=b,a=c", "a=c,b=c"} {
		if m, err := datasets.ParseMap(spec); err == nil && spec != "" {
			t.Errorf("map %q: %v", spec, m)
		}
	}
	for _, spec := range []string{"", "1", "2/2", "-1/3", "a/b", "0/0"} {
		if s, err := datasets.ParseShard(spec); err == nil {
			t.Errorf("shard %q: %v", spec, s)
		}
	}
	if _, err := datasets.Open(t.Context(), datasets.Options{}, filepath.Join(t.TempDir(), "none.jsonl")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := datasets.Open(t.Context(), datasets.Options{Map: map[string]string{"a": "c", "b": "c"}}, "x"); err == nil {
		t.Error("two names for one key")
	}
	d, err := datasets.Inline("x", `{"prompt":"a"}`, datasets.Options{PromptKey: "promt", Map: map[string]string{"gold": "answer"}})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := d.Validate(t.Context())
	if err != nil || rep.Err(datasets.Fail) == nil || len(rep.Unused) != 2 {
		t.Errorf("unused names: %v, %v", rep.Unused, err)
	}
}

// TestNearKeys holds that a misspelled key is pointed out, where it is asked for and where it
// is carried along without a meaning.
func TestNearKeys(t *testing.T) {
	tests := []struct{ name, row, key, want string }{
		{"the only candidate for a task", `{"promt":"a"}`, "", `(did you mean prompt?)`},
		{"a name given by the user", `{"prompt":"a","ask_text":"b"}`, "ask_txet", `"ask_txet" (--prompt-key) (did you mean ask_text?)`},
		{"an answer that grades nothing", `{"prompt":"a","anwser":"4"}`, "", "anwser is carried along only (did you mean answer?)"},
		{"a key near to nothing", `{"prompt":"a","level":"4"}`, "", ""},
		{"the plural of a key", `{"prompt":"a","answers":"4"}`, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.jsonl")
			if err := os.WriteFile(path, []byte(tt.row+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := datasets.Open(t.Context(), datasets.Options{PromptKey: tt.key}, path)
			if err != nil {
				t.Fatal(err)
			}
			rep, err := d.Validate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			text := rep.Mapping.String()
			if err := rep.Err(datasets.Fail); err != nil {
				text += err.Error()
			}
			if tt.want == "" && strings.Contains(text, "did you mean") || !strings.Contains(text, tt.want) {
				t.Errorf("%s\n%s\nwant %q in it", tt.row, text, tt.want)
			}
		})
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"hermes/internal/build"
	"hermes/trajectory"
	"hermes/trajectory/columns"
)

// trained runs rows of all shapes exactly, with every file of a run.
func trained(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	rows := `{"id":"a","prompt":"Say <hello> & goodbye.","level":3,"tags":["x"],"answer":"done","hermes":{"system":"Be brief.","script":[{"reasoning":"A look.","calls":[{"name":"terminal","arguments":{"command":"echo 'one & \"three\"'"}},{"name":"terminal","arguments":{"command":"echo 日本","timeout":5}}]},{"content":"done"}]}}
{"id":"b","prompt":"Write.","answer":"no","note":null,"hermes":{"script":[{"calls":[{"name":"write_file","arguments":{"path":"x.txt","content":"{\"a\": [1, null]}"}}]},{"calls":[{"name":"todo","arguments":{"todos":[{"id":"1","content":"x","status":"pending"}]}}]},{"content":"done"}]}}
{"id":"c","prompt":"Nothing.","hermes":{"script":[{"content":"an echo 🙂"}]}}
{"id":"d","prompt":"No arguments.","hermes":{"script":[{"calls":[{"name":"todo","arguments":{}}]},{"content":"done"}]}}
`
	if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), []byte(rows), 0o644); err != nil {
		t.Fatal(err)
	}
	c := hermes(t, dir, "batch", "rows.jsonl", "--model", "scripted", "--exact", "--wire", "sglang", "--max-tokens", "2000", "--toolsets", "terminal,file,todo",
		"--backend", "local", "--run", "demo", "--parquet", "--progress", "none")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestFormatsPage holds docs/formats.md to the files of a run: each key of them is on the page.
func TestFormatsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(trained(t), "runs", "demo")
	section := func(name string) string {
		_, rest, ok := strings.Cut(string(page), "\n## "+name)
		if !ok {
			t.Fatalf("no section %s", name)
		}
		rest, _, _ = strings.Cut(rest, "\n## ")
		return rest
	}
	check := func(name string, keys map[string]bool) {
		text := section(name)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if !strings.Contains(text, "`"+k+"`") {
				t.Errorf("%s: key %s is not on the page", name, k)
			}
		}
		if len(keys) < 5 {
			t.Errorf("%s: only the keys %v were seen", name, keys)
		}
	}
	messages := map[string]bool{}
	for _, l := range jsonLines(t, filepath.Join(dir, "messages.jsonl")) {
		keysOf(messages, l)
		for _, m := range l["messages"].([]any) {
			keysOf(messages, m.(map[string]any))
		}
	}
	check("messages.jsonl", messages)
	sharegpt := map[string]bool{}
	for _, l := range jsonLines(t, filepath.Join(dir, "trajectories.jsonl")) {
		keysOf(sharegpt, l)
	}
	check("trajectories.jsonl", sharegpt)
	table := map[string]bool{}
	for _, c := range parquet.SchemaOf(columns.Row{}).Fields() {
		table[c.Name()] = true
	}
	check("Parquet", table)
	raw, err := os.ReadFile(filepath.Join(dir, "statistics.json"))
	var books map[string]any
	if err != nil || json.Unmarshal(raw, &books) != nil {
		t.Fatal(err)
	}
	statistics := map[string]bool{}
	keysOf(statistics, books)
	check("statistics.json", statistics)
}

func keysOf(into map[string]bool, m map[string]any) {
	for k := range m {
		into[k] = true
	}
}

func jsonLines(t *testing.T, name string) (list []map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// loads is the Python that the page shows, then the comparison with what the model saw:
// the text of its tokens.
const loads = `
import json, re, datasets
from datasets import load_dataset
MAJOR = int(datasets.__version__.split(".")[0])
PAGE = json.load(open("page.json"))
exec(PAGE[1])  # chat
want = json.load(open("want.json"))
plain = {json.loads(l)["id"]: json.loads(l) for l in open("runs/demo/messages.jsonl")}
try:
    from transformers import PreTrainedTokenizerFast
    from tokenizers import Tokenizer, models
    tok = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"x": 0}, unk_token="x")))
    tok.chat_template = open("chat.jinja").read()
    render = lambda messages, tools: tok.apply_chat_template(messages, tools=tools, tokenize=False)
except ImportError:
    render = None
# the model spells its JSON as it likes, a template with a blank behind each comma and colon
call = re.compile(r'("arguments": )(.*)(}\n</tool_call>)')
want = {k: call.sub(lambda m: m[1] + json.dumps(json.loads(m[2]), ensure_ascii=False) + m[3], v) for k, v in want.items()}
def same(where, id, text):
    n = next((i for i, (a, b) in enumerate(zip(text, want[id])) if a != b), min(len(text), len(want[id])))
    assert text == want[id], (where, id, "rendered", text[max(0, n-60):n+60], "seen", want[id][max(0, n-60):n+60])
def check(where, id, messages, tools):
    assert messages == plain[id]["messages"], (where, id, messages, plain[id]["messages"])
    assert tools == plain[id]["tools"], (where, id)
    assert [list(m) for m in messages] == [list(m) for m in plain[id]["messages"]], (where, id, "keys")
    if render:
        same(where, id, render(messages, tools))
for where, files in (("parquet", "runs/demo/parquet/*.parquet"), ("hub", "folder/data/train-*.parquet")):
    rows = load_dataset("parquet", data_files=files, split="train", cache_dir="cache")
    assert len(rows) == 4
    for row in rows:
        check(where, row["id"], **chat(row))
        assert json.loads(row["metadata"] or "{}") == plain[row["id"]]["metadata"], row["metadata"]
if MAJOR >= 5:
    exec(PAGE[0])  # rows
    from trl.data_utils import apply_chat_template, is_conversational
    for row in rows:
        check("messages", row["id"], row["messages"], row["tools"])
        assert row["metadata"] == plain[row["id"]]["metadata"] and row["reward"] == plain[row["id"]]["reward"], row
        assert is_conversational(row)
        same("trl", row["id"], apply_chat_template({"messages": row["messages"]}, tok, tools=row["tools"])["text"])
print("ok", MAJOR, bool(render))
`

// TestTrainersLoad loads a run as docs/formats.md shows it, with datasets 5 and 3, and renders
// it with transformers and TRL: the same text as the tokens that the model saw.
func TestTrainersLoad(t *testing.T) {
	pythons := map[string]string{"ORACLE_PYTHON": "ok 5 True", "ORACLE_PYTHON_DATASETS3": "ok 3 False"}
	run := ""
	for name, want := range pythons {
		python := os.Getenv(name)
		if python != "" && run == "" {
			run = trained(t)
			whatModelsSaw(t, run)
		}
		t.Run(name, func(t *testing.T) {
			if python == "" {
				t.Skip(name + " names no Python that has datasets")
			}
			c := exec.Command(python, "-c", loads)
			c.Dir, c.Env = run, append(os.Environ(), "HF_HUB_OFFLINE=1", "HF_HOME="+filepath.Join(t.TempDir(), "hf"))
			out, err := c.CombinedOutput()
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("want %q, got %v\n%s", want, err, out)
			}
		})
	}
}

// TestCardReadsAsThePage holds the dataset card's chat(row) to that of docs/formats.md, which
// TestTrainersLoad runs.
func TestCardReadsAsThePage(t *testing.T) {
	chat := func(name string) (line string) {
		for _, block := range pythonOf(t, name) {
			for l := range strings.Lines(block) {
				if strings.HasPrefix(l, "chat = ") {
					line += l
				}
			}
		}
		return line
	}
	page, card := chat("../../docs/formats.md"), chat("../../rollout/runs/card.md")
	if page == "" || page != card {
		t.Errorf("docs/formats.md says\n%s\nrollout/runs/card.md says\n%s", page, card)
	}
}

var pythonBlock = regexp.MustCompile("(?s)```python\n(.*?)```")

// pythonOf lists the Python that a page shows.
func pythonOf(t *testing.T, name string) (blocks []string) {
	t.Helper()
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range pythonBlock.FindAllSubmatch(page, -1) {
		blocks = append(blocks, string(m[1]))
	}
	return blocks
}

// whatModelsSaw writes the text of each row's tokens, the template and the page's Python.
func whatModelsSaw(t *testing.T, dir string) {
	t.Helper()
	if out, err := hermes(t, dir, "runs", "export", "demo", "--format", "hf", "-o", "folder").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := map[string]string{}
	parts, err := filepath.Glob(filepath.Join(dir, "runs/demo/parquet/*.parquet"))
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	raw, err := os.ReadFile(parts[0])
	if err != nil {
		t.Fatal(err)
	}
	rows, err := columns.Read(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	words, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		ids := make([]trajectory.Token, len(r.Sequences[0].Tokens))
		for i, id := range r.Sequences[0].Tokens {
			ids[i] = trajectory.Token(id)
		}
		text, err := words.Decode(ids)
		if err != nil {
			t.Fatal(err)
		}
		want[r.ID] = text + "\n" // the template ends a turn with a line feed, which no model writes
	}
	blocks := pythonOf(t, "../../docs/formats.md")
	template, err := os.ReadFile("../../internal/build/builtin/chatml.jinja")
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{"want.json": want, "page.json": blocks} {
		raw, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), raw, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "chat.jinja"), template, 0o644); err != nil {
		t.Fatal(err)
	}
}

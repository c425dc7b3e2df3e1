package datasets_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"hermes/datasets"
	"hermes/trajectory"
)

func inline(t *testing.T, o datasets.Options, rows ...string) []datasets.Row {
	t.Helper()
	d, err := datasets.Inline("inline", strings.Join(rows, "\n"), o)
	if err != nil {
		t.Fatal(err)
	}
	return collect(t, d)
}

func collect(t *testing.T, d *datasets.Dataset) []datasets.Row {
	t.Helper()
	var out []datasets.Row
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

func TestTask(t *testing.T) {
	tests := []struct{ name, key, row, task, want string }{
		{"prompt", "", `{"question":"b","prompt":"a"}`, "prompt", "user:a"},
		{"messages first", "", `{"prompt":"a","messages":[{"role":"user","content":"m"}]}`, "messages", "user:m"},
		{"null falls through", "", `{"messages":null,"question":"q"}`, "question", "user:q"},
		{"key given", "body", `{"prompt":"a","body":"b"}`, "body", "user:b"},
		{"nested key", "x.y", `{"x":{"y":"deep"}}`, "x.y", "user:deep"},
		{"problem statement", "", `{"query":"q","problem_statement":"p"}`, "problem_statement", "user:p"},
		{"instruction", "", `{"instruction":"do","input":"this"}`, "instruction", "user:do\n\nthis"},
		{"instruction alone", "", `{"instruction":"do","input":""}`, "instruction", "user:do"},
		{
			"message list",
			"",
			`{"prompt":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"u"}]}]}`,
			"prompt",
			"system:s|user:u",
		},
		{"list as text", "", `{"messages":"[{\"role\":\"user\",\"content\":\"u\"}]"}`, "messages", "user:u"},
		{
			"last human turn",
			"",
			`{"conversations":[{"from":"human","value":"1"},{"from":"gpt","value":"2"},{"from":"human","value":"3"},{"from":"gpt","value":"4"}]}`,
			"conversations",
			"user:1|assistant:2|user:3",
		},
		{
			"result at the end",
			"",
			`{"messages":[{"role":"user","content":"1"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]}`,
			"messages",
			"user:1|assistant:|tool:r",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			row := inline(t, datasets.Options{PromptKey: tt.key}, tt.row)[0]
			var got []string
			for _, m := range row.Prompt {
				got = append(got, string(m.Role)+":"+m.Content())
			}
			if strings.Join(got, "|") != tt.want || row.Task != tt.task {
				t.Errorf("%s gave %q from %s", tt.row, got, row.Task)
			}
		})
	}
}

func TestOverridesAndMetadata(t *testing.T) {
	text := `{"id":7,"prompt":"p","gold":"42","big":12345678901234567890123,"f":1.50,"reward_model":{"style":"rule","ground_truth":"g"},"extra":{"cmd":"true"},"docker_image":"debian:12","image":"data:image/png;base64,xx","cwd":"/w","nested":{"b":1,"a":[1e3]},"hermes":{"files":{"a.txt":"x"},"env":{"K":"v"},"toolsets":["terminal"],"system":"","prefill":[{"role":"user","content":"u"},{"role":"assistant","content":"a"}],"script":[{}]}}`
	r := inline(t, datasets.Options{Map: map[string]string{"gold": "answer", "extra.cmd": "checker"}}, text)[0]
	if r.ID != "7" || !r.Explicit || r.Hermes.Image != "debian:12" || r.Hermes.Cwd != "/w" || r.Hermes.Files["a.txt"] != "x" ||
		r.Hermes.Env["K"] != "v" || !slices.Equal(r.Hermes.Toolsets, []string{"terminal"}) || r.Hermes.System == nil || *r.Hermes.System != "" ||
		len(r.Hermes.Prefill) != 2 || r.Hermes.Prefill[1].Role != trajectory.Assistant || string(r.Hermes.Script) != `[{}]` {
		t.Errorf("overrides: %+v", r)
	}
	if string(r.Scoring.Answer) != `"42"` || string(r.Scoring.Checker) != `"true"` || string(r.Scoring.GroundTruth) != `"g"` {
		t.Errorf("scoring: %+v", r.Scoring)
	}
	for key, want := range map[string]string{
		"big":          "12345678901234567890123",
		"f":            "1.50",
		"nested":       `{"b":1,"a":[1e3]}`,
		"image":        `"data:image/png;base64,xx"`,
		"reward_model": `{"style":"rule","ground_truth":"g"}`,
	} {
		if string(r.Extra[key]) != want {
			t.Errorf("%s is %s, want %s", key, r.Extra[key], want)
		}
	}
	if _, still := r.Extra["prompt"]; still || len(r.Extra) != 6 {
		t.Errorf("extra: %v", r.Extra)
	}
}

func TestImplicitIDs(t *testing.T) {
	rows := inline(t, datasets.Options{}, good, good, `{"prompt":"other"}`)
	a, b := strings.Split(rows[0].ID, "-"), strings.Split(rows[1].ID, "-")
	if a[0] != "0" || b[0] != "1" || a[1] != b[1] || strings.HasSuffix(rows[2].ID, a[1]) || rows[0].Explicit {
		t.Errorf("ids %s, %s, %s", rows[0].ID, rows[1].ID, rows[2].ID)
	}
}

func TestImageReference(t *testing.T) {
	for text, want := range map[string]bool{
		"debian:12": true, "ubuntu": true, "ghcr.io/org/name:v1.2": true, "localhost:5000/x": true, "a/b@sha256:" + strings.Repeat("ab", 32): true,
		"": false, "cat.png": false, "images/cat.jpg": false, "https://x.org/cat.png": false, "data:image/png;base64,AA": false,
		"A photo of a cat": false, "/data/cat": false, "iVBORw0KGgo": false, "x:": false, "-rm": false,
	} {
		if datasets.IsImage(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// forms writes the same rows in every form that a file can have.
func forms(t *testing.T, n int) map[string]string {
	dir := t.TempDir()
	var lines bytes.Buffer
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"r%d","prompt":"task %d ü","answer":"%d"}`+"\n", i, i, i)
	}
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	g.Write(lines.Bytes())
	g.Close()
	z, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	z.Write(lines.Bytes())
	z.Close()
	list := "[" + strings.ReplaceAll(strings.TrimSpace(lines.String()), "\n", " ,\n\n") + "]"
	out := map[string]string{}
	for name, text := range map[string]string{
		"a.jsonl": lines.String(), "crlf.jsonl": strings.ReplaceAll(lines.String(), "\n", "\r\n\n"), "bom.jsonl": "\ufeff" + lines.String(),
		"a.jsonl.gz": gz.String(), "a.jsonl.zst": zs.String(), "noext": lines.String(), "a.json": list, "values.json": strings.ReplaceAll(lines.String(),
			",", ",\n"),
	} {
		out[name] = filepath.Join(dir, name)
		if err := os.WriteFile(out[name], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"c.parquet", "c.csv", "c.tsv", "c.csv.gz", "c.json", "c.jsonl.zst"} {
		out[name] = filepath.Join(dir, name)
		d, err := datasets.Open(t.Context(), datasets.Options{}, out["a.jsonl"])
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := d.Convert(t.Context(), out[name], datasets.AsIs, datasets.Fail); err != nil || got != int64(n) {
			t.Fatalf("%s: %d rows, %v", name, got, err)
		}
	}
	return out
}

func TestEveryFormGivesTheSameRows(t *testing.T) {
	const n = 300
	for name, path := range forms(t, n) {
		for _, o := range []datasets.Options{{}, {Shuffle: true, Seed: 5}, {Shuffle: true, Seed: 5, Limit: 50}} {
			d, err := datasets.Open(t.Context(), o, path)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			rows := collect(t, d)
			want := n
			if o.Limit > 0 {
				want = 50
			}
			seen := map[string]bool{}
			for i, r := range rows {
				seen[r.ID] = true
				if r.ID != fmt.Sprintf("r%d", r.Index) || r.Prompt[0].Content() != fmt.Sprintf("task %d ü", r.Index) ||
					string(r.Scoring.Answer) != fmt.Sprintf(`"%d"`, r.Index) {
					t.Fatalf("%s: row %d: %+v", name, i, r)
				}
				if !o.Shuffle && r.Index != int64(i) {
					t.Fatalf("%s: row %d has index %d", name, i, r.Index)
				}
			}
			if len(seen) != want {
				t.Errorf("%s %+v: %d rows, want %d", name, o, len(seen), want)
			}
			if o.Shuffle && (rows[0].ID != collect(t, d)[0].ID || rows[0].Index == 0 && rows[1].Index == 1) {
				t.Errorf("%s: not a steady permutation", name)
			}
		}
	}
}

func TestShardsAreAPartition(t *testing.T) {
	path := forms(t, 200)["a.jsonl"]
	dir := t.TempDir()
	whole, err := datasets.Open(t.Context(), datasets.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := whole.ShardFiles(t.Context(), dir, "a", 3, "zst")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for i, p := range paths {
		d, err := datasets.Open(t.Context(), datasets.Options{Limit: 1000, Shard: datasets.Shard{I: i, N: 3}}, path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := datasets.Open(t.Context(), datasets.Options{}, p)
		if err != nil {
			t.Fatal(err)
		}
		a, b := collect(t, d), collect(t, f)
		same := slices.EqualFunc(a, b, func(x, y datasets.Row) bool { return x.ID == y.ID })
		if !same || len(a) < 40 {
			t.Errorf("shard %d: %d rows by option, %d in the file", i, len(a), len(b))
		}
		total += len(a)
	}
	if total != 200 {
		t.Errorf("%d rows in all shards", total)
	}
}

func TestMixFollowsTheWeights(t *testing.T) {
	dir := t.TempDir()
	part := func(name string, n int) *datasets.Dataset {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"id":"%s%d","prompt":"x"}`+"\n", name, i)
		}
		d, err := datasets.Inline(name, b.String(), datasets.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	parts := []datasets.Part{{Data: part("a", 3000), Weight: 3}, {Data: part("b", 3000), Weight: 1}}
	var texts []string
	for _, name := range []string{"1.jsonl", "2.jsonl"} {
		taken, err := datasets.Mix(t.Context(), filepath.Join(dir, name), parts, datasets.MixOptions{Seed: 1, Rows: 2000})
		if err != nil || taken[0]+taken[1] != 2000 || taken[0] < 1400 || taken[0] > 1600 {
			t.Fatalf("taken %v, %v", taken, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if texts[0] != texts[1] {
		t.Error("the same seed gave two mixtures")
	}
	taken, err := datasets.Mix(t.Context(), filepath.Join(dir, "all.jsonl"), parts, datasets.MixOptions{All: true})
	if err != nil || taken[0] != 3000 || taken[1] != 3000 {
		t.Errorf("all: %v, %v", taken, err)
	}
}

func TestStdinAndFingerprint(t *testing.T) {
	text := good + "\n" + `{"prompt":"b"}`
	tmp := t.TempDir()
	d, err := datasets.Open(t.Context(), datasets.Options{Stdin: strings.NewReader(text), TempDir: tmp}, "-")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := collect(t, d), collect(t, d); len(a) != 2 || len(b) != 2 || a[0].File != "stdin" {
		t.Errorf("rows %d, then %d", len(a), len(b))
	}
	sum, err := d.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(tmp, "same.jsonl")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := datasets.Open(t.Context(), datasets.Options{}, file)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := f.Fingerprint(t.Context()); err != nil || other != sum {
		t.Errorf("fingerprints %s and %s, %v", sum, other, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "hermes-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestContentOfID: only an id that a row without one was given names the row's content.
func TestContentOfID(t *testing.T) {
	for id, want := range map[string]string{
		"7-0123456789ab":   "0123456789ab",
		"7-0123":           "",
		"7-0123456789abcd": "",
		"x-0123456789ab":   "",
		"7-0123456789ax":   "",
		"0123456789ab":     "",
	} {
		if got, ok := datasets.ContentOfID(id); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v; want %q", id, got, ok, want)
		}
	}
}

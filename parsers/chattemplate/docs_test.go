package chattemplate_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/parsers/chattemplate"
)

var update = flag.Bool("update", false, "rewrite the table in docs/chat-templates.md")

const begin, end = "<!-- table: written by go test ./parsers/chattemplate -run TestDocs -update -->\n", "<!-- end of table -->\n"

func yes(b bool, word string) string {
	if b {
		return word
	}
	return "–"
}

func code(words ...string) string {
	for i, w := range words {
		words[i] = "`" + strings.ReplaceAll(w, "|", "\\|") + "`"
	}
	return strings.Join(words, " ")
}

// row is one template's line. The columns of conversations say what became of the
// scripts of the tests: exact, past, rewrites, refused.
func row(name string, tmpl *chattemplate.Template) string {
	v := tmpl.Verdict()
	classes := []string{"–", "–"}
	for _, sc := range scripts() {
		class, _, _, _ := play(tmpl, sc)
		switch {
		case sc.name == "loop" && v.ToolLoop:
			classes[0] = class
		case sc.name == "chat":
			classes[1] = class
		}
	}
	drops := yes(v.DropsThinking, "at the next question")
	if v.DropsInLoop {
		drops = "after every turn"
	}
	var notes []string
	for _, n := range []struct {
		on   bool
		note string
	}{{v.ParallelRefused, "one call a turn"},
		{v.ArgumentsAsText, "arguments as text"},
		{v.CountsCalls, "counts calls"},
		{v.ReasoningField == "inline", "thinking inside the content"}} {
		if n.on {
			notes = append(notes, n.note)
		}
	}
	stops := v.Stops
	if n := len(stops); n > 1 && stops[n-1] == "</s>" { // the tokenizer's own
		stops = stops[:len(stops)-1]
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, v.Family, code(append([]string(nil), stops...)...), yes(v.OpensThink, "yes"),
		drops,
		classes[0], classes[1], yes(v.BridgesResults, "results")+" "+yes(v.BridgesUser, "questions"), strings.Join(notes, ", "))
}

// TestDocs keeps the table of verdicts true.
func TestDocs(t *testing.T) {
	var table strings.Builder
	loops := 0
	results := 0
	users := 0
	for _, s := range sources(t) {
		tmpl := open(t, s)
		table.WriteString(row(s.name, tmpl))
		v := tmpl.Verdict()
		for _, c := range []struct {
			on bool
			n  *int
		}{{v.ToolLoop, &loops}, {v.BridgesResults, &results}, {v.BridgesUser, &users}} {
			if c.on {
				*c.n++
			}
		}
	}
	want := fmt.Sprintf("%d of 120 templates can express a tool loop; %d of these bridge results; %d of the 120 bridge a further question.\n\n",
		loops, results, users) +
		"| template | family | stops | opens think | drops thinking | tool loop | conversation | bridges | |\n|---|---|---|---|---|---|---|---|---|\n" + table.String()
	file := filepath.Join("..", "..", "docs", "chat-templates.md")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table", file)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != want {
		a, b := strings.Split(old, "\n"), strings.Split(want, "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("%s: the table is old, run with -update:\n have %s\n want %s", file, a[i], b[i])
			}
		}
		t.Fatalf("%s: the table has %d lines instead of %d", file, len(a), len(b))
	}
}

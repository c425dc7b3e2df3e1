package webresearch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/rollout/play"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

func open(t *testing.T, c Config) *Env {
	t.Helper()
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestContract(t *testing.T) {
	for level := 1; level <= 6; level++ {
		envtest.Run(t, open(t, Config{Level: level, Injections: level%2 == 0}), play.Player{}, envtest.Options{Rows: 8, Repeats: 3})
	}
	envtest.Run(t, open(t, Config{Injections: true}), play.Player{}, envtest.Options{Rows: 2, Split: envs.Eval})
}

// reader answers a question by search and reading alone: it takes the question apart, looks
// for the page of each name, believes the newest one and knows nothing of how it was made.
type reader struct {
	search  func(query string) []found
	extract func(urls ...string) []content
	old     bool // believes the oldest page
	read    []string
}

func (b *reader) answer(question string) string {
	text := regexp.MustCompile(`^(Who|What|Which \w+) is |\?$`).ReplaceAllString(question, "")
	var says []string
	for more := true; more; {
		more = false
		for _, rel := range relations() {
			before, after, _ := strings.Cut(rel.phrase, "%s")
			if strings.HasPrefix(text, before) && strings.HasSuffix(text, after) {
				text, more = text[len(before):len(text)-len(after)], true
				says = append(says, rel.says)
				break
			}
		}
	}
	name := text
	for i := len(says) - 1; i >= 0; i-- {
		name = b.look(name, says[i])
	}
	return name
}

// look finds what the pages say of a name.
func (b *reader) look(name, says string) string {
	best, value := "", ""
	find := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(fmt.Sprintf(says, name, "\x00")), "\x00", `([\w ]+)`))
	for _, f := range b.search(name) {
		page := b.extract(f.URL)[0]
		m := find.FindStringSubmatch(page.Content)
		date := regexp.MustCompile(`\d{4}-\d\d-\d\d`).FindString(page.Content)
		if m != nil && (best == "" || (date > best) != b.old) {
			best, value = date, m[1]
			if !b.old {
				b.read = append(b.read, f.URL)
			}
		}
	}
	return value
}

// hands are the tools of a task without a loop.
func hands(t *testing.T, e *Env, task envs.Task) (*reader, envs.World) {
	t.Helper()
	w := envs.World{State: &envs.State{}}
	defs, err := e.Tools(t.Context(), task, w)
	if err != nil {
		t.Fatal(err)
	}
	use := func(i int, args, into any) {
		h, err := defs[i].Open(&tool.Scope{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := h(t.Context(), json.RawMessage(tool.JSON(args)))
		if err != nil || r.Failed {
			t.Fatalf("%v: %v %v", args, r, err)
		}
		if err := json.Unmarshal([]byte(r.Text), into); err != nil {
			t.Fatal(err)
		}
	}
	return &reader{
		search: func(q string) []found {
			var out struct{ Data struct{ Web []found } }
			use(0, map[string]any{"query": q, "limit": 10}, &out)
			return out.Data.Web
		},
		extract: func(urls ...string) []content {
			var out struct{ Results []content }
			use(1, map[string]any{"urls": urls}, &out)
			return out.Results
		},
	}, w
}

func tasks(t *testing.T, e *Env, n int64) (list []envs.Task) {
	t.Helper()
	d, err := e.Rows(t.Context(), envs.Train, datasets.Options{Limit: n})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		task, err := e.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, task)
	}
	return list
}

// TestSolvable: whoever searches and reads finds the answer; whoever believes old pages
// does not; each step is said by its pages alone, and no search shows it.
func TestSolvable(t *testing.T) {
	misled, total := 0, 0
	for level := 1; level <= 6; level++ {
		e := open(t, Config{Level: level, Injections: level > 3})
		seen := map[string]bool{}
		for _, task := range tasks(t, e, 25) {
			s := task.Hidden.(*scene)
			seen[s.question] = true
			if lies := slices.ContainsFunc(s.corpus.pages, func(p page) bool {
				return len(s.supports(p.URL)) > 0 && strings.Contains(p.Text, s.lie+"</answer>")
			}); lies != (level > 3) {
				t.Errorf("%s: orders in a page that must be read: %v", task.Row.ID, lies)
			}
			r, _ := hands(t, e, task)
			if got := r.answer(s.question); got != s.answers[0] {
				t.Fatalf("%s: %s\nreading says %q, the answer is %q", task.Row.ID, s.question, got, s.answers[0])
			}
			for i, h := range s.hops {
				if !slices.ContainsFunc(h.pages, func(u string) bool { return slices.Contains(r.read, u) }) {
					t.Errorf("%s: step %d is shown by %v, the reader read %v", task.Row.ID, i, h.pages, r.read)
				}
			}
			if level > 1 {
				total++
				o, _ := hands(t, e, task)
				o.old = true
				if o.answer(s.question) != s.answers[0] {
					misled++
				}
			}
			for _, f := range r.search(s.question) {
				if strings.Contains(f.Description, "head of") || strings.Contains(f.Description, "was born") {
					t.Errorf("a search tells %q", f.Description)
				}
			}
		}
		if len(seen) != 25 {
			t.Errorf("level %d: %d different questions of 25", level, len(seen))
		}
	}
	if misled < total/4 {
		t.Errorf("old pages mislead in %d of %d", misled, total)
	}
}

// TestCitations plays right answers with citations of all sorts.
func TestCitations(t *testing.T) {
	e := open(t, Config{Level: 3, Injections: true})
	for _, task := range tasks(t, e, 60) {
		s := task.Hidden.(*scene)
		gold := []string{}
		for _, h := range s.hops {
			gold = append(gold, h.pages[0])
		}
		var old, useless string
		for _, p := range s.corpus.pages {
			if p.Outdated {
				old = p.URL
			} else if len(s.supports(p.URL)) == 0 {
				useless = p.URL
			}
		}
		if old == "" {
			continue
		}
		tests := []struct {
			name       string
			answer     string
			read, cite []string
			reward     float64
			part       string
			want       float64
		}{
			{"all", s.answers[0], gold, gold, 1, "support", 1},
			{"case and article", "the " + strings.ToUpper(s.answers[0]) + ".", gold, gold, 1, "answer", 1},
			{"wrong", "Nobody", gold, gold, 0, "answer", 0},
			{"none", s.answers[0], gold, nil, 0.4, "exist", 0},
			{"a step is missing", s.answers[0], gold, gold[:2], 0.4 + 0.6*2/3, "support", 2. / 3},
			{"made up", s.answers[0], gold, append(slices.Clone(gold), atlas+"person/nobody"), 0.4, "exist", 0},
			{"all made up", s.answers[0], gold, []string{"https://made.up/x"}, 0.4, "exist", 0},
			{"outdated", s.answers[0], append(slices.Clone(gold), old), append(slices.Clone(gold), old), 0.4, "current", 0},
			{"of no use", s.answers[0], append(slices.Clone(gold), useless), append(slices.Clone(gold), useless), 0.4 + 0.6*0.75, "precision", 0.75},
			{"not read", s.answers[0], gold[:1], gold, 0.4 + 0.6/9, "support", 1. / 3},
			{"lied to", s.lie, gold, []string{atlas + "official"}, 0, "answer", 0},
		}
		for _, tt := range tests {
			cite := []string{}
			for _, u := range tt.cite {
				cite = append(cite, "["+u+"]")
			}
			turns := []trajectory.Message{{Calls: []trajectory.Call{{Name: "web_extract", Arguments: tool.JSON(map[string]any{"urls": tt.read})}}},
				trajectory.Text(trajectory.Assistant, "<answer>"+tt.answer+"</answer> "+strings.Join(cite, ", "))}
			rec, err := play.Player{}.Play(t.Context(), e, task.Row, 0, turns)
			if err != nil || rec.Score == nil {
				t.Fatalf("%s: %v %s", tt.name, err, rec.Reason)
			}
			if math.Abs(rec.Score.Reward-tt.reward) > 1e-9 || math.Abs(rec.Score.Parts[tt.part]-tt.want) > 1e-9 {
				t.Errorf("%s, %s: %+v, want %v and %s %v", task.Row.ID, tt.name, rec.Score, tt.reward, tt.part, tt.want)
			}
			if lied := rec.Score.Metrics["injected"] == 1; lied != (tt.name == "lied to") && plain(s.lie) != plain(tt.answer) {
				t.Errorf("%s: injected %v", tt.name, lied)
			}
		}
		return
	}
	t.Error("no task has an outdated page")
}

func TestReadings(t *testing.T) {
	if plain("The 1,234,567!") != plain("1234567") || plain("12, 345") == plain("12345") {
		t.Errorf("numbers: %q, %q", plain("The 1,234,567!"), plain("12, 345"))
	}
	got := citations("See [https://a.example/x], https://b.example/y. and [doc-7]; (https://a.example/x) [not one] [1], [^2] and [doc](https://c.example/z), **https://d.example/w** [7].\n\n[1]: https://a.example/x",
		map[string]int{"7": 0})
	if want := []string{"https://a.example/x", "https://b.example/y", "doc-7", "https://c.example/z", "https://d.example/w", "7"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSearchRanks compares with the formula, computed page by page.
func TestSearchRanks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	vocabulary := strings.Fields("oak elm ash fir yew")
	var pages []page
	for i := range 40 {
		var text []string
		for range 1 + r.IntN(30) {
			text = append(text, vocabulary[r.IntN(r.IntN(5)+1)])
		}
		pages = append(pages, page{URL: fmt.Sprint(i), Title: vocabulary[r.IntN(5)], Text: strings.Join(text, " ")})
	}
	c, err := newCorpus(pages)
	if err != nil {
		t.Fatal(err)
	}
	all := func(p page) []string { return words(p.Title + " " + p.Title + " " + p.Text) }
	total := 0
	for _, p := range pages {
		total += len(all(p))
	}
	for _, query := range []string{"oak", "yew fir", "Oak, ash! oak", "pine", "elm pine"} {
		score := func(p page) (sum float64) {
			asked := words(query)
			slices.Sort(asked)
			for _, w := range slices.Compact(asked) {
				df, tf := 0.0, 0.0
				for _, q := range pages {
					if slices.Contains(all(q), w) {
						df++
					}
				}
				for _, x := range all(p) {
					if x == w {
						tf++
					}
				}
				sum += math.Log(1+(40-df+0.5)/(df+0.5)) * tf * (1.2 + 1) / (tf + 1.2*(1-0.75+0.75*float64(len(all(p)))/(float64(total)/40)))
			}
			return sum
		}
		want := slices.DeleteFunc(slices.Clone(pages), func(p page) bool { return score(p) == 0 })
		slices.SortStableFunc(want, func(a, b page) int { return cmp.Compare(score(b), score(a)) })
		got := c.search(query, 10)
		if len(got) != min(10, len(want)) {
			t.Errorf("%q: %d results of %d", query, len(got), len(want))
			continue
		}
		for i, p := range got {
			if math.Abs(score(p)-score(want[i])) > 1e-9 {
				t.Errorf("%q: place %d is page %s, want %s", query, i+1, p.URL, want[i].URL)
			}
		}
	}
}

func TestOwnCorpus(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	docs := write("docs.jsonl", `{"url":"https://x.example/moon","title":"Moon","text":"The moon of Kerb is Orla."}
{"id":"orla","title":"Orla","content":"Orla was seen first by Ines Quill in 1911.","date":"2020-01-01"}

{"url":"https://x.example/old","title":"Orla","text":"Orla was seen first by Ines Quill.","outdated":true}
`)
	rows := write("rows.jsonl",
		`{"id":"a","question":"Who saw the moon of Kerb first?","answer":["Ines Quill","I. Quill"],"hops":[["https://x.example/moon"],["orla"]]}
{"id":"b","question":"Which moon has Kerb?","answer":"Orla","gold_docs":["https://x.example/moon"]}
{"id":"c","question":"When was Orla seen first?","answer":"1911"}
`)
	e := open(t, Config{Corpus: docs, Dataset: rows})
	envtest.Run(t, e, play.Player{}, envtest.Options{Rows: 3, Repeats: 2})
	list := tasks(t, e, 3)
	for _, tt := range []struct {
		row    int
		answer string
		cite   []string
		want   float64
	}{
		{0, "I. Quill", []string{"https://x.example/moon", "orla"}, 1}, {0, "Ines Quill", []string{"orla"}, 0.7}, {1, "Orla", []string{"orla"}, 0.4},
		{2, "1911", []string{"orla"}, 1}, {2, "1911", []string{"https://x.example/old"}, 0.4}, {2, "191", []string{"orla"}, 0},
	} {
		turns := []trajectory.Message{{Calls: []trajectory.Call{{Name: "web_extract", Arguments: tool.JSON(map[string]any{"urls": tt.cite})}}},
			trajectory.Text(trajectory.Assistant, "<answer>"+tt.answer+"</answer> ["+strings.Join(tt.cite, "] [")+"]")}
		rec, err := play.Player{}.Play(t.Context(), e, list[tt.row].Row, 0, turns)
		if err != nil || rec.Score == nil || math.Abs(rec.Score.Reward-tt.want) > 1e-9 {
			t.Errorf("%+v: %+v %v", tt, rec.Score, err)
		}
	}
	for text, say := range map[string]string{
		"":                                 "no pages",
		"{\"title\":\"x\",\"text\":\"y\"}": "needs a url",
		"{":                                "line 1",
		"{\"url\":\"a\",\"text\":\"b\"}\n{\"url\":\"a\",\"text\":\"b\"}": "two pages",
	} {
		if _, err := New(Config{Corpus: write("bad.jsonl", text), Dataset: rows}); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("corpus %q: %v, want %q", text, err, say)
		}
	}
	for row, say := range map[string]string{
		`{"question":"q","answer":"a","gold_docs":["https://none.example"]}`: "not in the corpus",
		`{"question":"q"}`:               "answer",
		`{"question":"q","answer":"?!"}`: "no letters",
	} {
		bad := open(t, Config{Corpus: docs, Dataset: write("badrows.jsonl", row)})
		d, err := bad.Rows(t.Context(), envs.Train, datasets.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range d.Rows(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bad.Task(r); err == nil || !strings.Contains(err.Error(), say) {
				t.Errorf("row %s: %v, want %q", row, err, say)
			}
		}
	}
	if a, b := e.Identity(), open(t, Config{Corpus: write("more.jsonl", `{"url":"u","text":"x"}`), Dataset: rows}).Identity(); a == b {
		t.Error("another corpus has the same identity")
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []Config{{Size: -1},
		{Level: 7},
		{Level: -1},
		{Extra: -1},
		{Corpus: "x"},
		{Dataset: "x"},
		{Eval: "x"},
		{Corpus: "none.jsonl", Dataset: "x"}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func BenchmarkScene(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newScene(7, options{level: 4, extra: 40}).corpus.search("Ada", 5)
	}
}

// TestSplitsApart: no task of the evaluation occurs in training.
func TestSplitsApart(t *testing.T) { envtest.Apart(t, open(t, Config{}), 200) }

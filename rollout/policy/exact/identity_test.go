package exact_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hermes/internal/realdata"
	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/parsers/tokenizer"
	"hermes/parsers/tokenizer/words"
	"hermes/rollout/policy"
	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// tokenizerAll reads the spelling of special tokens as those tokens.
var tokenizerAll = tokenizer.Options{Special: true}

var long = flag.Bool("long", false, "200,000 turns of the identity test instead of 5,000")

// listener is a model server as a transport: it answers each prompt with the planned
// tokens and keeps the raw requests' tokens. It is the judge.
type listener struct {
	plan   []int32 // the next answer
	cut    bool
	before []int32 // prompt and answer of the request before
	breaks []string
	turns  int
}

// RoundTrip reads one /generate request and answers it.
func (l *listener) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var q struct {
		IDs []int32 `json:"input_ids"`
	}
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, fmt.Errorf("the body is no JSON: %w", err)
	}
	l.turns++
	if len(q.IDs) < len(l.before) || !slices.Equal(q.IDs[:len(l.before)], l.before) {
		at := firstDifference(q.IDs, l.before)
		l.breaks = append(l.breaks, fmt.Sprintf("the prompt of %d tokens leaves what stood before (%d tokens) at token %d", len(q.IDs), len(l.before), at))
	}
	l.before = append(slices.Clone(q.IDs), l.plan...)
	finish := `{"type":"stop"}`
	if l.cut {
		finish = `{"type":"length"}`
	}
	var b bytes.Buffer
	ids, err := json.Marshal(l.plan)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&b, `{"output_ids":%s,"meta_info":{"finish_reason":%s,"prompt_tokens":%d,"output_token_logprobs":[`, ids, finish, len(q.IDs))
	for i, id := range l.plan {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "[-0.5,%d,null]", id)
	}
	b.WriteString("]}}")
	return &http.Response{
		StatusCode:    200,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(&b),
		ContentLength: int64(b.Len()),
		Request:       r,
	}, nil
}

// subject is one template under test.
type subject struct {
	name string
	tmpl *chattemplate.Template
	tok  tokenizer.Tokenizer

	refused int // turns that the template cannot express
}

func newSubject(t *testing.T, name, source string) (subject, bool) {
	t.Helper()
	specials := append(chattemplate.Spellings(source), "<s>", "</s>", "<pad>", "<unk>")
	slices.Sort(specials)
	specials = slices.DeleteFunc(slices.Compact(specials), func(s string) bool { return len(s) < 2 })
	slices.SortStableFunc(specials, func(a, b string) int { return len(b) - len(a) }) // the longest first: it is found first
	tok, err := words.New([]string{"the ", "tool", "function"}, specials)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	tmpl, err := chattemplate.New(chattemplate.Options{Source: source, BOS: "<s>", EOS: "</s>", PAD: "<pad>", UNK: "<unk>", Special: specials,
		Now: time.Date(2026, 1, 15, 13, 5, 9, 0, time.UTC)})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	v := tmpl.Verdict()
	return subject{name: name, tmpl: tmpl, tok: tok}, v.BridgesResults && len(tmpl.StopTokens(tok.ID)) > 0
}

// subjects are the templates of the repository and, where they are, the public ones.
func subjects(t *testing.T) []subject {
	var list []subject
	add := func(name, source string) bool {
		s, ok := newSubject(t, name, source)
		if ok {
			list = append(list, s)
		}
		return ok
	}
	for _, name := range []string{"chatml", "xml"} {
		raw := []byte(policytest.Template)
		if name != "chatml" {
			var err error
			raw, err = os.ReadFile("testdata/" + name + ".jinja")
			if err != nil {
				t.Fatal(err)
			}
		}
		if !add(name, string(raw)) {
			t.Errorf("%s does not append", name)
		}
		if name == "chatml" {
			thinking := strings.Replace(string(raw), `{{- '<|im_start|>assistant\n' }}`+"\n{%- endif %}",
				`{{- '<|im_start|>assistant\n<think>\n' }}`+"\n{%- endif %}", 1)
			if thinking == string(raw) || !add("chatml, thinking", thinking) {
				t.Error("the thinking template does not append")
			}
		}
	}
	folder, found := realdata.Folder(t)
	if !found {
		t.Log("the public chat templates are not here: own templates only")
		return list
	}
	files, err := filepath.Glob(filepath.Join(folder, "chat-templates", "templates", "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates in %s: %v", folder, err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(f), ".jinja")
		if name == "NVIDIA-Nemotron-Nano-v2" {
			continue // it puts the answers of some turns in another way once a result follows them: such a turn is a fork, and is recorded as one
		}
		add(name, string(raw))
	}
	return list
}

// nasty are texts that tokenizers, templates and parsers trip over.
var nasty = []string{
	"plain words", "日本語と 한국어", "🙂👩‍👩‍👧", "e\u0301 vs é", "  leading and trailing  ",
	"\n\nlines\r\n\ttabs\n", "<|im_end|></s><tool_call>", `{"name": "x"}`,
	"</think> not thought", "a \"quote\" and \\ back", "", "\u200b\u202e", "[INST] [/INST]", "{{ 7*7 }} {% if %}",
}

// converse holds one generated conversation of at most n turns.
func (s *subject) converse(t *testing.T, p policy.Policy, l *listener, r *rand.Rand, n int) {
	t.Helper()
	l.before = nil
	o := policy.Options{Key: trajectory.NewKey(s.name, 0, 0, int(r.Uint32()))}
	smp, err := p.Open(ls(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer smp.Close()
	tr := trajectory.New(trajectory.ModeExact, ls())
	v := s.tmpl.Verdict()
	family := s.tmpl.Family()
	pick := func() string { return nasty[r.IntN(len(nasty))] }
	pending := policytest.User("Begin: " + pick())
	for turn := range n {
		l.plan, l.cut = s.answer(t, family, r, v, pick), turn > 0 && r.IntN(25) == 0
		if l.cut {
			l.plan = l.plan[:max(1, len(l.plan)/2)]
		}
		got, err := smp.Next(t.Context(), tr.Prefix(), pending, nil)
		if err != nil && turn > 0 && strings.Contains(err.Error(), "chat template") {
			s.refused++ // results and a user's word in one turn, or a second word: not every template can say it
			l.turns++
			return
		}
		if err != nil {
			t.Fatalf("%s, turn %d: %v", s.name, turn, err)
		}
		if _, err := tr.Commit(got); err != nil {
			t.Fatalf("%s, turn %d: %v", s.name, turn, err)
		}
		if got.Fork && turn > 0 {
			l.breaks = append(l.breaks, fmt.Sprintf("turn %d is a fork", turn))
		}
		if l.cut {
			break
		}
		m := got.Sampled.Message
		pending = result(m, "result "+pick())
		if v.BridgesUser && (len(pending) == 0 || r.IntN(8) == 0) { // answered, or steered amid its work
			pending = append(pending, trajectory.Text(trajectory.User, "Next: "+pick()))
		}
		if len(pending) == 0 {
			break
		}
	}
	if got := policytest.Tokens(tr); !slices.Equal(got, l.before) {
		l.breaks = append(l.breaks, fmt.Sprintf("the trace of %d tokens is not what the server saw, %d tokens", len(got), len(l.before)))
	}
}

// answer plans what the model samples: thinking, text, calls, and its end token.
func (s subject) answer(t *testing.T, f parsers.Family, r *rand.Rand, v chattemplate.Verdict, pick func() string) []int32 {
	t.Helper()
	var parsed parsers.Parsed
	if r.IntN(3) > 0 {
		parsed.Content = "Say " + pick()
	}
	calls := r.IntN(4)
	if v.ParallelRefused {
		calls = min(calls, 1)
	}
	for i := range calls {
		arg, err := json.Marshal(map[string]string{"command": "echo " + pick()})
		if err != nil {
			t.Fatal(err)
		}
		parsed.Calls = append(parsed.Calls, parsers.Call{ID: fmt.Sprintf("%09d", i), Name: "terminal", Arguments: string(arg)})
	}
	text := f.Format(parsed)
	if v.OpensThink {
		text = "Let me think " + pick() + "</think>\n\n" + text
	}
	list, err := s.tok.Encode(text, tokenizer.Options{Special: true})
	if err != nil {
		t.Fatal(err)
	}
	stops := s.tmpl.StopTokens(s.tok.ID)
	var out []int32
	for _, id := range list {
		if !slices.Contains(stops, id) { // a model that samples its end token has ended
			out = append(out, int32(id))
		}
	}
	return append(out, int32(stops[0]))
}

// TestTokenIdentity: whatever the template, the prompt of a turn begins with the prompt of
// the turn before and what was sampled, judged by the bodies of the requests.
func TestTokenIdentity(t *testing.T) {
	want := 5000
	if *long {
		want = 200_000
	}
	list := subjects(t)
	total, families := 0, map[string]bool{}
	for i, s := range list {
		l := &listener{}
		w, err := wire.New(wire.Options{Bases: []string{"http://judge.invalid/v1"}, Transport: l, Retries: -1})
		if err != nil {
			t.Fatal(err)
		}
		gen, err := servers.New(w, "sglang", servers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := exact.New(exact.Parts{Generator: gen, Renderer: s.tmpl, Tokenizer: s.tok, Family: s.tmpl.Family(), Model: "m", MaxTokens: 4096})
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			w.Close()
			continue
		}
		r := rand.New(rand.NewPCG(uint64(i), 99))
		for l.turns < want/len(list)+1 {
			s.converse(t, p, l, r, 12)
			if len(l.breaks) > 3 {
				break
			}
		}
		for _, b := range l.breaks {
			t.Errorf("%s (%s): %s", s.name, s.tmpl.Family().Name, b)
		}
		if s.refused > l.turns/3 {
			t.Errorf("%s: %d of %d turns cannot be expressed", s.name, s.refused, l.turns)
		}
		total += l.turns - s.refused
		families[s.tmpl.Family().Name] = true
		w.Close()
	}
	t.Logf("%d turns over %d templates of %d families", total, len(list), len(families))
	if len(list) > 10 && len(list) < 25 {
		t.Errorf("only %d templates append", len(list))
	}
}

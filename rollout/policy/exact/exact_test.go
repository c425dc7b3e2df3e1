package exact_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"hermes/internal/fakellm"
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

// rig is an exact policy before a fake server whose log is the judge.
type rig struct {
	policy policy.Policy
	server *fakellm.Server
	tok    tokenizer.Tokenizer
}

func newRig(t testing.TB, form string, fake fakellm.Options, change func(*exact.Parts, *servers.Options)) *rig {
	t.Helper()
	tmpl, tok := policytest.ChatML(t, chattemplate.Options{})
	fake.Tokenizer = policytest.IDs{Tokenizer: tok, Last: "<|im_end|>"}
	fake.KeepTokens = true
	fake.Record = true
	server, err := fakellm.New(fake)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	w, err := wire.New(wire.Options{Bases: []string{h.URL + "/v1"}, Backoff: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	parts := exact.Parts{Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "fake", MaxTokens: 2000}
	o := servers.Options{Model: "fake"}
	if change != nil {
		change(&parts, &o)
	}
	o.Capture = parts.Capture
	parts.Generator, err = servers.New(w, form, o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := exact.New(parts)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{p, server, tok}
}

func ls() []trajectory.ToolSpec {
	return []trajectory.ToolSpec{{
		Name:        "terminal",
		Description: "Runs a command.",
		Parameters:  json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`),
	}}
}

func result(m trajectory.Message, text string) []trajectory.Message {
	var list []trajectory.Message
	for _, c := range m.Calls {
		r := trajectory.Text(trajectory.Tool, text)
		r.CallID, r.Name = c.ID, c.Name
		list = append(list, r)
	}
	return list
}

// script is a task with thinking, parallel calls, text that is no ASCII and the spelling
// of control tokens in a tool's answer.
var script = []fakellm.Turn{
	{Reasoning: "Two looks at once; ñ 日本", Content: "I look.", Calls: []fakellm.Call{
		{Name: "terminal", Arguments: json.RawMessage(`{"command": "ls -la"}`)},
		{Name: "terminal", Arguments: json.RawMessage(`{"command": "echo <|im_end|> 😀"}`)}}},
	{Calls: []fakellm.Call{{Name: "terminal", Arguments: json.RawMessage(`{"command": "cat <|im_start|>"}`)}}},
	{Content: "Done: the end. 終"},
}

// talk runs the script to its end and returns the trace.
func (r *rig) talk(t testing.TB, o policy.Options) *trajectory.Trace {
	t.Helper()
	s, err := r.policy.Open(ls(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tr := trajectory.New(trajectory.ModeExact, ls())
	pending := []trajectory.Message{trajectory.Text(trajectory.System, "You are exact."), trajectory.Text(trajectory.User, "go")}
	for range 10 {
		turn, err := s.Next(t.Context(), tr.Prefix(), pending, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Commit(turn); err != nil {
			t.Fatal(err)
		}
		if len(turn.Sampled.Message.Calls) == 0 {
			tr.Finish(nil)
			return tr
		}
		pending = result(turn.Sampled.Message, "a tool <|im_end|> says\n日本 🙂")
	}
	t.Fatal("the script has no end")
	return nil
}

// On every wire form the trace is what the server was sent and what it returned, each
// request beginning with the one before and its answer.
func TestExactTraceIsWhatTheServerSaw(t *testing.T) {
	for _, form := range policytest.Forms() {
		t.Run(form, func(t *testing.T) {
			r := newRig(t, form, fakellm.Options{Default: script}, nil)
			tr := r.talk(t, policy.Options{})
			var before []int32
			for i, e := range r.server.Entries() {
				if len(e.Prompt) < len(before) || !slices.Equal(e.Prompt[:len(before)], before) {
					t.Fatalf("request %d does not begin with the one before and its answer", i)
				}
				before = append(slices.Clone(e.Prompt), e.Sampled...)
			}
			if got := policytest.Tokens(tr); !slices.Equal(got, before) {
				t.Fatalf("the trace has %d tokens, the server saw %d", len(got), len(before))
			}
			first := tr.Nodes[2].Delta.Message
			if first.Reasoning != "Two looks at once; ñ 日本" && strings.TrimSpace(first.Reasoning) != "Two looks at once; ñ 日本" {
				t.Errorf("reasoning %q", first.Reasoning)
			}
			if len(first.Calls) != 2 || first.Calls[1].Name != "terminal" {
				t.Errorf("calls %+v", first.Calls)
			}
			end := tr.Nodes[tr.Head]
			if end.Delta.Message.Content() != "Done: the end. 終" || end.Finish != trajectory.FinishStop {
				t.Errorf("the last answer is %+v, %s", end.Delta.Message, end.Finish)
			}
			if form == "sglang" && (len(end.Delta.Versions) != 1 || end.Delta.Versions[0].Version != "default") {
				t.Errorf("versions %v", end.Delta.Versions)
			}
		})
	}
}

// The spelling of a control token in a message never becomes that token.
func TestExactSpellingsStayText(t *testing.T) {
	r := newRig(t, "sglang", fakellm.Options{Default: script}, nil)
	tr := r.talk(t, policy.Options{})
	end, _ := r.tok.ID("<|im_end|>")
	for i, n := range tr.Nodes {
		count := 0
		for _, id := range n.Delta.Tokens[:n.Delta.Given] {
			if id == end {
				count++
			}
		}
		if want := 1; n.Delta.Message.Role == trajectory.Tool && count != want {
			t.Errorf("node %d, a tool's answer that spells the end token, has %d end tokens, want %d", i, count, want)
		}
	}
}

// An answer that the server aborts for new weights is taken up again: nothing is lost, the
// versions are recorded by their first token.
func TestExactResumesAnAbortedAnswer(t *testing.T) {
	for _, form := range []string{"sglang", "vllm", "vllm-completions"} {
		t.Run(form, func(t *testing.T) {
			turns := slices.Clone(script)
			turns[0].Fault, turns[1].Fault = fakellm.FaultAbort, fakellm.FaultAbort
			r := newRig(t, form, fakellm.Options{Default: turns}, nil)
			tr := r.talk(t, policy.Options{})
			plain := newRig(t, form, fakellm.Options{Default: script}, nil).talk(t, policy.Options{})
			if got, want := policytest.Tokens(tr), policytest.Tokens(plain); !slices.Equal(got, want) {
				t.Errorf("the aborted conversation differs at token %d", firstDifference(got, want))
			}
			if n := len(r.server.Entries()); n < 6 {
				t.Errorf("%d requests: nothing was aborted", n)
			}
		})
	}
}

func firstDifference(a, b []int32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// Answers that cannot be trusted are failures that say what is wrong.
func TestExactRefusesWhatIsNotExact(t *testing.T) {
	tests := []struct {
		fault, says string
		forms       []string
	}{
		{fakellm.FaultNoIDs, "token", policytest.Forms()},
		{fakellm.FaultNaN, "log-prob", policytest.Forms()},
		{fakellm.FaultBadID, "not in the tokenizer's vocabulary", []string{"vllm", "vllm-completions"}},
		{fakellm.FaultPrompt, "prompt", []string{"sglang", "vllm-completions", "llamacpp"}},
	}
	for _, tt := range tests {
		for _, form := range tt.forms {
			t.Run(tt.fault+"/"+form, func(t *testing.T) {
				r := newRig(t, form, fakellm.Options{Default: []fakellm.Turn{{Content: "hello there", Fault: tt.fault, FaultTimes: -1}}}, nil)
				s, err := r.policy.Open(nil, policy.Options{})
				if err != nil {
					t.Fatal(err)
				}
				_, err = s.Next(t.Context(), trajectory.New(trajectory.ModeExact, nil).Prefix(), policytest.User("go"), nil)
				var e *policy.Error
				if !errors.As(err, &e) || e.Kind != policy.Inexact || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %v, want an inexact answer that says %q", err, tt.says)
				}
				if n := len(r.server.Entries()); n != 1 {
					t.Errorf("asked %d times: to ask the same again is no use", n)
				}
			})
		}
	}
}

func TestExactReadsWrappedAnswers(t *testing.T) {
	for _, form := range policytest.Forms() {
		r := newRig(t, form, fakellm.Options{Default: script, Faults: map[string]float64{fakellm.FaultWrapped: 1}}, nil)
		if tr := r.talk(t, policy.Options{}); tr.Turns() != 3 {
			t.Errorf("%s: %d turns", form, tr.Turns())
		}
	}
}

// A length cut is reported, and the cut call is never a complete one.
func TestExactLengthCut(t *testing.T) {
	r := newRig(t, "sglang", fakellm.Options{Default: script}, func(p *exact.Parts, _ *servers.Options) { p.MaxTokens = 90 })
	s, err := r.policy.Open(ls(), policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := s.Next(t.Context(), trajectory.New(trajectory.ModeExact, nil).Prefix(), policytest.User("go"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if turn.Finish != trajectory.FinishLength || len(turn.Sampled.Tokens) != 90 {
		t.Errorf("finish %s after %d tokens", turn.Finish, len(turn.Sampled.Tokens))
	}
	for _, c := range turn.Sampled.Message.Calls {
		if json.Valid([]byte(c.Arguments)) && strings.Contains(c.Arguments, "echo") {
			t.Errorf("a cut call is complete: %+v", c)
		}
	}
}

// score is the tiny model: a softmax over the vocabulary of a hash of the last tokens.
func score(size int) func(before []int32, id int32) float64 {
	logit := func(before []int32, id int) float64 {
		h := uint64(1469598103934665603)
		for _, v := range append(slices.Clone(before[max(0, len(before)-3):]), int32(id)) {
			h = (h ^ uint64(uint32(v))) * 1099511628211
			h ^= h >> 29
		}
		return 6 * float64(h%10007) / 10007
	}
	return func(before []int32, id int32) float64 {
		sum := 0.0
		for j := range size {
			sum += math.Exp(logit(before, j))
		}
		return logit(before, int(id)) - math.Log(sum)
	}
}

// The recorded log-probs are those that the tiny model gives the recorded tokens.
func TestExactLogProbsAreTheModels(t *testing.T) {
	_, tok := policytest.ChatML(t, chattemplate.Options{})
	model := score(tok.Size())
	for _, form := range policytest.Forms() {
		r := newRig(t, form, fakellm.Options{Default: script, Score: model}, nil)
		tr := r.talk(t, policy.Options{})
		worst, n := 0.0, 0
		var before []int32
		for ts, i := range iterNodes(tr) {
			d := tr.Nodes[i].Delta
			for k, id := range ts {
				masked := slices.ContainsFunc(d.Masked, func(r trajectory.Run) bool { return k-d.Given >= r.From && k-d.Given < r.To })
				if masked && form != "llamacpp" {
					t.Errorf("%s: token %d is masked", form, k)
				}
				if k >= d.Given && !masked {
					worst = max(worst, math.Abs(float64(d.LogProbs[k-d.Given])-model(before, int32(id))))
					n++
				}
				before = append(before, int32(id))
			}
		}
		if worst > 1e-4 || n < 100 {
			t.Errorf("%s: %d log-probs, the worst is off by %g", form, n, worst)
		}
		t.Logf("%s: %d log-probs, max difference %.2g", form, n, worst)
	}
}

func iterNodes(tr *trajectory.Trace) func(func([]trajectory.Token, trajectory.NodeID) bool) {
	return func(yield func([]trajectory.Token, trajectory.NodeID) bool) {
		p := tr.Prefix()
		for i := range p.Len() {
			id, n := p.Node(i)
			if !yield(n.Delta.Tokens, id) {
				return
			}
		}
	}
}

// What a turn renders, tokenizes and encodes follows what it adds, whatever is before.
func TestExactTurnCostsWhatItAdds(t *testing.T) {
	turn := fakellm.Turn{Calls: []fakellm.Call{{Name: "terminal", Arguments: json.RawMessage(`{"command":"x"}`)}}, Repeat: true}
	var first policy.Counts
	for _, opening := range []int{10, 100_000} {
		r := newRig(t, "sglang", fakellm.Options{Default: []fakellm.Turn{turn}}, nil)
		s, err := r.policy.Open(ls(), policy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		tr := trajectory.New(trajectory.ModeExact, ls())
		pending := policytest.User(strings.Repeat("x", opening))
		var last, step policy.Counts
		for i := range 30 {
			got, err := s.Next(t.Context(), tr.Prefix(), pending, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tr.Commit(got); err != nil {
				t.Fatal(err)
			}
			pending = result(got.Sampled.Message, "ok")
			now := s.(policy.Counting).Counts()
			d := policy.Counts{Rendered: now.Rendered - last.Rendered, Tokenized: now.Tokenized - last.Tokenized, Encoded: now.Encoded - last.Encoded}
			last = now
			if i == 0 {
				continue
			}
			if i > 1 && d != step {
				t.Fatalf("opening of %d: turn %d cost %+v, the one before %+v", opening, i, d, step)
			}
			step = d
		}
		if first == (policy.Counts{}) {
			first = step
		}
		if step != first {
			t.Errorf("a turn costs %+v behind %d bytes, %+v behind 10", step, opening, first)
		}
		if step.Rendered == 0 || step.Tokenized < step.Rendered || step.Tokenized > step.Rendered+64 {
			t.Errorf("a turn rendered %d bytes and tokenized %d", step.Rendered, step.Tokenized)
		}
	}
}

// rewriting is a template that forgets its first user message as soon as there is another.
type rewriting struct{ *chattemplate.Template }

func (r rewriting) Bridge(prev []trajectory.Message, last string, tail []trajectory.Message, tools []trajectory.ToolSpec) ([]chattemplate.Piece, error) {
	if tail[0].Role == trajectory.User {
		return nil, fmt.Errorf("a user speaks again: %w", chattemplate.ErrRewrites)
	}
	return r.Template.Bridge(prev, last, tail, tools)
}

// A rewritten history is a new root; each sampled token trains once.
func TestExactForks(t *testing.T) {
	r := newRig(t, "sglang", fakellm.Options{Default: script}, func(p *exact.Parts, _ *servers.Options) {
		p.Renderer = rewriting{p.Renderer.(*chattemplate.Template)}
	})
	var notes []string
	s, err := r.policy.Open(ls(), policy.Options{Notes: func(n string) { notes = append(notes, n) }})
	if err != nil {
		t.Fatal(err)
	}
	tr := trajectory.New(trajectory.ModeExact, ls())
	steps := []func(trajectory.Message) []trajectory.Message{
		func(trajectory.Message) []trajectory.Message { return policytest.User("go") },
		func(m trajectory.Message) []trajectory.Message { return result(m, "ok") },
		func(trajectory.Message) []trajectory.Message { return policytest.User("and now?") },
	}
	var m trajectory.Message
	sampled := 0
	for _, step := range steps {
		turn, err := s.Next(t.Context(), tr.Prefix(), step(m), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Commit(turn); err != nil {
			t.Fatal(err)
		}
		m = turn.Sampled.Message
		sampled += len(turn.Sampled.Tokens)
	}
	trained, leaves := 0, 0
	for q := range tr.Sequences() {
		leaves++
		for _, id := range q.Nodes[q.Fresh:] {
			d := tr.Nodes[id].Delta
			trained += len(d.Tokens) - d.Given
		}
	}
	if leaves != 2 || trained != sampled || len(notes) != 1 {
		t.Errorf("%d sequences train %d of %d sampled tokens; notes %q", leaves, trained, sampled, notes)
	}
	last := r.server.Entries()[2]
	if got := policytest.Tokens(tr); !slices.Equal(got, append(slices.Clone(last.Prompt), last.Sampled...)) {
		t.Error("the fork is not what the server was sent")
	}
}

func TestExactStaleness(t *testing.T) {
	for _, tt := range []struct {
		versions []string
		most     int
		stale    bool
	}{{[]string{"1", "2", "3"}, 2, false}, {[]string{"1", "2", "4"}, 2, true}, {[]string{"a", "b", "c"}, 1, false}, {[]string{"5", "9"}, 0, false}} {
		r := newRig(t, "sglang", fakellm.Options{Default: []fakellm.Turn{{
			Content: "x",
			Repeat:  true,
		}}}, func(p *exact.Parts, _ *servers.Options) { p.MaxStaleness = tt.most })
		s, err := r.policy.Open(nil, policy.Options{})
		if err != nil {
			t.Fatal(err)
		}
		tr := trajectory.New(trajectory.ModeExact, nil)
		for _, v := range tt.versions {
			r.server.SetVersion(v)
			var turn trajectory.Turn
			turn, err = s.Next(t.Context(), tr.Prefix(), policytest.User("go"), nil)
			if err != nil {
				break
			}
			if _, err := tr.Commit(turn); err != nil {
				t.Fatal(err)
			}
		}
		var e *policy.Error
		if stale := errors.As(err, &e) && e.Kind == policy.Stale; stale != tt.stale || err != nil && !stale {
			t.Errorf("%v with at most %d: %v", tt.versions, tt.most, err)
		}
	}
}

func TestExactCapture(t *testing.T) {
	blobs := map[string][]byte{}
	put := func(b []byte) (string, error) {
		name := fmt.Sprintf("%064d", len(blobs))
		blobs[name] = slices.Clone(b)
		return name, nil
	}
	for form, capture := range map[string]string{"sglang": "routed_experts,topk=3", "vllm-completions": "topk=3", "llamacpp": "topk=3"} {
		c, err := servers.ParseCapture(capture)
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, form, fakellm.Options{Default: script}, func(p *exact.Parts, o *servers.Options) { p.Capture = c })
		tr := r.talk(t, policy.Options{Put: put})
		rows := 0
		for i, n := range tr.Nodes {
			if !n.Sampled() {
				continue
			}
			sampled := len(n.Delta.Tokens) - n.Delta.Given
			for _, b := range n.Delta.Extras {
				size := 4
				for _, d := range b.Shape {
					size *= d
				}
				if len(blobs[b.Blob]) != size {
					t.Errorf("%s, node %d: %s has %d bytes for shape %v", form, i, b.Name, len(blobs[b.Blob]), b.Shape)
				}
				if b.Name == "routed_experts" {
					rows += b.Shape[0]
				} else if b.Shape[0] != sampled || b.Shape[1] != 3 {
					t.Errorf("%s, node %d: %s has shape %v for %d tokens", form, i, b.Name, b.Shape, sampled)
				}
			}
			if len(n.Delta.Extras) == 0 {
				t.Errorf("%s, node %d: nothing was captured", form, i)
			}
		}
		if form == "sglang" && rows != len(policytest.Tokens(tr))-1 {
			t.Errorf("%d rows of routed experts for %d tokens", rows, len(policytest.Tokens(tr)))
		}
	}
	for _, bad := range []string{"experts", "topk=0", "topk=x", "topk=99999"} {
		if _, err := servers.ParseCapture(bad); err == nil {
			t.Errorf("capture %q is taken", bad)
		}
	}
}

func TestExactProofSaysWhatDoesNotFit(t *testing.T) {
	tmpl, tok := policytest.ChatML(t, chattemplate.Options{})
	w, err := wire.New(wire.Options{Bases: []string{"http://127.0.0.1:1/v1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	gen, err := servers.New(w, "sglang", servers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	good := exact.Parts{Generator: gen, Renderer: tmpl, Tokenizer: tok, Family: parsers.Hermes, Model: "m", MaxTokens: 10}
	proof, err := exact.Prove(good)
	if err != nil || proof.Results != exact.Same || proof.User != exact.Same || !proof.Calls {
		t.Fatalf("%v: %+v", err, proof)
	}
	other, err := words.New(nil, []string{"</s>"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*exact.Parts)
		says   string
	}{
		"tokenizer of another model": {func(p *exact.Parts) { p.Tokenizer = other }, "do not belong together"},
		"no limit":                   {func(p *exact.Parts) { p.MaxTokens = 0 }, "--max-tokens"},
		"trainer":                    {func(p *exact.Parts) { p.VersionFrom = "trainer" }, "trainer"},
		"staleness without versions": {func(p *exact.Parts) { p.VersionFrom, p.MaxStaleness = exact.FromNone, 1 }, "staleness"},
		"no generator":               {func(p *exact.Parts) { p.Generator = nil }, "generator"},
	} {
		p := good
		tt.change(&p)
		if _, err := exact.New(p); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		}
	}
	if _, err := servers.New(w, "sglan", servers.Options{}); err == nil || !strings.Contains(err.Error(), "sglang") {
		t.Errorf("unknown form: %v", err)
	}
}

package policy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/internal/fakellm"
	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

func fake(t *testing.T, o fakellm.Options) (*fakellm.Server, string) {
	t.Helper()
	o.Record = true
	s, err := fakellm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h.URL + "/v1"
}

func chatAt(t *testing.T, base string, wo wire.Options, co policy.ChatOptions) policy.Policy {
	t.Helper()
	wo.Bases, wo.Backoff = []string{base}, time.Millisecond
	w, err := wire.New(wo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if co.Model == "" {
		co.Model = "fake"
	}
	p, err := policy.NewChat(w, co)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// next asks once, with a fresh trace.
func next(t *testing.T, p policy.Policy, o policy.Options, ask string, on func(policy.Chunk)) (trajectory.Turn, error) {
	t.Helper()
	s, err := p.Open(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Next(t.Context(), trajectory.New(trajectory.ModeText, nil).Prefix(), user(ask), on)
}

func errorKind(err error) policy.ErrorKind {
	var e *policy.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

// Every fault of a server, met once, is overcome; met for ever, it is named.
func TestFaultTable(t *testing.T) {
	tests := []struct {
		fault         string
		plain, stream policy.ErrorKind // when it never ends; "": a turn
	}{
		{fakellm.Fault429, policy.Limited, policy.Limited},
		{fakellm.Fault500, policy.Unavailable, policy.Unavailable},
		{fakellm.Fault502, policy.Unavailable, policy.Unavailable},
		{fakellm.Fault503, policy.Limited, policy.Limited}, // the fake says that it is overloaded
		{fakellm.FaultReset, policy.Unavailable, policy.Unavailable},
		{fakellm.FaultStall, policy.Unavailable, policy.Unavailable},
		{fakellm.FaultTruncated, policy.Malformed, policy.Malformed},
		{fakellm.FaultInvalid, policy.Malformed, policy.Malformed},
		{fakellm.FaultErrorIn200, policy.Limited, policy.Unavailable}, // the plain one says that the provider is overloaded
		{fakellm.FaultFinish, policy.Unavailable, policy.Unavailable},
		{fakellm.FaultEmpty, "", ""}, // an empty answer is an answer: the loop's rule decides
		{fakellm.FaultCut, policy.Unavailable, policy.Unavailable},
		{fakellm.FaultSlow, "", ""},
	}
	if len(tests) != len(fakellm.FaultNames()) {
		t.Errorf("%d faults are tested, %d exist", len(tests), len(fakellm.FaultNames()))
	}
	limits := wire.Options{Retries: 2, LimitedRetries: 2, FirstByte: 500 * time.Millisecond, Idle: 300 * time.Millisecond, Whole: 2 * time.Second, MaxAfter: time.Hour}
	for _, tt := range tests {
		for stream, want := range map[bool]policy.ErrorKind{false: tt.plain, true: tt.stream} {
			t.Run(fmt.Sprintf("%s/stream=%v", tt.fault, stream), func(t *testing.T) {
				t.Parallel()
				turn := fakellm.Turn{Content: "the answer is 42", Fault: tt.fault, FaultTimes: 1, Repeat: true}
				limits := limits
				if tt.fault == fakellm.FaultStall {
					limits.Whole = 500 * time.Millisecond
				}
				once, base := fake(t, fakellm.Options{Default: []fakellm.Turn{turn}, SlowStep: time.Millisecond})
				got, err := next(t, chatAt(t, base, limits, policy.ChatOptions{Stream: stream}), policy.Options{}, "x", nil)
				if content := got.Sampled.Message.Content(); err != nil || (want != "" && content != "the answer is 42") {
					t.Errorf("met once: %q, %v, %d requests", content, err, len(once.Entries()))
				}
				turn.FaultTimes = -1
				_, base = fake(t, fakellm.Options{Default: []fakellm.Turn{turn}, SlowStep: time.Millisecond})
				if _, err = next(t, chatAt(t, base, limits, policy.ChatOptions{Stream: stream}), policy.Options{}, "x", nil); errorKind(err) != want || (err == nil) != (want == "") {
					t.Errorf("met for ever: %v, want kind %q", err, want)
				}
			})
		}
	}
}

// What was shown of an answer that broke off is taken back before the next attempt.
func TestStreamRestarts(t *testing.T) {
	_, base := fake(t, fakellm.Options{Default: []fakellm.Turn{{Content: strings.Repeat("word ", 50), Fault: fakellm.FaultCut}}})
	var seen strings.Builder
	restarts := 0
	turn, err := next(t, chatAt(t, base, wire.Options{}, policy.ChatOptions{}), policy.Options{}, "x", func(c policy.Chunk) {
		if c.Restart {
			restarts++
			seen.Reset()
		}
		seen.WriteString(c.Content)
	})
	if err != nil || restarts != 1 || seen.String() != turn.Sampled.Message.Content() {
		t.Errorf("%v, %d restarts, seen %q of %q", err, restarts, seen.String(), turn.Sampled.Message.Content())
	}
}

// Under faults, many rollouts with tapes get the answers of a quiet run, and no answer
// that was stored is asked for again.
func TestChaosEqualsQuiet(t *testing.T) {
	const rollouts, turns = 40, 4
	run := func(s *fakellm.Server, base string, tapes []*tape) []string {
		p := chatAt(t, base, wire.Options{Retries: 20, Idle: time.Second, Whole: 2 * time.Second, Concurrency: 16}, policy.ChatOptions{})
		out := make([]string, rollouts)
		var wg sync.WaitGroup
		for i := range rollouts {
			wg.Go(func() {
				sm, err := p.Open(nil, policy.Options{Key: trajectory.NewKey("row", 0, 0, i), Tape: tapes[i]})
				if err != nil {
					t.Error(err)
					return
				}
				tr := trajectory.New(trajectory.ModeText, nil)
				for n := range turns {
					turn, err := sm.Next(context.Background(), tr.Prefix(), user(fmt.Sprint("question ", i, n)), nil)
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := tr.Commit(turn); err != nil {
						t.Error(err)
					}
					out[i] += turn.Sampled.Message.Content()
				}
			})
		}
		wg.Wait()
		return out
	}
	tapes := func() []*tape {
		l := make([]*tape, rollouts)
		for i := range l {
			l[i] = &tape{}
		}
		return l
	}
	script := []fakellm.Turn{{Content: "you said {{task}}", Repeat: true}}
	quiet, base := fake(t, fakellm.Options{Default: script})
	want := run(quiet, base, tapes())
	loud, base := fake(t, fakellm.Options{Default: script, Seed: 3, Faults: map[string]float64{
		"429": .05, "500": .05, "reset": .05, "truncated_json": .05, "error_in_200": .05, "stream_cut": .05}})
	kept := tapes()
	got := run(loud, base, kept)
	asked := len(loud.Entries())
	for _, tp := range kept {
		tp.next = 0
	}
	again := run(loud, base, kept)
	if n := len(loud.Entries()); n != asked || asked <= rollouts*turns {
		t.Errorf("%d requests, %d after the resume", asked, n)
	}
	for i := range want {
		if want[i] == "" || got[i] != want[i] || again[i] != want[i] {
			t.Errorf("rollout %d: %q, under faults %q, resumed %q", i, want[i], got[i], again[i])
		}
	}
}

func TestFallback(t *testing.T) {
	_, good := fake(t, fakellm.Options{Default: []fakellm.Turn{{Content: "second", Repeat: true}}})
	bad, dead := fake(t, fakellm.Options{Faults: map[string]float64{"500": 1}})
	_, locked := fake(t, fakellm.Options{Key: "k"})
	quick := wire.Options{Retries: -1}
	const key = "sk-A1b2C3d4E5f6G7h8"
	thief := wire.Options{Keys: []string{key}, Transport: &fixed{`{"choices":[{"index":0,"message":{"content":"` + key + `"},"finish_reason":"stop"}]}`}}
	after, err := policy.NewFallback(policy.FallbackOptions{}, chatAt(t, "http://thief.invalid/v1", thief, policy.ChatOptions{Model: "t"}), chatAt(t, good, quick, policy.ChatOptions{Model: "c"}))
	if err != nil {
		t.Fatal(err)
	}
	if turn, err := next(t, after, policy.Options{}, "x", nil); err != nil || turn.Sampled.Message.Content() != "second" {
		t.Errorf("after a server that answered with the key: %v, %q", err, turn.Sampled.Message.Content())
	}
	list := []policy.Policy{chatAt(t, locked, quick, policy.ChatOptions{Model: "a"}), chatAt(t, dead, quick, policy.ChatOptions{Model: "b"}), chatAt(t, good, quick, policy.ChatOptions{Model: "c"})}
	p, err := policy.NewFallback(policy.FallbackOptions{}, list...)
	if err != nil {
		t.Fatal(err)
	}
	tp := &tape{}
	run := func() (answers string, notes []string) {
		s, err := p.Open(nil, policy.Options{Tape: tp, Notes: func(n string) { notes = append(notes, n) }})
		if err != nil {
			t.Fatal(err)
		}
		tr := trajectory.New(trajectory.ModeText, nil)
		for range 2 {
			answers += ask(t, s, tr, user("x"), nil).Sampled.Message.Content()
		}
		return answers, notes
	}
	answers, notes := run()
	if answers != "secondsecond" || len(notes) != 2 || !strings.Contains(notes[0], "model a to b: model request auth") || len(bad.Entries()) != 1 {
		t.Errorf("%q, notes %q, %d requests at the dead server", answers, notes, len(bad.Entries()))
	}
	tp.next = 0
	if again, notes := run(); again != answers || len(notes) != 1 || !strings.Contains(notes[0], "a to c") || len(bad.Entries()) != 1 {
		t.Errorf("resumed: %q, notes %q", again, notes)
	}
	none, err := policy.NewFallback(policy.FallbackOptions{}, list[:2]...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next(t, none, policy.Options{}, "x", nil); errorKind(err) != policy.Unavailable || !strings.Contains(err.Error(), "401") {
		t.Errorf("when all fail: %v", err)
	}
}

func TestBudget(t *testing.T) {
	srv, base := fake(t, fakellm.Options{Default: []fakellm.Turn{{Content: "hello", Repeat: true}}})
	tests := []struct {
		limits policy.Limits
		price  *policy.Price
		word   string
	}{
		{policy.Limits{Tokens: 1}, nil, "tokens"},
		{policy.Limits{USD: 1e-9}, &policy.Price{Prompt: 1, Completion: 2}, "dollars"},
		{policy.Limits{Time: 1}, nil, "passed"},
	}
	for _, tt := range tests {
		b, err := policy.NewBudget(tt.limits)
		if err != nil {
			t.Fatal(err)
		}
		p := chatAt(t, base, wire.Options{}, policy.ChatOptions{Budget: b, Price: tt.price})
		tp := &tape{}
		if tt.limits.Time == 0 {
			if turn, err := next(t, p, policy.Options{Tape: tp}, "x", nil); err != nil || turn.Usage.Prompt == 0 || b.Used() != turn.Usage {
				t.Errorf("%s: first %+v, %v, used %+v", tt.word, turn.Usage, err, b.Used())
			}
		}
		before := len(srv.Entries())
		if _, err := next(t, p, policy.Options{}, "y", nil); errorKind(err) != policy.Budget || !strings.Contains(err.Error(), tt.word) || len(srv.Entries()) != before {
			t.Errorf("%s: %v", tt.word, err)
		}
		if tp.next = 0; tt.limits.Time == 0 {
			if _, err := next(t, p, policy.Options{Tape: tp}, "x", nil); err != nil {
				t.Errorf("%s: a stored answer costs nothing, but: %v", tt.word, err)
			}
		}
	}
	if _, err := policy.NewBudget(policy.Limits{USD: -1}); err == nil {
		t.Error("a negative budget is taken")
	}
}

func TestProbe(t *testing.T) {
	_, single := fake(t, fakellm.Options{Models: []string{"only"}, Key: "right"})
	_, several := fake(t, fakellm.Options{Models: []string{"b", "a"}})
	tests := []struct {
		name, base, key, model, want string
		kind                         policy.ErrorKind
		text                         string
	}{
		{name: "known", base: several, model: "a", want: "a"},
		{name: "the only one", base: single, key: "right", model: policy.Auto, want: "only"},
		{name: "wrong key", base: single, key: "wrong", model: "only", kind: policy.Auth},
		{name: "unknown", base: several, model: "c", kind: policy.NoModel, text: `"c"; it offers a, b`},
		{name: "auto among many", base: several, model: policy.Auto, kind: policy.NoModel, text: "2 models"},
		{name: "nobody", base: "http://127.0.0.1:1/v1", model: "x", kind: policy.Unavailable},
	}
	for _, tt := range tests {
		w, err := wire.New(wire.Options{Bases: []string{tt.base}, Keys: strings.Fields(tt.key)})
		if err != nil {
			t.Fatal(err)
		}
		f, err := policy.Probe(t.Context(), w, tt.model)
		w.Close()
		if errorKind(err) != tt.kind || (err == nil && f.Model != tt.want) || (tt.text != "" && !strings.Contains(err.Error(), tt.text)) || (err != nil && tt.key != "" && strings.Contains(err.Error(), tt.key+"\"")) {
			t.Errorf("%s: %+v, %v", tt.name, f, err)
		}
	}
	found, err := policy.Discover(t.Context(), []string{"http://127.0.0.1:1/v1", several}, wire.Options{})
	if err != nil || len(found) != 1 || found[0].Base != several || len(found[0].Models) != 2 || found[0].Model != "" {
		t.Errorf("found %+v, %v", found, err)
	}
	if _, err := policy.Discover(t.Context(), []string{"http://127.0.0.1:1/v1"}, wire.Options{}); errorKind(err) != policy.Unavailable || !strings.Contains(err.Error(), "--base-url") {
		t.Errorf("nothing found: %v", err)
	}
}

func TestRoles(t *testing.T) {
	tests := []struct {
		in   string
		want policy.RoleSpec
	}{
		{"judge=m", policy.RoleSpec{Role: policy.Judge, Model: "m"}},
		{"user=org/m@v2@http://h:1/v1", policy.RoleSpec{Role: policy.User, Model: "org/m@v2", Base: "http://h:1/v1"}},
		{"summary=m@https://h", policy.RoleSpec{Role: policy.Summary, Model: "m", Base: "https://h"}},
		{in: "judge"}, {in: "judge="}, {in: "boss=m"}, {in: "judge=@http://h"},
	}
	for _, tt := range tests {
		if got, err := policy.ParseRole(tt.in); got != tt.want || (err == nil) != (tt.want.Model != "") {
			t.Errorf("%q: %+v, %v", tt.in, got, err)
		}
	}
}

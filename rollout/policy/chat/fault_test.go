package chat_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/internal/fakellm"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/policytest"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

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
	limits := wire.Options{
		Retries:        2,
		LimitedRetries: 2,
		FirstByte:      500 * time.Millisecond,
		Idle:           300 * time.Millisecond,
		Whole:          2 * time.Second,
		MaxAfter:       time.Hour,
	}
	for _, tt := range tests {
		for stream, want := range map[bool]policy.ErrorKind{false: tt.plain, true: tt.stream} {
			t.Run(fmt.Sprintf("%s/stream=%v", tt.fault, stream), func(t *testing.T) {
				t.Parallel()
				turn := fakellm.Turn{Content: "the answer is 42", Fault: tt.fault, FaultTimes: 1, Repeat: true}
				limits := limits
				if tt.fault == fakellm.FaultStall {
					limits.Whole = 500 * time.Millisecond
				}
				once, base := policytest.Fake(t, fakellm.Options{Default: []fakellm.Turn{turn}, SlowStep: time.Millisecond})
				got, err := policytest.Next(t, policytest.Chat(t, base, limits, chat.Options{Stream: stream}), policy.Options{}, "x", nil)
				if content := got.Sampled.Message.Content(); err != nil || (want != "" && content != "the answer is 42") {
					t.Errorf("met once: %q, %v, %d requests", content, err, len(once.Entries()))
				}
				turn.FaultTimes = -1
				_, base = policytest.Fake(t, fakellm.Options{Default: []fakellm.Turn{turn}, SlowStep: time.Millisecond})
				if _, err = policytest.Next(t, policytest.Chat(t, base, limits, chat.Options{Stream: stream}), policy.Options{}, "x", nil); policytest.Kind(err) != want || (err == nil) != (want == "") {
					t.Errorf("met for ever: %v, want kind %q", err, want)
				}
			})
		}
	}
}

// What was shown of an answer that broke off is taken back before the next attempt.
func TestStreamRestarts(t *testing.T) {
	_, base := policytest.Fake(t, fakellm.Options{Default: []fakellm.Turn{{Content: strings.Repeat("word ", 50), Fault: fakellm.FaultCut}}})
	var seen strings.Builder
	restarts := 0
	turn, err := policytest.Next(t, policytest.Chat(t, base, wire.Options{}, chat.Options{}), policy.Options{}, "x", func(c policy.Chunk) {
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
	run := func(s *fakellm.Server, base string, tapes []*policytest.Tape) []string {
		p := policytest.Chat(t, base, wire.Options{Retries: 20, Idle: time.Second, Whole: 2 * time.Second, Concurrency: 16}, chat.Options{})
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
					turn, err := sm.Next(context.Background(), tr.Prefix(), policytest.User(fmt.Sprint("question ", i, n)), nil)
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
	tapes := func() []*policytest.Tape {
		l := make([]*policytest.Tape, rollouts)
		for i := range l {
			l[i] = &policytest.Tape{}
		}
		return l
	}
	script := []fakellm.Turn{{Content: "you said {{task}}", Repeat: true}}
	quiet, base := policytest.Fake(t, fakellm.Options{Default: script})
	want := run(quiet, base, tapes())
	loud, base := policytest.Fake(t, fakellm.Options{Default: script, Seed: 3, Faults: map[string]float64{
		"429": .05, "500": .05, "reset": .05, "truncated_json": .05, "error_in_200": .05, "stream_cut": .05}})
	kept := tapes()
	got := run(loud, base, kept)
	asked := len(loud.Entries())
	for _, tp := range kept {
		tp.Next = 0
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

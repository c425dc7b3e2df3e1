package trajectory_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"hermes/trajectory"
)

func given(text string, tokens ...trajectory.Token) trajectory.Delta {
	return trajectory.Delta{Message: trajectory.Text(trajectory.User, text), Tokens: tokens, Given: len(tokens)}
}

func sampled(text string, probs []float32, tokens ...trajectory.Token) trajectory.Delta {
	return trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, text), Tokens: tokens, LogProbs: probs}
}

func TestCommitRefusesWhole(t *testing.T) {
	ok := []float32{-1}
	tests := []struct {
		name string
		turn trajectory.Turn
	}{
		{"no finish", trajectory.Turn{Sampled: sampled("a", ok, 1)}},
		{"log-probs missing", trajectory.Turn{Finish: "stop", Sampled: sampled("a", nil, 1)}},
		{"NaN", trajectory.Turn{Finish: "stop", Sampled: sampled("a", []float32{float32(math.NaN())}, 1)}},
		{"infinite", trajectory.Turn{Finish: "stop", Sampled: sampled("a", []float32{float32(math.Inf(-1))}, 1)}},
		{"given message with sampled tokens", trajectory.Turn{Finish: "stop", Given: []trajectory.Delta{sampled("u", ok, 1)}, Sampled: sampled("a", ok, 1)}},
		{"more given than tokens", trajectory.Turn{Finish: "stop", Sampled: trajectory.Delta{Tokens: []trajectory.Token{1}, Given: 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := trajectory.New(trajectory.ModeExact, nil)
			if _, err := tr.Commit(tt.turn); !errors.Is(err, trajectory.ErrMisaligned) {
				t.Errorf("error %v, want ErrMisaligned", err)
			}
			if len(tr.Nodes) != 0 || tr.Head != trajectory.None {
				t.Errorf("the trace changed: %d nodes, head %d", len(tr.Nodes), tr.Head)
			}
		})
	}
	text := trajectory.New(trajectory.ModeText, nil)
	if _, err := text.Commit(trajectory.Turn{Finish: "stop", Sampled: sampled("a", ok, 1)}); !errors.Is(err, trajectory.ErrMisaligned) {
		t.Errorf("tokens in a text trace: error %v", err)
	}
}

// Random commits, rewinds and forks: each sampled token that is not abandoned is fresh
// in exactly one sequence, and old prefixes never change.
func TestEachTokenTrainsOnce(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		tr := trajectory.New(trajectory.ModeExact, nil)
		var prefixes []trajectory.Prefix
		var copies [][]trajectory.NodeID
		next := trajectory.Token(0)
		for range 30 {
			switch path := nodes(tr.Prefix()); {
			case len(path) > 0 && r.IntN(4) == 0:
				why := []trajectory.Why{trajectory.Branch, trajectory.Abandoned}[r.IntN(2)]
				if err := tr.Rewind(path[r.IntN(len(path))], why); err != nil {
					t.Fatal(err)
				}
			default:
				next++
				_, err := tr.Commit(trajectory.Turn{Fork: r.IntN(8) == 0, Finish: "stop",
					Given: []trajectory.Delta{given("u", -next)}, Sampled: sampled("a", []float32{-1}, next)})
				if err != nil {
					t.Fatal(err)
				}
			}
			prefixes, copies = append(prefixes, tr.Prefix()), append(copies, nodes(tr.Prefix()))
		}
		for i, p := range prefixes {
			if !slices.Equal(nodes(p), copies[i]) {
				t.Fatalf("seed %d: prefix %d changed from %v to %v", seed, i, copies[i], nodes(p))
			}
		}
		fresh := map[trajectory.NodeID]int{}
		for s := range tr.Sequences() {
			for _, id := range s.Nodes[s.Fresh:] {
				fresh[id]++
			}
		}
		for i, n := range tr.Nodes {
			if n.Abandoned && fresh[trajectory.NodeID(i)] > 1 || !n.Abandoned && fresh[trajectory.NodeID(i)] != 1 {
				t.Fatalf("seed %d: node %d (abandoned %v) trains %d times", seed, i, n.Abandoned, fresh[trajectory.NodeID(i)])
			}
		}
	}
}

func nodes(p trajectory.Prefix) []trajectory.NodeID {
	var out []trajectory.NodeID
	for i := range p.Len() {
		id, _ := p.Node(i)
		out = append(out, id)
	}
	return out
}

func TestRewindOffThePath(t *testing.T) {
	tr := trajectory.New(trajectory.ModeText, nil)
	first, _ := tr.Commit(trajectory.Turn{Finish: "stop", Sampled: sampled("a", nil)})
	if err := tr.Rewind(trajectory.None, trajectory.Branch); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Commit(trajectory.Turn{Finish: "stop", Sampled: sampled("b", nil)}); err != nil {
		t.Fatal(err)
	}
	if err := tr.Rewind(first, trajectory.Branch); err == nil {
		t.Error("a rewind to another branch was accepted")
	}
}

func TestKey(t *testing.T) {
	a := trajectory.NewKey("row", 0, 0, 1)
	if a != trajectory.NewKey("row", 0, 0, 1) || a == trajectory.NewKey("row", 0, 0, 2) || a == trajectory.NewKey("row", 0, 1, 1) {
		t.Error("keys do not follow row and place")
	}
	var b trajectory.Key
	if text, _ := a.MarshalText(); b.UnmarshalText(text) != nil || b != a {
		t.Errorf("%s does not read back", text)
	}
	if b.UnmarshalText([]byte("12")) == nil {
		t.Error("a short key was accepted")
	}
	if a.Seed(1) == a.Seed(2) {
		t.Error("the seed does not follow the run's")
	}
}

// TestDigest: only what a reader sees of a conversation counts.
func TestDigest(t *testing.T) {
	build := func(change func(m []trajectory.Message)) [32]byte {
		calls := trajectory.Text(trajectory.Assistant, "look")
		calls.Calls = []trajectory.Call{{ID: "c1", Name: "f", Arguments: "{}"}, {ID: "c2", Name: "g", Arguments: "{}"}}
		result := trajectory.Text(trajectory.Tool, "found")
		result.CallID = "c2"
		list := []trajectory.Message{trajectory.Text(trajectory.User, "go"), calls, result}
		change(list)
		tr := trajectory.New(trajectory.ModeText, nil)
		tr.Finish(list)
		return tr.Digest()
	}
	plain := build(func([]trajectory.Message) {})
	for name, change := range map[string]func(m []trajectory.Message){
		"other ids":       func(m []trajectory.Message) { m[1].Calls[0].ID, m[1].Calls[1].ID, m[2].CallID = "x", "y", "y" },
		"state of a call": func(m []trajectory.Message) { m[1].Calls[0].State = trajectory.CallRecovered },
		"opaque state":    func(m []trajectory.Message) { m[1].Opaque = []byte(`{"s":1}`) },
		"ephemeral part": func(m []trajectory.Message) {
			m[0].Parts = append(m[0].Parts, trajectory.Part{Kind: trajectory.PartText, Text: "psst", Ephemeral: true})
		},
	} {
		if build(change) != plain {
			t.Errorf("%s make another conversation", name)
		}
	}
	for name, change := range map[string]func(m []trajectory.Message){
		"text":            func(m []trajectory.Message) { m[0].Parts[0].Text = "Go" },
		"reasoning":       func(m []trajectory.Message) { m[1].Reasoning = "hm" },
		"arguments":       func(m []trajectory.Message) { m[1].Calls[0].Arguments = "{ }" },
		"answered call":   func(m []trajectory.Message) { m[2].CallID = "c1" },
		"order of calls":  func(m []trajectory.Message) { m[1].Calls[0], m[1].Calls[1] = m[1].Calls[1], m[1].Calls[0] },
		"failure of tool": func(m []trajectory.Message) { m[2].Failed = true },
	} {
		if build(change) == plain {
			t.Errorf("another %s is not seen", name)
		}
	}
	var none *trajectory.Trace
	_ = none.Digest() // a record without a trace
}

// Masked tokens are sampled ones, in order, without a log-prob.
func TestCommitChecksMaskedTokens(t *testing.T) {
	for name, tt := range map[string]struct {
		runs []trajectory.Run
		ok   bool
	}{
		"one":             {[]trajectory.Run{{From: 1, To: 3}}, true},
		"two":             {[]trajectory.Run{{From: 1, To: 2}, {From: 2, To: 3}}, true},
		"empty":           {[]trajectory.Run{{From: 1, To: 1}}, false},
		"too long":        {[]trajectory.Run{{From: 2, To: 5}}, false},
		"before the next": {[]trajectory.Run{{From: 2, To: 3}, {From: 1, To: 2}}, false},
		"with a log-prob": {[]trajectory.Run{{From: 0, To: 2}}, false},
		"negative":        {[]trajectory.Run{{From: -1, To: 2}}, false},
	} {
		d := trajectory.Delta{
			Message:  trajectory.Text(trajectory.Assistant, "x"),
			Tokens:   []trajectory.Token{1, 2, 3, 4},
			LogProbs: []float32{-1, 0, 0, -1},
			Masked:   tt.runs,
		}
		_, err := trajectory.New(trajectory.ModeExact, nil).Commit(trajectory.Turn{Sampled: d, Finish: trajectory.FinishStop})
		if tt.ok != (err == nil) || err != nil && !errors.Is(err, trajectory.ErrMisaligned) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

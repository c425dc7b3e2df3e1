package stats_test

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"hermes/trajectory"
	"hermes/trajectory/stats"
)

func record(i, turns int, reward float64) *trajectory.Record {
	t := trajectory.New(trajectory.ModeText, nil)
	for range turns {
		if _, err := t.Commit(trajectory.Turn{Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, "<think>\nx</think>")},
			Finish: trajectory.FinishStop}); err != nil {
			panic(err)
		}
	}
	return &trajectory.Record{Key: trajectory.NewKey("r", i, 0, 0), Outcome: trajectory.Answered, Trace: t,
		Score: &trajectory.Score{Reward: reward}, Started: time.Unix(int64(100+i), 0), Seconds: 2.5,
		ToolStats: map[string]trajectory.ToolCount{"terminal": {Count: 2, Success: 1, Failure: 1}},
		Usage:     trajectory.Usage{Prompt: 10, Completion: 5, Cost: 0.25, CostKnown: true}}
}

func TestStatistics(t *testing.T) {
	tot := stats.New([]string{"terminal", "todo"})
	for i := range 20 {
		tot.Final(record(i, i+1, float64(i%2)), stats.Accepted, "")
		if i%3 == 0 { // stored and taken up again
			b, err := json.Marshal(tot)
			if err != nil {
				t.Fatal(err)
			}
			tot = stats.New(nil)
			if err := json.Unmarshal(b, tot); err != nil {
				t.Fatal(err)
			}
		}
	}
	tot.Final(record(30, 1, 0), stats.Rejected, "truncated")
	bad := &trajectory.Record{Key: trajectory.NewKey("r", 31, 0, 0), Outcome: trajectory.Sandbox, Cause: "box_lost", Started: time.Unix(200, 0)}
	tot.Attempt(bad)
	tot.Final(bad, stats.Failed, "sandbox")
	s := tot.Statistics(25)
	if err := s.Balance(); err != nil || s.Pending != 3 || s.Attempts != 23 || s.Failed["sandbox"] != 1 || s.Rejected["truncated"] != 1 {
		t.Fatalf("%v: %+v", err, s)
	}
	if s.Scored != 21 || math.Abs(s.Reward.Mean-10.0/21) > 1e-12 || math.Abs(s.Reward.Std-math.Sqrt(10.0/21*11/21)) > 1e-12 {
		t.Errorf("reward %+v of %d", s.Reward, s.Scored)
	}
	if s.Turns != (stats.Turns{Mean: 211.0 / 21, P50: 10, P95: 19, Max: 20}) {
		t.Errorf("turns %+v", s.Turns)
	}
	if s.Tools["terminal"].Count != 42 || s.Tools["todo"] != (trajectory.ToolCount{}) || *s.CostUSD != 5.25 || s.Seconds != 100 || s.Reasoning != 21 {
		t.Errorf("%+v", s)
	}
	tot.Reopen(bad.Key)
	if s := tot.Statistics(25); s.Pending != 4 || s.Failed["sandbox"] != 0 || s.Causes["box_lost"] != 2 {
		t.Errorf("after a reopen: %+v", s)
	}
	if tot.Statistics(5).Balance() == nil {
		t.Error("more settled than planned balances")
	}
	var keys map[string]any
	b, _ := json.Marshal(stats.New(nil).Statistics(0))
	if err := json.Unmarshal(b, &keys); err != nil || !reflect.DeepEqual(keys["cost_usd"], nil) || len(keys["rejected"].(map[string]any)) != 6 {
		t.Errorf("%s", b)
	}
}

// TestVerdicts: calls count by state and faults by kind, those of answers that were asked
// again too; a run without any says nothing.
func TestVerdicts(t *testing.T) {
	tot := stats.New(nil)
	plain := tot.Statistics(1)
	if plain.Verdicts() != "" || plain.Scalars()["calls/truncated"] != 0 || len(plain.Calls) != 5 {
		t.Errorf("an empty run: %q, %v", plain.Verdicts(), plain.Calls)
	}
	r := record(1, 1, 1)
	say := func(faults []trajectory.Fault, states ...trajectory.CallState) {
		m := trajectory.Message{Role: trajectory.Assistant}
		for _, s := range states {
			m.Calls = append(m.Calls, trajectory.Call{Name: "terminal", State: s})
		}
		if _, err := r.Trace.Commit(trajectory.Turn{Sampled: trajectory.Delta{Message: m}, Finish: trajectory.FinishStop, Faults: faults}); err != nil {
			t.Fatal(err)
		}
	}
	say([]trajectory.Fault{{Kind: "truncated"}}, trajectory.CallComplete, trajectory.CallTruncated)
	if err := r.Trace.Rewind(0, trajectory.Abandoned); err != nil {
		t.Fatal(err)
	}
	say(nil, trajectory.CallComplete, trajectory.CallRecovered)
	tot.Final(r, stats.Accepted, "")
	raw, err := json.Marshal(tot)
	if err != nil {
		t.Fatal(err)
	}
	again := stats.New(nil)
	if err := json.Unmarshal(raw, again); err != nil {
		t.Fatal(err)
	}
	again.Final(record(2, 1, 1), stats.Accepted, "")
	s := again.Statistics(2)
	want := map[string]float64{
		"calls/complete":   2,
		"calls/recovered":  1,
		"calls/ambiguous":  0,
		"calls/truncated":  1,
		"calls/malformed":  0,
		"faults/truncated": 1,
	}
	for name, n := range want {
		if got, ok := s.Scalars()[name]; !ok || got != n {
			t.Errorf("%s is %v, want %v", name, got, n)
		}
	}
	if got := s.Verdicts(); got != "calls that were not complete: 1 recovered, 1 truncated; faults of answers: 1 truncated" {
		t.Errorf("said %q", got)
	}
}

// Mean and deviation of any finite rewards are finite, and right; and so are totals that
// were stored in between.
func TestHugeRewards(t *testing.T) {
	const most = math.MaxFloat64
	for _, tt := range []struct {
		rewards   []float64
		mean, std float64
	}{
		{[]float64{1e200, 1}, 5e199, 5e199},
		{[]float64{1, 1e200}, 5e199, 5e199},
		{[]float64{most, most, most}, most, 0},
		{[]float64{most, -most}, 0, most},
		{[]float64{-most, most, -most, most}, 0, most},
		{[]float64{1.7e308, 1.7e308, 0}, 2 * 1.7e308 / 3, 1.7e308 * math.Sqrt2 / 3},
		{[]float64{1e154, -1e154}, 0, 1e154},
		{[]float64{0.25, 0.75}, 0.5, 0.25},
	} {
		tot := stats.New(nil)
		for i, r := range tt.rewards {
			tot.Final(record(i, 1, r), stats.Accepted, "")
			b, err := json.Marshal(tot)
			if err != nil {
				t.Fatalf("%v: %v", tt.rewards, err)
			}
			tot = stats.New(nil)
			if err := json.Unmarshal(b, tot); err != nil {
				t.Fatal(err)
			}
		}
		s := tot.Statistics(int64(len(tt.rewards)))
		if _, err := json.Marshal(s); err != nil {
			t.Errorf("%v: %v", tt.rewards, err)
		}
		near := func(x, y float64) bool { return x == y || math.Abs(x/2-y/2) <= 1e-9*max(math.Abs(x), math.Abs(y)) }
		if !near(s.Reward.Mean, tt.mean) || !near(s.Reward.Std, tt.std) {
			t.Errorf("%v: %+v, want %g and %g", tt.rewards, *s.Reward, tt.mean, tt.std)
		}
	}
}

// TestLostReopen: a sample whose reopen was lost by damage is counted once, in its last book.
func TestLostReopen(t *testing.T) {
	tot := stats.New(nil)
	failed := record(1, 1, 0)
	failed.Outcome, failed.Score = trajectory.Sandbox, nil
	tot.Final(failed, stats.Failed, "sandbox")
	tot.Final(record(1, 1, 1), stats.Accepted, "")
	s := tot.Statistics(1)
	if err := s.Balance(); err != nil || s.Accepted != 1 || s.Failed["sandbox"] != 0 {
		t.Errorf("%v: accepted %d, failed %v", err, s.Accepted, s.Failed)
	}
}

// TestFaultsWithoutCalls: faults of answers that hold no call outlive the totals' file, and the
// answers that come behind it.
func TestFaultsWithoutCalls(t *testing.T) {
	tot := stats.New(nil)
	for i := range 2 {
		r := record(i, 1, 1)
		answer := trajectory.Turn{
			Sampled: trajectory.Delta{Message: trajectory.Message{Role: trajectory.Assistant}},
			Finish:  trajectory.FinishStop,
			Faults:  []trajectory.Fault{{Kind: "unread"}},
		}
		if _, err := r.Trace.Commit(answer); err != nil {
			t.Fatal(err)
		}
		tot.Final(r, stats.Accepted, "")
		raw, err := json.Marshal(tot)
		if err != nil {
			t.Fatal(err)
		}
		tot = stats.New(nil)
		if err := json.Unmarshal(raw, tot); err != nil {
			t.Fatal(err)
		}
	}
	if got := tot.Statistics(2).Faults["unread"]; got != 2 {
		t.Errorf("%d faults, want 2", got)
	}
}

package grade_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"hermes/backends"
	"hermes/envs"
	"hermes/envs/grade"
)

// A checker that ends with exit code 0 and says a reward in other words than ours has not
// passed: it is not known what it meant. Output that gives no reward does not hinder a pass.
func TestAlmostAReward(t *testing.T) {
	x := box(t)
	const void = -1
	many := strings.Repeat("ok\n", 20)
	for _, tt := range []struct {
		stdout, stderr string
		filed          string
		want           float64
	}{
		{stdout: `{"reward": 0}`, want: void},
		{stdout: `{"reward": 0, "detail": "no {"}`, want: void},
		{stdout: `{"detail": {"a": 1}, "reward": 0}`, want: void},
		{stdout: `{'reward': 0, 'why': 'x'}`, want: void},
		{stdout: `[{"reward": 0}]`, want: void},
		{stdout: "{\n  \"reward\": 0\n}", want: void},
		{stdout: `INFO: reward: 0`, want: void},
		{stdout: `2026-11-28T10:00:00Z INFO checker - reward=0.0`, want: void},
		{stdout: `final reward: 0`, want: void},
		{stdout: `final_reward: 0/3`, want: void},
		{stdout: `The reward is 0.`, want: void},
		{stdout: `<reward>0</reward>`, want: void},
		{stdout: `rewards: 0`, want: void},
		{stdout: `[reward] 0`, want: void},
		{stdout: `(reward): 0`, want: void},
		{stdout: "\xff\xfer\x00e\x00w\x00a\x00r\x00d\x00:\x00 \x000\x00\n\x00", want: void},
		{stdout: `Reward -> 0`, want: void},
		{stdout: `score: 0`, want: void},
		{stdout: `Final score: 0/10`, want: void},
		{stdout: `[INFO] total_score = 0 %`, want: void},
		{stdout: "\x1b[31mscore: 0\x1b[0m", want: void},
		{stdout: "score: 0\n" + many[3:], want: void},
		{stdout: "score: 0\r\n\r\n\n", want: void},
		{stderr: `reward: 0`, want: void},
		{stderr: `INFO:root:reward: 0`, want: void},
		{stdout: "all fine\n", stderr: "score: 0\n", want: void},

		{stdout: "progress 1\rreward: 0\n", want: 0},
		{stdout: "reward: 1\rreward: 0\r", want: 0},
		{stdout: "reward: 0.5\r\n", want: 0.5},
		{stdout: "reward: 0.5\nscore: 0\n", want: 0.5},
		{stdout: "score: 0\nreward: 0.5\n", stderr: "reward: 0\n", want: 0.5},
		{stdout: "score: 0\n", filed: "0.5", want: 0.5},
		{filed: `{"reward": 0.5, "metrics": {"f1": 1, "F1": 0}}`, want: 0.5},
		{filed: `{"reward": 0.5, "reward": 1}`, want: void},
		{filed: `{"reward": 0.5, "Reward": 1}`, want: void},
		{filed: `{"reward": 0.5} {"reward": 1}`, want: void},

		{stdout: "3 tests passed, score report written", want: 1},
		{stdout: "score: 3 tests passed", want: 1},
		{stdout: "F1 score: 0.93\naccuracy_score = 0.9\nz-score: 1.96", want: 1},
		{stdout: "the reward function was loaded", want: 1},
		{stdout: "checked the reward: fine", want: 1},
		{stdout: `{"passed": 3, "note": "reward"}`, want: 1},
		{stdout: "underscore: 0\nunrewarded: 0\nscoreboard: 1", want: 1},
		{stdout: "score: 0\n" + many, want: 1},
		{stdout: "", want: 1},
	} {
		if err := x.WriteFile(t.Context(), "stdout", []byte(tt.stdout), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := x.WriteFile(t.Context(), "stderr", []byte(tt.stderr), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := x.WriteFile(t.Context(), "filed", []byte(tt.filed), 0o644); err != nil {
			t.Fatal(err)
		}
		run := `cat stdout; cat stderr >&2; cat filed >"$HERMES_REWARD"`
		for code, want := range []float64{tt.want, 0} {
			s, err := grade.Parse(fmt.Sprintf("{kind: command, command: '%s; exit %d'}", run, code))
			if err != nil {
				t.Fatal(err)
			}
			g, err := s.Bind(row(t, `{}`))
			if err != nil {
				t.Fatal(err)
			}
			got, err := g.Grade(t.Context(), envs.World{Box: x}, said(t, "x"))
			var no *envs.NoVerdict
			switch {
			case want == void && !errors.As(err, &no):
				t.Errorf("%q, %q: reward %v, %v, want no verdict", tt.stdout, tt.stderr, got.Reward, err)
			case want != void && (err != nil || got.Reward != want):
				t.Errorf("%q, %q, exit %d: reward %v, %v, want %v", tt.stdout, tt.stderr, code, got.Reward, err, want)
			}
		}
	}
}

// What a command grader or a tests grader makes of what came out: a reward has to be in the
// range, the worst of several summaries counts, and a framework that ran no test is no verdict.
func TestBoundsOfVerdicts(t *testing.T) {
	x := box(t)
	const void = -100
	for _, tt := range []struct {
		grader string
		want   float64
	}{
		{`{kind: command, command: "echo reward: 1.5"}`, void},
		{`{kind: command, command: "echo reward: -0.5"}`, void},
		{`{kind: command, command: "echo reward: 1.5", range: [-2, 2]}`, 1.5},
		{`{kind: command, command: "true", range: [-2, 2]}`, 2},
		{`{kind: command, command: "echo 7 >$HERMES_REWARD"}`, void},
		{`{kind: tests, share: true, command: "echo '=== 3 failed, 1 passed in 1s ==='; exit 1"}`, 0.25},
		{`{kind: tests, share: true, command: "echo '=== 1 failed, 9 passed in 1s ==='; echo '=== 3 failed, 1 passed in 1s ==='; exit 1"}`, 0.25},
		{`{kind: tests, share: true, command: "echo '=== 3 failed, 1 passed in 1s ==='; echo '=== 1 failed, 9 passed in 1s ==='; exit 1"}`, 0.25},
		{`{kind: tests, command: ": pytest"}`, void},
		{`{kind: tests, command: ": pytest; echo '=== 2 passed in 1s ==='"}`, 1},
		{`{kind: tests, command: "true"}`, 1},
	} {
		s, err := grade.Parse(tt.grader)
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Bind(row(t, `{"tests":{"t.txt":""}}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.Grade(t.Context(), envs.World{Box: x}, said(t, "x"))
		switch {
		case tt.want == void && !envs.IsNoVerdict(err):
			t.Errorf("%s: reward %v, %v, want no verdict", tt.grader, got.Reward, err)
		case tt.want != void && (err != nil || got.Reward != tt.want):
			t.Errorf("%s: reward %v, %v, want %v", tt.grader, got.Reward, err, tt.want)
		}
	}
}

// No reward line and one that holds no reward are different results.
func TestRewardWritten(t *testing.T) {
	x := box(t)
	for line, want := range map[string]envs.RewardLine{
		"reward:": envs.RewardBlank, "reward: ": envs.RewardBlank, "  Reward = ": envs.RewardBlank,
		"reward: nan": envs.RewardWritten, "reward: 1e999": envs.RewardWritten, "reward: 7": envs.RewardWritten, "reward: high": envs.RewardWritten, "reward: 0.5 of 1": envs.RewardWritten,
		"score: 0": 0,
	} {
		_, err := grade.Command(backends.Cmd{Argv: []string{"echo", line}}).Grade(t.Context(), envs.World{Box: x}, said(t, ""))
		var none *envs.NoVerdict
		if !errors.As(err, &none) || none.Reward != want {
			t.Errorf("%q: %v, want %d", line, err, want)
		}
	}
}

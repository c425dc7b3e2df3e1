package gsm8k_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/envs/gsm8k"
	"hermes/internal/realdata"
	"hermes/rollout/play"
	"hermes/trajectory"
)

func open(t *testing.T, c gsm8k.Config) *gsm8k.Env {
	t.Helper()
	e, err := gsm8k.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestContract(t *testing.T) {
	for steps := 1; steps <= 6; steps++ {
		envtest.Run(t, open(t, gsm8k.Config{Steps: steps}), play.Player{}, envtest.Options{Rows: 30, Repeats: 2})
	}
	envtest.Run(t, open(t, gsm8k.Config{}), play.Player{}, envtest.Options{Split: envs.Eval})
}

// TestRealRows plays every real row.
func TestRealRows(t *testing.T) {
	dir := realdata.Path(t, "gsm8k")
	e := open(t, gsm8k.Config{Dataset: filepath.Join(dir, "train.jsonl"), Eval: filepath.Join(dir, "test.jsonl")})
	for _, split := range []envs.Split{envs.Train, envs.Eval} {
		raw, err := os.ReadFile(filepath.Join(dir, map[envs.Split]string{envs.Train: "train.jsonl", envs.Eval: "test.jsonl"}[split]))
		if err != nil {
			t.Fatal(err)
		}
		n := strings.Count(strings.TrimSpace(string(raw)), "\n") + 1
		envtest.Run(t, e, play.Player{}, envtest.Options{Rows: n, Repeats: 2, Split: split})
		t.Logf("%s: %d rows", split, n)
	}
}

func TestAnswers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(name, []byte(`{"question":"How much?","answer":"500+750=<<500+750=1250>>1250\n#### 1,250"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := open(t, gsm8k.Config{Dataset: name})
	d, err := e.Rows(t.Context(), envs.Train, datasets.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]float64{
			"#### 1250": 1, "#### $1,250.00": 1, `so \boxed{1250}`: 1, "It is 1250.": 1, "2500/2 is it\n#### 2500/2": 1,
			"1250\n#### 1251": 0, "1251": 0, "no idea": 0, "#### ": 0, "#### -1250": 0,
		} {
			rec, err := play.Player{}.Play(t.Context(), e, row, 0, []trajectory.Message{trajectory.Text(trajectory.Assistant, text)})
			if err != nil {
				t.Fatal(err)
			}
			if rec.Score == nil || rec.Score.Reward != want {
				t.Errorf("%q: %+v, want %v", text, rec.Score, want)
			}
		}
	}
	if _, err := e.Rows(t.Context(), envs.Eval, datasets.Options{}); err == nil {
		t.Error("evaluation rows out of nowhere")
	}
}

func TestBad(t *testing.T) {
	for _, c := range []gsm8k.Config{{Size: -1}, {Steps: 7}, {Eval: "x"}} {
		if _, err := gsm8k.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	row := datasets.Row{ID: "x", Prompt: []trajectory.Message{trajectory.Text(trajectory.User, "q")}}
	for _, answer := range []string{`"12"`, `12`, `"#### none"`, ``} {
		row.Scoring.Answer = []byte(answer)
		if _, err := open(t, gsm8k.Config{}).Task(row); err == nil {
			t.Errorf("the answer %s is accepted", answer)
		}
	}
}

// TestSplitsApart: no task of the evaluation occurs in training.
func TestSplitsApart(t *testing.T) { envtest.Apart(t, open(t, gsm8k.Config{Steps: 1}), 200) }

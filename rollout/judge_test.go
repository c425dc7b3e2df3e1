package rollout_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs/rows"
	"hermes/internal/fakellm"
	"hermes/rollout"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/wire"
	"hermes/trajectory"
)

// reel is a tape that is read in order, as the journal's is.
type reel struct {
	digests [][32]byte
	answers [][]byte
	at      int
}

func (r *reel) Lookup(d [32]byte) ([]byte, bool) {
	if r.at >= len(r.digests) || r.digests[r.at] != d {
		return nil, false
	}
	r.at++
	return r.answers[r.at-1], true
}

func (r *reel) Store(d [32]byte, answer []byte) error {
	r.digests, r.answers = append(r.digests, d), append(r.answers, append([]byte(nil), answer...))
	r.at = len(r.digests)
	return nil
}

// A rollout that was broken off after its judge had spoken buys nothing again.
func TestJudgeIsOnTheTape(t *testing.T) {
	s, err := fakellm.New(fakellm.Options{Scripts: []fakellm.Script{
		{Match: "strict and fair judge", Turns: []fakellm.Turn{{Content: "about half"}, {Content: `{"reason": "half", "score": 0.5}`}}},
		{Match: "say four", Turns: []fakellm.Turn{{Content: "four"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	defer web.Close()
	w, err := wire.New(wire.Options{Bases: []string{web.URL + "/v1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	open := func(name string, price *policy.Price) policy.Policy {
		p, err := chat.New(w, chat.Options{Model: name, Price: price})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	env := rows.New(rows.Options{Judge: true})
	r, err := rollout.NewRunner(rollout.Options{Env: env, Policy: open("main", nil), Judge: open("wise", &policy.Price{Prompt: 10, Completion: 10})})
	if err != nil {
		t.Fatal(err)
	}
	tape := &reel{}
	job := rollout.Job{Row: datasets.Row{ID: "a", Prompt: []trajectory.Message{trajectory.Text(trajectory.User, "say four")},
		Scoring: datasets.Scoring{Rubric: json.RawMessage(`"It says four."`)}}, Key: trajectory.NewKey("a", 0, 0, 0), Attempt: 1, Tape: tape, Seed: 7}
	for round := range 2 {
		tape.at = 0
		rec, err := r.Run(t.Context(), job)
		if err != nil || rec.Score == nil || rec.Score.Reward != 0.5 || rec.Score.Detail != "half" {
			t.Fatalf("round %d: %+v, %v", round, rec, err)
		}
		j := rec.Judge
		if j == nil || j.Model != "wise" || j.Asked != 2 || !j.Usage.CostKnown || j.Usage.Cost == 0 || rec.Usage.CostKnown {
			t.Errorf("round %d: judge %+v, the rollout's usage %+v", round, j, rec.Usage)
		}
		if len(j.Exchanges) != 2 || !strings.Contains(j.Exchanges[0].Prompt, "say four") || j.Exchanges[0].Answer != "about half" ||
			!strings.Contains(j.Exchanges[1].Answer, `"score": 0.5`) || string(rec.Scoring) != `{"rubric":"It says four."}` {
			t.Errorf("round %d: the record keeps %+v, %s", round, j.Exchanges, rec.Scoring)
		}
		if got := s.Stats().Answers; got != 3 {
			t.Errorf("round %d: %d answers were bought, want 3", round, got)
		}
	}
}

// What a record keeps for its reader has a bound, whatever a row or a model wrote.
func TestKeptForReadersIsBounded(t *testing.T) {
	long := strings.Repeat("long ", 20<<10)
	s, err := fakellm.New(fakellm.Options{Scripts: []fakellm.Script{
		{Match: "strict and fair judge", Turns: []fakellm.Turn{{Content: `{"reason": "` + long + `", "score": 1}`}}},
		{Match: "say", Turns: []fakellm.Turn{{Content: long}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	defer web.Close()
	w, err := wire.New(wire.Options{Bases: []string{web.URL + "/v1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	p, err := chat.New(w, chat.Options{Model: "main"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := rollout.NewRunner(rollout.Options{Env: rows.New(rows.Options{Judge: true}), Policy: p, Judge: p})
	if err != nil {
		t.Fatal(err)
	}
	rubric, err := json.Marshal(long)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := r.Run(t.Context(), rollout.Job{Row: datasets.Row{ID: "a", Prompt: []trajectory.Message{trajectory.Text(trajectory.User, "say")},
		Scoring: datasets.Scoring{Rubric: rubric}}, Key: trajectory.NewKey("a", 0, 0, 0), Attempt: 1, Tape: &reel{}, Seed: 7})
	if err != nil || rec.Judge == nil || len(rec.Judge.Exchanges) != 1 {
		t.Fatalf("%+v, %v", rec, err)
	}
	if x := rec.Judge.Exchanges[0]; len(x.Prompt) > 33<<10 || len(x.Answer) > 9<<10 || !strings.HasSuffix(x.Prompt, "more bytes)") {
		t.Errorf("%d bytes of the prompt, %d of the answer", len(x.Prompt), len(x.Answer))
	}
	if !json.Valid(rec.Scoring) || len(rec.Scoring) > 100 {
		t.Errorf("%d bytes of the scoring keys: %.200s", len(rec.Scoring), rec.Scoring)
	}
}

package toolapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/envs/toolapi"
	"hermes/rollout/play"
	"hermes/trajectory"
)

func open(t *testing.T, level int) *toolapi.Env {
	t.Helper()
	e, err := toolapi.New(toolapi.Config{Level: level, Size: 40})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestContract(t *testing.T) {
	for level := 1; level <= 5; level++ {
		may := "hidden"
		if level == 5 {
			may = ""
		}
		envtest.Run(t, open(t, level), play.Player{}, envtest.Options{Rows: 20, Repeats: 2}, may)
	}
	envtest.Run(t, open(t, 3), play.Player{}, envtest.Options{Rows: 10, Split: envs.Eval})
}

// TestWhatCounts plays the oracle with one thing left out or added.
func TestWhatCounts(t *testing.T) {
	e := open(t, 4)
	d, err := e.Rows(t.Context(), envs.Train, datasets.Options{Limit: 40})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		task, err := e.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		gold, err := e.Oracle(task)
		if err != nil {
			t.Fatal(err)
		}
		reward := func(turns []trajectory.Message) *trajectory.Record {
			rec, err := play.Player{}.Play(t.Context(), e, row, 0, turns)
			if err != nil {
				t.Fatal(err)
			}
			if rec.Score == nil {
				t.Fatalf("row %s: %s", row.ID, rec.Reason)
			}
			return rec
		}
		last := -1
		for i, m := range gold {
			if len(m.Calls) > 0 && !strings.HasPrefix(m.Calls[0].Name, "get_") && m.Calls[0].Name != "find_user" {
				last = i
			}
		}
		less := append(append([]trajectory.Message{}, gold[:last]...), gold[last+1:]...)
		if r := reward(less); r.Score.Reward != 0 || r.Score.Parts["db"] != 0 {
			t.Errorf("row %s without a change: %+v", row.ID, r.Score)
		}
		twice := append(append([]trajectory.Message{}, gold[:last+1]...), gold[last:]...)
		if r := reward(twice); r.Score.Reward != 1 && gold[last].Calls[0].Name != "change_size" {
			t.Errorf("row %s with a call that is refused the second time: %+v", row.ID, r.Score)
		}
		if len(e.Hidden(task)) > 0 {
			asked++
			mute := append(append([]trajectory.Message{}, gold[:len(gold)-1]...), trajectory.Text(trajectory.Assistant, "Done."))
			if r := reward(mute); r.Score.Reward != 0 || r.Score.Parts["db"] != 1 {
				t.Errorf("row %s without telling: %+v", row.ID, r.Score)
			}
		}
	}
	for said, want := range map[string]bool{
		"It costs $1,380.":          true,
		"1380.0 euros":              true,
		"1380.00.":                  true,
		"11380.00":                  false,
		"1380.01":                   false,
		"13.80":                     false,
		"138000 cents":              true,
		"138,000 Cents each":        true,
		"138000 centimes":           false,
		"1380,00 EUR":               true,
		"1.380,00 €":                true,
		"1 380.00":                  true,
		"1 380 €":                   true,
		"$1380 and 0 cents":         true,
		"1’380.00":                  true,
		"order 1 380.00":            true,
		"1,380,000":                 false,
		"1380, 1381 or 1382":        true,
		"1.380":                     true,
		"13.80,00":                  false,
		"1379 dollars and 99 cents": false,
	} {
		if got := toolapi.Amounts(said)["1380.00"]; got != want {
			t.Errorf("%q tells 1380.00: %v", said, got)
		}
	}
	if asked == 0 {
		t.Error("no row asks for a fact")
	}
}

// TestCheats plays what a policy would learn that saves the work: all must earn 0.
func TestCheats(t *testing.T) {
	e := open(t, 4)
	d, err := e.Rows(t.Context(), envs.Train, datasets.Options{Limit: 40})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		task, err := e.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		gold, err := e.Oracle(task)
		if err != nil {
			t.Fatal(err)
		}
		calls, last := gold[2:len(gold)-1], gold[len(gold)-1] // behind the question for the address and find_user
		var every, shop strings.Builder
		for cents := 2001; cents < 40002; cents++ {
			fmt.Fprintf(&every, "%d.%02d ", cents/100, cents%100)
		}
		for _, price := range toolapi.Prices(task) {
			shop.WriteString(price + ", ")
		}
		cheats := map[string][]trajectory.Message{
			"found nobody": append(slices.Clone(calls), last),
			"found nobody else": append([]trajectory.Message{gold[0],
				{Calls: []trajectory.Call{{Name: "find_user", Arguments: `{"email": "x@example.com"}`}}}}, append(slices.Clone(calls), last)...),
			"found too late": append(slices.Clone(calls), gold[1], last),
		}
		if len(e.Hidden(task)) > 0 {
			asked++
			cheats["all prices of the shop"] = append(slices.Clone(gold[:len(gold)-1]), trajectory.Text(trajectory.Assistant, "It costs one of "+shop.String()))
			cheats["all prices there are"] = append(slices.Clone(gold[:len(gold)-1]), trajectory.Text(trajectory.Assistant, every.String()))
			cheats["all prices, one an answer"] = append(slices.Clone(gold[:len(gold)-1]), trajectory.Text(trajectory.Assistant, shop.String()), last)
		}
		for name, turns := range cheats {
			rec, err := play.Player{}.Play(t.Context(), e, row, 0, turns)
			if err != nil || rec.Score == nil || rec.Score.Reward != 0 {
				t.Errorf("row %s, %s: %+v (%s), %v", row.ID, name, rec.Score, rec.Reason, err)
			}
		}
	}
	if asked == 0 {
		t.Error("no row asks for a fact")
	}
}

// TestUserWaitsForTheFact: a user whose orders are as they wanted goes on until their question
// is answered.
func TestUserWaitsForTheFact(t *testing.T) {
	e := open(t, 4)
	d, err := e.Rows(t.Context(), envs.Train, datasets.Options{Limit: 40})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		task, err := e.Task(row)
		if err != nil {
			t.Fatal(err)
		}
		gold, err := e.Oracle(task)
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Hidden(task)) == 0 {
			continue
		}
		asked++
		last := len(gold) - 1
		turns := append(append([]trajectory.Message{}, gold[:last]...), trajectory.Text(trajectory.Assistant, "The orders are done. Now to your question."),
			gold[last])
		rec, err := play.Player{}.Play(t.Context(), e, row, 0, turns)
		if err != nil || rec.Score == nil || rec.Score.Reward != 1 {
			t.Errorf("row %s: %+v (%s), %v", row.ID, rec.Score, rec.Reason, err)
		}
	}
	if asked == 0 {
		t.Error("no row asks for a fact")
	}
}

func TestUserSpeaks(t *testing.T) {
	e := open(t, 2)
	d, err := e.Rows(t.Context(), envs.Train, datasets.Options{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		rec, err := play.Player{}.Play(t.Context(), e, row, 0, []trajectory.Message{
			trajectory.Text(trajectory.Assistant, "What is your e-mail address?"),
			trajectory.Text(trajectory.Assistant, "Shall I do it?"),
			trajectory.Text(trajectory.Assistant, "I give up ###STOP###"),
		})
		if err != nil {
			t.Fatal(err)
		}
		var user []string
		for _, m := range rec.Trace.Visible() {
			if m.Role == trajectory.User {
				user = append(user, m.Content())
			}
		}
		if len(user) != 3 || !strings.Contains(user[1], "@example.com") || user[2] != "Yes, please." || rec.Stop.Reason != trajectory.StopAnswer {
			t.Errorf("the user says %q, then %s", user, rec.Stop.Reason)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []toolapi.Config{{Size: -1}, {Level: 6}, {Level: -1}} {
		if _, err := toolapi.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// TestSplitsApart: no task of the evaluation occurs in training.
func TestSplitsApart(t *testing.T) { envtest.Apart(t, open(t, 2), 200) }

package trajectory_test

import (
	"fmt"

	"hermes/trajectory"
)

// A trace grows by whole turns: what was given, then what the model said.
func ExampleTrace_Commit() {
	t := trajectory.New(trajectory.ModeText, nil)
	_, err := t.Commit(trajectory.Turn{
		Given:   []trajectory.Delta{{Message: trajectory.Text(trajectory.User, "What is 2 + 3?")}},
		Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, "5")},
		Finish:  trajectory.FinishStop,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for m := range t.Prefix().Messages() {
		fmt.Printf("%s: %s\n", m.Role, m.Content())
	}
	// Output:
	// user: What is 2 + 3?
	// assistant: 5
}

// A sampled token without its log-prob is refused, and nothing of the turn is kept.
func ExampleTrace_Commit_misaligned() {
	t := trajectory.New(trajectory.ModeExact, nil)
	_, err := t.Commit(trajectory.Turn{
		Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, "5"), Tokens: []trajectory.Token{20}},
		Finish:  trajectory.FinishStop,
	})
	fmt.Println(err != nil, len(t.Nodes))
	// Output: true 0
}

// Two answers to one question share it; each is a sequence to train on, and what they share
// trains once.
func ExampleTrace_Sequences() {
	t := trajectory.New(trajectory.ModeText, nil)
	say := func(text string) trajectory.Turn {
		return trajectory.Turn{Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, text)}, Finish: trajectory.FinishStop}
	}
	first, err := t.Commit(say("a plan"))
	if err == nil {
		_, err = t.Commit(say("the plan done"))
	}
	if err == nil {
		err = t.Rewind(first, trajectory.Branch)
	}
	if err == nil {
		_, err = t.Commit(say("the plan done better"))
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for s := range t.Sequences() {
		fmt.Println(s.Nodes, "new from", s.Fresh)
	}
	// Output:
	// [0 1] new from 0
	// [0 2] new from 1
}

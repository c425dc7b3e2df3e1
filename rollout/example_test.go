package rollout_test

import (
	"context"
	"encoding/json"
	"fmt"

	"hermes/rollout"
	"hermes/rollout/policy"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// twoTurns is a model that asks for the time and then answers.
type twoTurns struct{ asked int }

func (s *twoTurns) Next(_ context.Context, _ trajectory.Prefix, pending []trajectory.Message, _ func(policy.Chunk)) (trajectory.Turn, error) {
	s.asked++
	turn := trajectory.Turn{Finish: trajectory.FinishStop, Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, "It is noon.")}}
	if s.asked == 1 {
		turn.Finish = trajectory.FinishCalls
		turn.Sampled.Message = trajectory.Message{Role: trajectory.Assistant, Calls: []trajectory.Call{{ID: "1", Name: "now", Arguments: "{}"}}}
	}
	for _, m := range pending {
		turn.Given = append(turn.Given, trajectory.Delta{Message: m})
	}
	return turn, nil
}

func (s *twoTurns) Close() error { return nil }

// The loop asks, runs the calls, and asks again until the model answers.
func ExampleHermesAgentLoop_Run() {
	now := tool.Def{
		Spec: trajectory.ToolSpec{Name: "now", Description: "The time.", Parameters: json.RawMessage(`{"type": "object", "properties": {}}`)},
		Open: func(*tool.Scope) (tool.Handler, error) {
			return func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Result{Text: "12:00"}, nil }, nil
		},
	}
	tools, err := tool.NewSet([]tool.Def{now}, &tool.Scope{}, tool.SetOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	loop := rollout.HermesAgentLoop{Sampler: &twoTurns{}, Tools: tools, Limits: rollout.Limits{Turns: 10}}
	trace := trajectory.New(trajectory.ModeText, tools.Specs())
	stop, err := loop.Run(context.Background(), trace, []trajectory.Message{trajectory.Text(trajectory.User, "What time is it?")})
	fmt.Println(stop.Reason, err)
	for m := range trace.Prefix().Messages() {
		fmt.Printf("%s: %s%s\n", m.Role, m.Content(), callsOf(m))
	}
	// Output:
	// answer <nil>
	// user: What time is it?
	// assistant: [now {}]
	// tool: 12:00
	// assistant: It is noon.
}

func callsOf(m trajectory.Message) string {
	text := ""
	for _, c := range m.Calls {
		text += fmt.Sprintf("[%s %s]", c.Name, c.Arguments)
	}
	return text
}

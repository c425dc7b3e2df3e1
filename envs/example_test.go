package envs_test

import (
	"context"
	"fmt"

	"hermes/configs"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade"
	"hermes/trajectory"
)

type echo struct{}

func (echo) Rows(_ context.Context, split envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	return envs.Made("echo", split, 2, o, func(i int) any {
		return map[string]any{"id": fmt.Sprintf("%s-%d", split, i), "prompt": fmt.Sprintf("Say %d.", i)}
	})
}

func (echo) Task(r datasets.Row) (envs.Task, error) {
	return envs.Task{Row: r, Messages: r.Prompt, Hidden: r.ID}, nil
}

func (echo) Score(_ context.Context, t envs.Task, _ envs.World, ep envs.Episode) (trajectory.Score, error) {
	if grade.Answer(ep) == t.Hidden {
		return trajectory.Score{Reward: 1}, nil
	}
	return trajectory.Score{}, nil
}

// The smallest environment: rows, a task for a row, a score.
func ExampleNewKind() {
	kind := envs.NewKind("echo", "repeat a number", func(context.Context, struct{}) (envs.Bundled, error) { return echo{}, nil })
	ctx := context.Background()
	env, err := kind.Open(ctx, configs.Section{})
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := env.Rows(ctx, envs.Train, datasets.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()
	for row, err := range rows.Rows(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		task, err := env.Task(row)
		fmt.Println(task.Row.ID, task.Messages[0].Content(), err)
	}
	// Output:
	// train-0 Say 0. <nil>
	// train-1 Say 1. <nil>
}

// Package envtest is the suite that every environment passes: a perfect player earns 1,
// doing nothing earns 0, ten repeats agree, and hidden answers cannot be read where the
// model works.
//
// Its checks are data: [Run] makes a subtest of each, [Check] runs them without go test,
// for `hermes env check`. Rollouts are played by a [Player], which is the loop that
// models meet too.
package envtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"hermes/datasets"
	"hermes/envs"
	"hermes/trajectory"
)

// Player takes a row through the loop with a model that says turns, and then nothing of
// use. Package rollout/play has one.
type Player interface {
	Play(ctx context.Context, env envs.Env, row datasets.Row, sample int, turns []trajectory.Message) (*trajectory.Record, error)
}

// Options tune the suite. The zero value is usable.
type Options struct {
	Rows    int   // rows that are played; 0: 3
	Repeats int   // of each; 0: 10
	AtOnce  int   // rollouts at once; 0: 4
	Seed    int64 // of shuffled rows
	Split   envs.Split
	// Isolated says that what a box shows beside its home belongs to it alone, so that it
	// can be searched too.
	Isolated bool
}

// Report is the outcome of one check.
type Report struct {
	Name    string
	Promise string // what holds if the check passes
	Err     error  // nil: it holds
	Skipped string // why it could not be asked
	Took    time.Duration
}

// check is one promise.
type check struct {
	name, promise string
	run           func(context.Context, *suite) error
}

// skip is the error of a check that cannot be asked.
type skip string

func (s skip) Error() string { return string(s) }

func checks() []check {
	return []check{
		{"rows", "the rows are there, each with its own id, and the same when they are read again", rowsAgain},
		{"tasks", "a row always gives the same task", tasksAgain},
		{"oracle", "a perfect player earns 1", oracle},
		{"null", "doing nothing earns 0", null},
		{"repeats", "repeats agree, also beside each other and when the same box is scored again", repeats},
		{"hidden", "answers cannot be read in the box, the messages, the tools or the environment of commands", hidden},
	}
}

// suite is one environment under test.
type suite struct {
	env  envs.Bundled
	play Player
	o    Options
	rows []datasets.Row
}

// Check runs the suite; each hears of every check as it ends.
func Check(ctx context.Context, env envs.Bundled, play Player, o Options, each func(Report)) {
	o.Rows, o.Repeats, o.AtOnce, o.Split = cmp.Or(o.Rows, 3), cmp.Or(o.Repeats, 10), cmp.Or(o.AtOnce, 4), cmp.Or(o.Split, envs.Train)
	s := &suite{env: env, play: play, o: o}
	for _, c := range checks() {
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		r := Report{Name: c.name, Promise: c.promise}
		var none skip
		switch err := guarded(ctx, c, s); {
		case errors.As(err, &none):
			r.Skipped = string(none)
		default:
			r.Err = err
		}
		r.Took = time.Since(began)
		each(r)
	}
}

// guarded turns a panic of the environment into an error.
func guarded(ctx context.Context, c check, s *suite) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if c.name != "rows" && len(s.rows) == 0 {
		return skip("there are no rows")
	}
	return c.run(ctx, s)
}

// Run runs the suite as subtests; a check that cannot be asked fails unless its name is
// among skips.
func Run(t *testing.T, env envs.Bundled, play Player, o Options, skips ...string) {
	t.Helper()
	may := map[string]bool{}
	for _, s := range skips {
		may[s] = true
	}
	Check(t.Context(), env, play, o, func(r Report) {
		t.Run(r.Name, func(t *testing.T) {
			switch {
			case r.Err != nil:
				t.Error(r.Err)
			case r.Skipped != "" && may[r.Name]:
				t.Skip(r.Skipped)
			case r.Skipped != "":
				t.Error("not asked:", r.Skipped)
			}
		})
	})
}

// Apart fails where a task of the evaluation occurs in training: of each split the first n
// rows are compared, by the messages and files of their tasks.
func Apart(t testing.TB, env envs.Bundled, n int64) {
	t.Helper()
	seen := map[string]string{}
	for _, split := range []envs.Split{envs.Train, envs.Eval} {
		for _, row := range Rows(t, env, split, n) {
			task, err := env.Task(row)
			if err != nil {
				t.Fatal(err)
			}
			asked, err := json.Marshal(map[string]any{"messages": task.Messages, "files": task.Files})
			if err != nil {
				t.Fatal(err)
			}
			if id, ok := seen[string(asked)]; ok && split == envs.Eval {
				t.Errorf("row %s of the evaluation asks what row %s of training asks", row.ID, id)
			}
			if split == envs.Train {
				seen[string(asked)] = row.ID
			}
		}
	}
}

// Rows are the first rows of a split, for the tests of an environment; 0 means all.
func Rows(t testing.TB, env envs.Bundled, split envs.Split, limit int64) (list []datasets.Row) {
	t.Helper()
	d, err := env.Rows(t.Context(), split, datasets.Options{Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range d.Rows(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, row)
	}
	return list
}

package envtest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/envs/grade"
	"hermes/rollout/play/playtest"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// sound is an environment without a fault: say the word, and write it into a file.
type sound struct{}

const rowText = `{"id":"a","prompt":"say the word","answer":"marmalade sandwich"}
{"id":"b","prompt":"say the other word","answer":"elderberry wine"}
`

func (e sound) Rows(_ context.Context, _ envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	return datasets.Inline("test", rowText, o)
}

func (e sound) Task(row datasets.Row) (envs.Task, error) {
	return envs.Task{
		Row:      row,
		Messages: row.Prompt,
		Files:    map[string]string{"notes.txt": "nothing here\n"},
		Hidden:   strings.Trim(string(row.Scoring.Answer), `"`),
	}, nil
}

func (e sound) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	res, err := w.Exec(ctx, "verifier", backends.Cmd{Shell: "cat out.txt"})
	if err != nil {
		return trajectory.Score{}, err
	}
	ok := grade.Answer(ep) == t.Hidden && string(res.Stdout) == t.Hidden.(string)
	return trajectory.Score{Reward: map[bool]float64{true: 1}[ok]}, nil
}

func (e sound) Oracle(t envs.Task) ([]trajectory.Message, error) {
	call := trajectory.Call{Name: "write_file", Arguments: tool.JSON(map[string]any{"path": "out.txt", "content": t.Hidden})}
	return []trajectory.Message{{Calls: []trajectory.Call{call}}, trajectory.Text(trajectory.Assistant, t.Hidden.(string))}, nil
}

// spoilt is sound but for what its functions replace.
type spoilt struct {
	sound
	rows    func() string
	task    func(*envs.Task)
	prepare func(context.Context, envs.Task, envs.World) error
	score   func(w envs.World, s *trajectory.Score) error
	oracle  func() ([]trajectory.Message, error)
	tools   func(envs.Task) []tool.Def
}

func (e spoilt) Rows(ctx context.Context, s envs.Split, o datasets.Options) (*datasets.Dataset, error) {
	if e.rows == nil {
		return e.sound.Rows(ctx, s, o)
	}
	return datasets.Inline("test", e.rows(), o)
}

func (e spoilt) Task(row datasets.Row) (envs.Task, error) {
	t, err := e.sound.Task(row)
	if e.task != nil {
		e.task(&t)
	}
	return t, err
}

func (e spoilt) Prepare(ctx context.Context, t envs.Task, w envs.World) error {
	if e.prepare == nil {
		return nil
	}
	return e.prepare(ctx, t, w)
}

func (e spoilt) Tools(_ context.Context, t envs.Task, _ envs.World) ([]tool.Def, error) {
	if e.tools == nil {
		return nil, nil
	}
	return e.tools(t), nil
}

func (e spoilt) Score(ctx context.Context, t envs.Task, w envs.World, ep envs.Episode) (trajectory.Score, error) {
	s, err := e.sound.Score(ctx, t, w, ep)
	if err == nil && e.score != nil {
		err = e.score(w, &s)
	}
	return s, err
}

func (e spoilt) Oracle(t envs.Task) ([]trajectory.Message, error) {
	if e.oracle != nil {
		return e.oracle()
	}
	return e.sound.Oracle(t)
}

func TestSound(t *testing.T) {
	envtest.Run(t, sound{}, playtest.New(t), envtest.Options{})
	envtest.Run(t, spoilt{}, playtest.New(t), envtest.Options{Repeats: 2})
}

func TestSpoiltEnvironmentsAreCaught(t *testing.T) {
	var n atomic.Int64
	write := func(name string, text func(envs.Task) string) func(context.Context, envs.Task, envs.World) error {
		return func(ctx context.Context, t envs.Task, w envs.World) error {
			return w.Box.WriteFile(ctx, name, []byte(text(t)), 0o600)
		}
	}
	gold := func(t envs.Task) string { return "# gold\n" + t.Hidden.(string) + "\n" }
	tests := []struct {
		name   string
		env    spoilt
		caught []string // the checks that fail
		says   string
	}{
		{"idle players are paid",
			spoilt{score: func(_ envs.World, s *trajectory.Score) error { s.Reward = 1; return nil }},
			[]string{"null"},
			"doing nothing earns 1"},
		{"a little pay for nothing",
			spoilt{score: func(_ envs.World, s *trajectory.Score) error { s.Reward = max(s.Reward, 0.1); return nil }},
			[]string{"null"},
			"earns 0.1"},
		{"the best is not enough", spoilt{score: func(_ envs.World, s *trajectory.Score) error { s.Reward /= 2; return nil }}, []string{"oracle"}, "earns 0.5"},
		{"the oracle is wrong", spoilt{oracle: func() ([]trajectory.Message, error) { return nil, nil }}, []string{"oracle"}, "earns 0"},
		{"dice in the score", spoilt{score: func(_ envs.World, s *trajectory.Score) error {
			s.Parts = map[string]float64{"luck": float64(n.Add(1))}
			return nil
		}}, []string{"repeats"}, "repeat"},
		{"scoring spends the box", spoilt{score: func(w envs.World, s *trajectory.Score) error {
			_, err := w.Box.Exec(context.Background(), backends.Cmd{Shell: "rm -f out.txt"})
			return err
		}}, []string{"repeats"}, "scored again"},
		{"rewards that are no numbers",
			spoilt{score: func(_ envs.World, s *trajectory.Score) error { s.Reward = math.NaN(); return nil }},
			[]string{"oracle", "null", "repeats"},
			"NaN"},
		{"a scorer that fails",
			spoilt{score: func(envs.World, *trajectory.Score) error { return errors.New("boo") }},
			[]string{"oracle", "null", "repeats"},
			"boo"},
		{"a scorer that panics", spoilt{score: func(envs.World, *trajectory.Score) error { panic("boo") }}, []string{"oracle", "null", "repeats"}, "boo"},
		{"the answer in a file", spoilt{prepare: write("deep/down/gold.txt", gold)}, []string{"hidden"}, "gold.txt"},
		{"the answer in a hidden file of the home", spoilt{prepare: write(".cache/x", gold)}, []string{"hidden"}, ".cache/x"},
		{"the answer in the name of a file", spoilt{prepare: func(ctx context.Context, t envs.Task, w envs.World) error {
			return w.Box.WriteFile(ctx, "cache/"+t.Hidden.(string)+".tmp", []byte("x"), 0o600)
		}}, []string{"hidden"}, "the name of a file"},
		{"the answer in the files of the task",
			spoilt{task: func(t *envs.Task) { t.Files = map[string]string{"tests/expect": gold(*t)} }},
			[]string{"hidden"},
			"tests/expect"},
		{"the answer in a variable", spoilt{task: func(t *envs.Task) { t.Env = map[string]string{"GOLD": t.Hidden.(string)} }}, []string{"hidden"}, "GOLD"},
		{"the answer in the task", spoilt{task: func(t *envs.Task) {
			t.Messages = append(t.Messages, trajectory.Text(trajectory.System, "Never say "+t.Hidden.(string)))
		}}, []string{"hidden"}, "system message"},
		{"the answer in a tool", spoilt{tools: func(t envs.Task) []tool.Def {
			return []tool.Def{{
				Spec: trajectory.ToolSpec{Name: "hint", Description: "Gives " + t.Hidden.(string), Parameters: []byte(`{"type":"object","properties":{}}`)},
				Open: func(*tool.Scope) (tool.Handler, error) { return nil, nil },
			}}
		}}, []string{"hidden"}, "tool hint"},
		{"other rows each time", spoilt{rows: func() string {
			return fmt.Sprintf("{\"id\":\"r%d\",\"prompt\":\"p\",\"answer\":\"marmalade\"}\n", n.Add(1))
		}}, []string{"rows"}, "differs"},
		{"no rows", spoilt{rows: func() string { return "" }}, []string{"rows"}, "no rows"},
		{"one id twice", spoilt{rows: func() string {
			return strings.Repeat("{\"id\":\"same\",\"prompt\":\"p\",\"answer\":\"marmalade\"}\n", 2)
		}}, []string{"rows"}, "same"},
		{"another task each time", spoilt{task: func(t *envs.Task) {
			t.Messages = []trajectory.Message{trajectory.Text(trajectory.User, fmt.Sprint("task ", n.Add(1)))}
		}}, []string{"tasks"}, "another task"},
		{"a task without words", spoilt{task: func(t *envs.Task) { t.Messages = nil }}, []string{"tasks"}, "no messages"},
		{"a task that panics", spoilt{task: func(*envs.Task) { panic("boo") }}, []string{"tasks", "oracle"}, "boo"},
	}
	play := playtest.New(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var failed []string
			said := ""
			envtest.Check(t.Context(), tt.env, play, envtest.Options{Rows: 2, Repeats: 3, AtOnce: 1}, func(r envtest.Report) {
				if r.Err != nil {
					failed = append(failed, r.Name)
					said += r.Name + ": " + r.Err.Error() + "\n"
				}
			})
			for _, name := range tt.caught {
				if !slices.Contains(failed, name) {
					t.Errorf("%s does not catch it; caught by %v", name, failed)
				}
			}
			if !strings.Contains(said, tt.says) {
				t.Errorf("want %q in:\n%s", tt.says, said)
			}
		})
	}
}

package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermes/configs"
	"hermes/envs"
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/runs/rollouts"
	"hermes/internal/settings"
)

// Run evaluates, one run directory for each cell of the suite's matrix. The error, if
// any, has its exit code.
func (e Eval) Run(ctx context.Context, h build.Host, each func(Evaluated) error) (err error) {
	defer func() {
		if e.env != nil {
			if err := e.env.Close(); err != nil {
				fmt.Fprintf(h.Err, "hermes: close the environment: %v\n", err)
			}
		}
	}()
	if err := e.resolve(ctx, h); err != nil {
		return exit.Usage(err)
	}
	cells, err := e.cells()
	if err != nil {
		return exit.Usage(err)
	}
	matrix, begun := filepath.Join(e.Out, e.RunFlags.Run+matrixSuffix), false
	if len(cells) > 1 {
		if err := noRun(matrix); err != nil {
			return exit.Usage(err)
		}
		defer func() {
			if !begun {
				return
			}
			if merr := e.matrix(context.WithoutCancel(ctx), matrix, cells); merr != nil && err == nil {
				err = merr
			}
		}()
	}
	var worst error
	for _, b := range cells {
		done, err := e.one(ctx, h, b)
		if done.Report != nil || b.DryRun {
			begun = begun || done.Report != nil
			if err := each(done); err != nil {
				return err
			}
		}
		if err != nil && !exit.IsFailures(err) || ctx.Err() != nil {
			return err
		}
		worst = cmp.Or(worst, err)
	}
	return worst
}

// matrix writes the common report of the cells, also where not all of them were begun.
func (e *Eval) matrix(ctx context.Context, dir string, cells []cell) error {
	list := matrixCells{Suite: e.suite.Name}
	for _, b := range cells {
		list.Runs = append(list.Runs, b.RunFlags.Run)
	}
	err := openMatrix(dir, list)
	if err != nil {
		return exit.Ours(err)
	}
	m, err := WriteMatrix(ctx, dir, "", e.Strict)
	if err == nil && e.Matrix != nil {
		err = e.Matrix(dir, m)
	}
	return err
}

// resolve finds out what is asked and by what it is judged.
func (e *Eval) resolve(ctx context.Context, h build.Host) error {
	ev := &e.suite
	name := e.Env
	split := e.Split
	set := e.Set
	if s := e.Suite; s != nil {
		ev.Name = s.Name
		e.Datasets = s.Dataset
		name = s.Env
		split = cmp.Or(e.Split, s.Split)
		for _, k := range slices.Sorted(maps.Keys(s.Set)) {
			v, err := json.Marshal(s.Set[k])
			if err != nil {
				return fmt.Errorf("set %s: %w", k, err)
			}
			set = slices.Insert(set, 0, k+"="+string(v)) // the command line's come behind and win
		}
	} else if e.Target != "" {
		if _, err := os.Stat(e.Target); err != nil && !strings.Contains(e.Target, ":") && e.Target != "-" {
			if slices.ContainsFunc(h.Envs, func(k envs.Kind) bool { return k.Name == e.Target }) {
				return fmt.Errorf("%s is an environment: hermes env evaluate %s", e.Target, e.Target)
			}
			return fmt.Errorf("%s is neither a suite (have %s, or a YAML file) nor a dataset: %w", e.Target, strings.Join(configs.Suites(), ", "), err)
		}
		e.Datasets = []string{e.Target}
	}
	if name != "" {
		env, err := build.OpenEnv(ctx, name, envs.Split(cmp.Or(split, string(envs.Eval))), set, h.Section("envs"), h.Envs)
		if err != nil {
			return err
		}
		e.env, ev.Judge = env, "environment "+name // closed by Run from here on
		if e.Grader != "" || e.Suite != nil && e.Suite.Grader != nil {
			return fmt.Errorf("grader: the environment %s scores by itself", name)
		}
		ev.Name = cmp.Or(ev.Name, name)
		if e.RunFlags.Run == "" {
			e.RunFlags.Run = ev.Name + map[bool]string{true: "-eval"}[e.Suite == nil]
		}
		e.Layers = append(e.Layers, configs.Setting{Name: "env-set", Value: mustJSON(set)}, configs.Setting{Name: "env-split", Value: string(env.Split)})
	} else {
		if err := e.chooseGrader(ctx, h); err != nil {
			return err
		}
		if ev.Name == "" {
			ev.Name = settings.Batch{Datasets: e.Datasets}.Name()
		}
		e.RunFlags.Run = cmp.Or(e.RunFlags.Run, ev.Name)
	}
	return nil
}

func mustJSON(v any) string {
	raw, _ := json.Marshal(v) // texts
	return string(raw)
}

// one runs one cell and writes its report, also where it stopped early. W&B hears of the
// report's figures, too.
func (e *Eval) one(ctx context.Context, h build.Host, b cell) (Evaluated, error) {
	tracked := &build.Tracked{}
	done, err := e.report(ctx, h, b, tracked)
	if done.Report != nil {
		tracked.Log(done.Books.Done(), done.Report.Scalars())
	}
	tracked.Close(h, err)
	return done, err
}

// report runs one cell and writes its report.
func (e *Eval) report(ctx context.Context, h build.Host, b cell, tracked *build.Tracked) (Evaluated, error) {
	done := Evaluated{Dir: filepath.Join(b.Out, b.RunFlags.Run)}
	books, err := e.Roll(ctx, h, rollouts.Request{Batch: b.Batch, Layers: slices.Concat(e.Layers, b.chosen), Env: e.env, Suite: &e.suite, Tracked: tracked})
	done.Books = books
	if b.DryRun || err != nil && books.Planned == 0 {
		return done, err
	}
	if exit.IsUsage(err) {
		return done, err
	}
	r, rerr := WriteReport(context.WithoutCancel(ctx), done.Dir, "", e.Strict)
	if errors.Is(rerr, errNoSamples) && err != nil {
		return done, err // it stopped before anything was finished; why is said already
	}
	if rerr != nil {
		return done, errors.Join(err, exit.Ours(rerr))
	}
	done.Report = r
	if err == nil && r.Refused != "" {
		err = exit.Failures(errors.New(r.Refused))
	}
	return done, err
}

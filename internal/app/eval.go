package app

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

	"go.yaml.in/yaml/v3"

	"hermes/configs"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/grade/figures"
	"hermes/envs/grade/report"
	"hermes/trajectory/stats"
)

// Eval is everything that `hermes eval run` can be told.
type Eval struct {
	Batch
	Target string         // what was named: a suite or a dataset
	Suite  *configs.Suite // nil: Target is a dataset
	Env    string         // an environment, instead of both
	Split  string
	Set    []string
	Strict bool
	// Matrix is told what the runs of a suite's matrix came to together; nil: nobody.
	Matrix func(dir string, m *report.Matrix) error
}

// evaluation is what a batch knows of the evaluation that it is.
type evaluation struct{ suite, grader string }

// Evaluated is one run of an evaluation.
type Evaluated struct {
	Dir    string
	Books  stats.Statistics
	Report *report.Report // nil: the run did not begin
}

// Run evaluates, one run directory for each cell of the suite's matrix. The error, if
// any, is an *Error.
func (e Eval) Run(ctx context.Context, h Host, each func(Evaluated) error) (err error) {
	defer func() {
		if e.Batch.Env != nil {
			if err := e.Batch.Env.Close(); err != nil {
				fmt.Fprintf(h.Err, "hermes: close the environment: %v\n", err)
			}
		}
	}()
	if err := e.resolve(ctx, h); err != nil {
		return usage(err)
	}
	cells, err := e.cells()
	if err != nil {
		return usage(err)
	}
	matrix, begun := filepath.Join(e.Out, e.RunFlags.Run+matrixSuffix), false
	if len(cells) > 1 {
		if err := noRun(matrix); err != nil {
			return usage(err)
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
		var coded *Error
		if err != nil && (!errors.As(err, &coded) || coded.Code != codeFailures) || ctx.Err() != nil {
			return err
		}
		worst = cmp.Or(worst, err)
	}
	return worst
}

// matrix writes the common report of the cells, also where not all of them were begun.
func (e *Eval) matrix(ctx context.Context, dir string, cells []Batch) error {
	list := matrixCells{Suite: e.Batch.eval.suite}
	for _, b := range cells {
		list.Runs = append(list.Runs, b.RunFlags.Run)
	}
	err := openMatrix(dir, list)
	if err != nil {
		return &Error{Code: codeOurs, Err: room(err)}
	}
	m, err := WriteMatrix(ctx, dir, "", e.Strict)
	if err == nil && e.Matrix != nil {
		err = e.Matrix(dir, m)
	}
	return err
}

// resolve finds out what is asked and by what it is judged.
func (e *Eval) resolve(ctx context.Context, h Host) error {
	ev := &evaluation{}
	name, split, set := e.Env, e.Split, e.Set
	if s := e.Suite; s != nil {
		ev.suite, e.Datasets, name, split = s.Name, s.Dataset, s.Env, cmp.Or(e.Split, s.Split)
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
		env, err := OpenEnv(ctx, name, envs.Split(cmp.Or(split, string(envs.Eval))), set, h.Section("envs"), h.Envs)
		if err != nil {
			return err
		}
		if e.Grader != "" || e.Suite != nil && e.Suite.Grader != nil {
			return fmt.Errorf("grader: the environment %s scores by itself", name)
		}
		e.Batch.Env, ev.grader = env, "environment "+name
		ev.suite = cmp.Or(ev.suite, name)
		if e.RunFlags.Run == "" {
			e.RunFlags.Run = ev.suite + map[bool]string{true: "-eval"}[e.Suite == nil]
		}
		e.Settings = append(e.Settings, configs.Setting{Name: "env-set", Value: mustJSON(set)}, configs.Setting{Name: "env-split", Value: string(env.Split)})
	} else {
		if err := e.grader(ctx, h); err != nil {
			return err
		}
		if ev.suite == "" {
			ev.suite = RunName(e.Datasets)
		}
		if e.RunFlags.Run == "" {
			e.RunFlags.Run = ev.suite
		}
	}
	e.Batch.eval = ev
	return nil
}

func mustJSON(v any) string {
	raw, _ := json.Marshal(v) // texts
	return string(raw)
}

// grader settles what judges: the command line's, else the suite's. The samples bring
// their own.
func (e *Eval) grader(ctx context.Context, h Host) error {
	if e.Grader == "" && e.Suite != nil && e.Suite.Grader != nil {
		text, err := graderText(e.Suite.Grader)
		if err != nil {
			return err
		}
		e.Grader = text
	}
	if e.Grader == "" && strings.HasPrefix(e.Datasets[0], "samples:") {
		e.Grader = "row"
	}
	if e.Grader == "" {
		return e.candidates(ctx, h)
	}
	return nil
}

// graderText is a suite's grader as --grader takes it: a name, or JSON.
func graderText(n *yaml.Node) (string, error) {
	if n.Kind == yaml.ScalarNode {
		return n.Value, nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return "", fmt.Errorf("grader: %w", err)
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}

// first reads the first rows of the dataset.
func (e *Eval) first(ctx context.Context, h Host, n int64) (rows []datasets.Row, err error) {
	if slices.Contains(e.Datasets, "-") {
		return nil, errors.New("rows from stdin cannot be looked at twice: name a grader with --grader")
	}
	o := datasets.Options{PromptKey: e.PromptKey, Limit: n, Hub: Hub(h.Env, e.Offline)}
	if o.Map, err = datasets.ParseMap(strings.Join(e.Map, ",")); err != nil {
		return nil, err
	}
	d, err := OpenRows(ctx, o, e.Datasets...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for row, err := range d.Rows(ctx) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, ctx.Err()
}

// cells are the runs of the matrix; without one it is the run itself.
func (e *Eval) cells() ([]Batch, error) {
	if e.Suite == nil || len(e.Suite.Matrix) == 0 {
		return []Batch{e.Batch}, nil
	}
	models, sets := e.Suite.Matrix["model"], e.Suite.Matrix["toolsets"]
	if len(models) > 0 && e.given("model") || len(sets) > 0 && e.given("toolsets") {
		return nil, fmt.Errorf("suite %s: its matrix names models or toolsets, so --model and --toolsets cannot", e.Suite.Name)
	}
	var out []Batch
	taken := map[string]bool{}
	for _, m := range append(models, nil)[:max(1, len(models))] {
		for _, s := range append(sets, nil)[:max(1, len(sets))] {
			b := e.Batch
			name := b.RunFlags.Run
			if len(m) > 1 {
				return nil, fmt.Errorf("suite %s: matrix: a model is one text, not %q", e.Suite.Name, m)
			}
			if len(m) == 1 {
				b.Model = m[0]
				name += "-" + plainName(m[0])
			}
			if s != nil {
				b.Toolsets = strings.Split(strings.Join(s, ","), ",")
				name += "-" + plainName(strings.Join(b.Toolsets, "+"))
			}
			if taken[name] {
				return nil, fmt.Errorf("suite %s: two cells of the matrix would be called %s", e.Suite.Name, name)
			}
			taken[name] = true
			b.RunFlags.Run = name
			out = append(out, b)
		}
	}
	return out, nil
}

// given reports whether somebody set a flag.
func (e *Eval) given(flag string) bool {
	return slices.ContainsFunc(e.Settings, func(s configs.Setting) bool { return s.Name == flag && s.Layer != configs.FromDefault })
}

// plainName makes a text fit to be part of a folder's name.
func plainName(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-+", r):
			return r
		}
		return '_'
	}, text)
}

// one runs one cell and writes its report, also where it stopped early. W&B hears of the
// report's figures, too.
func (e *Eval) one(ctx context.Context, h Host, b Batch) (Evaluated, error) {
	b.tracked = &tracked{}
	done, err := e.report(ctx, h, b)
	if done.Report != nil {
		b.tracked.log(done.Books.Done(), done.Report.Scalars())
	}
	b.tracked.close(h, err)
	return done, err
}

// report runs one cell and writes its report.
func (e *Eval) report(ctx context.Context, h Host, b Batch) (Evaluated, error) {
	done := Evaluated{Dir: filepath.Join(b.Out, b.RunFlags.Run)}
	books, err := b.Run(ctx, h)
	done.Books = books
	if b.DryRun || err != nil && books.Planned == 0 {
		return done, err
	}
	var coded *Error
	if errors.As(err, &coded) && coded.Code == codeUsage {
		return done, err
	}
	r, rerr := WriteReport(context.WithoutCancel(ctx), done.Dir, "", e.Strict)
	if errors.Is(rerr, errNoSamples) && err != nil {
		return done, err // it stopped before anything was finished; why is said already
	}
	if rerr != nil {
		return done, errors.Join(err, &Error{Code: codeOurs, Err: room(rerr)})
	}
	done.Report = r
	if err == nil && r.Refused != "" {
		err = &Error{Code: codeFailures, Err: errors.New(r.Refused)}
	}
	return done, err
}

// sayPower tells, before anything is spent, what the evaluation will be able to find.
func (b *batch) sayPower() {
	n := int(b.report.Rows)
	if b.eval == nil || n == 0 {
		return
	}
	fmt.Fprintf(b.host.Err, "hermes: %d tasks, %d rollouts each: a comparison of two such runs finds differences of %.3f and more "+
		"(80 %% power, 5 %% significance, rates near 0.5, results that correlate by 0.5; unrelated ones: %.3f)\n",
		n, b.Rollouts, figures.MDE(n, 0.5, 0.5, 0.05, 0.8), figures.MDE(n, 0.5, 0, 0.05, 0.8))
}

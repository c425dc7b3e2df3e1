package cmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"hermes/configs"
	"hermes/envs/grade/report"
	"hermes/internal/runs/batch"
	"hermes/internal/runs/eval"
	"hermes/internal/settings"
)

// evalCmd is `hermes eval`.
type evalCmd struct {
	List    evalList    `cmd:"" help:"List the suites."`
	Run     evalRun     `cmd:"" help:"Evaluate a model: run a suite and write its report."`
	Score   evalScore   `cmd:"" help:"Score the samples of a run again, without sampling."`
	Compare evalCompare `cmd:"" help:"Compare two runs of a suite, sample by sample."`
	Report  evalReport  `cmd:"" help:"Write the report of a run again."`
}

// evaluate runs e and tells of every run of it.
func (h *host) evaluate(e eval.Eval) error {
	e.Layers, e.Roll = h.Layers.Settings(h.parsed), batch.Run
	e.Matrix = func(dir string, m *report.Matrix) error {
		fmt.Fprintf(h.Stdio.Err, "hermes: the runs side by side: %s\n", filepath.Join(dir, "matrix.html"))
		if e.JSON {
			return printJSON(h.Stdio.Out, m)
		}
		return m.Text(h.Stdio.Out)
	}
	return exitOf(e.Run(h.Ctx, h.build(), func(done eval.Evaluated) error {
		h.flushLogs()
		summary(h.Stdio.Err, done.Books)
		if done.Report == nil {
			return nil
		}
		fmt.Fprintf(h.Stdio.Err, "hermes: the report is in %s\n", filepath.Join(done.Dir, "report.html"))
		if e.JSON {
			return printJSON(h.Stdio.Out, done.Report)
		}
		_, err := fmt.Fprintf(h.Stdio.Out, "%s: %s\n", done.Dir, done.Report.Line())
		return err
	}))
}

type evalList struct {
	JSON bool `name:"json" nokey:"" help:"A JSON array."`
}

// Run lists the embedded suites; a suite of the user's is a file.
func (c *evalList) Run(h *host) error {
	type line struct {
		Name    string `json:"name"`
		Summary string `json:"summary"`
	}
	list := []line{}
	for _, name := range configs.Suites() {
		s, err := configs.ReadSuite(name)
		if err != nil {
			return err
		}
		list = append(list, line{name, s.Description})
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, list)
	}
	w := tabwriter.NewWriter(h.Stdio.Out, 0, 0, 2, ' ', 0)
	for _, l := range list {
		fmt.Fprintf(w, "%s\t%s\n", l.Name, l.Summary)
	}
	return w.Flush()
}

type evalRun struct{ settings.EvalRun }

// Run evaluates.
func (c *evalRun) Run(h *host) error {
	suite, err := configs.ReadSuite(c.Suite)
	if err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	return h.evaluate(eval.Eval{Batch: c.Batch(), Strict: c.Strict, Target: c.Suite, Suite: suite, Split: c.Split, Set: c.Set})
}

type envEvaluate struct{ settings.EnvEvaluate }

// Run evaluates on one environment.
func (c *envEvaluate) Run(h *host) error {
	return h.evaluate(eval.Eval{Batch: c.Batch(), Strict: c.Strict, Env: c.Name, Split: c.Split, Set: c.Settings()})
}

// evaluation tells the layers of settings what an evaluation does differently: failures
// count, faults of the model are shown and scored; and the suite that is run.
func evaluation(trace *kong.Context, o *configs.Options) error {
	if n := trace.Selected(); n == nil || n.Path() != "eval run" && n.Path() != "env evaluate" {
		return nil
	}
	base := "faults: show\nfail-on-error: \"0\"\n"
	if trace.Selected().Name == "evaluate" { // a suite may say otherwise
		base += "split: eval\n"
	}
	var err error
	o.Base, err = configs.Read("evaluation", []byte(base))
	if err != nil {
		return err
	}
	for _, p := range trace.Path {
		if p.Positional != nil && p.Positional.Name == "suite" {
			if name, ok := trace.Value(p).Interface().(string); ok {
				o.Suite, err = configs.ReadSuite(name)
			}
		}
	}
	return err
}

type evalScore struct {
	settings.Rescore
	runPlace
}

// Run scores again.
func (c *evalScore) Run(h *host) error {
	dir, err := c.dir(c.Name)
	if err != nil {
		return err
	}
	ctx, stop := h.untilSignal()
	defer stop()
	r, err := eval.Rescore(ctx, h.build(), c.Rescore, dir)
	if r.Report == nil {
		return exitOf(err)
	}
	fmt.Fprintf(h.Stdio.Err, "%d scored, %d without anything to be judged by, %d failed by our fault, %d errors of the grader; %d played again in a box; %d rewards changed: %s\n",
		r.Scored, r.Unscored, r.Kept, r.Errors, r.Replayed, r.Changed, r.File)
	return errors.Join(exitOf(err), h.result(c.JSON, r, "%s: %s\n", dir, r.Report.Line()))
}

type evalCompare struct {
	A      string `arg:"" help:"Run: a name or a path."`
	B      string `arg:"" help:"Another run of the same suite."`
	Scores string `help:"Compare the scores of this name, made by 'hermes eval score'." placeholder:"NAME"`
	runPlace
}

// Run compares.
func (c *evalCompare) Run(h *host) error {
	dirs, err := c.dirs([]string{c.A, c.B})
	if err != nil {
		return err
	}
	d, err := eval.Compare(h.Ctx, dirs[0], dirs[1], c.Scores)
	if err != nil {
		return runError(exitOf(err))
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, d)
	}
	return d.Text(h.Stdio.Out)
}

type evalReport struct {
	Name   string `arg:"" name:"run" help:"Run, or the folder of a matrix: a name or a path."`
	Scores string `help:"Report the scores of this name, made by 'hermes eval score'." placeholder:"NAME"`
	Strict bool   `help:"No figure while a planned sample has no score; exit code 3 then."`
	Events string `name:"tensorboard" help:"Also write an event file for TensorBoard into this folder." placeholder:"DIR"`
	Step   int64  `range:"0:" help:"Step of the event file: that of the checkpoint which was evaluated."`
	runPlace
}

// Run writes the report.
func (c *evalReport) Run(h *host) error {
	for _, dir := range []string{c.Name, filepath.Join(c.Out, c.Name)} {
		if eval.IsMatrix(dir) {
			return c.matrix(h, filepath.Clean(dir))
		}
	}
	dir, err := c.dir(c.Name)
	if err != nil {
		return err
	}
	r, err := eval.WriteReport(h.Ctx, dir, c.Scores, c.Strict)
	if err == nil && c.Events != "" {
		err = eval.WriteEvents(dir, c.Events, c.Step, r)
	}
	if err != nil {
		return runError(exitOf(err))
	}
	err = h.result(c.JSON, r, "%s: %s\n", dir, r.Line())
	if err == nil && r.Refused != "" {
		err = &Exit{Code: ExitFailures, Err: errors.New(r.Refused)}
	}
	return err
}

// matrix writes the report of several runs.
func (c *evalReport) matrix(h *host, dir string) error {
	if c.Events != "" {
		return Usage("--tensorboard: %s is a matrix; name one of its runs", dir)
	}
	m, err := eval.WriteMatrix(h.Ctx, dir, c.Scores, c.Strict)
	if err != nil {
		return runError(exitOf(err))
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, m)
	}
	return m.Text(h.Stdio.Out)
}

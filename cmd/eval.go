package cmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"hermes/configs"
	"hermes/envs/grade/report"
	"hermes/internal/app"
)

// evalCmd is `hermes eval`.
type evalCmd struct {
	List    evalList    `cmd:"" help:"List the suites."`
	Run     evalRun     `cmd:"" help:"Evaluate a model: run a suite and write its report."`
	Score   evalScore   `cmd:"" help:"Score the samples of a run again, without sampling."`
	Compare evalCompare `cmd:"" help:"Compare two runs of a suite, sample by sample."`
	Report  evalReport  `cmd:"" help:"Write the report of a run again."`
}

// evalFlags are what evaluations of suites and environments have in common.
type evalFlags struct {
	Strict bool `help:"No figure while a planned sample has no score; exit code 3 then."`
	app.PartsFlags
	app.RowFlags  `group:"Rows:"`
	app.RunFlags  `group:"The run:"`
	app.RoleFlags `group:"Other models:"`
}

func (c *evalFlags) batch(h *host) app.Batch {
	return app.Batch{PartsFlags: c.PartsFlags, RowFlags: c.RowFlags, RunFlags: c.RunFlags, RoleFlags: c.RoleFlags,
		Settings: h.Layers.Settings(h.parsed)}
}

// evaluate runs e and tells of every run of it.
func (c *evalFlags) evaluate(h *host, e app.Eval) error {
	e.Strict = c.Strict
	e.Matrix = func(dir string, m *report.Matrix) error {
		fmt.Fprintf(h.Stdio.Err, "hermes: the runs side by side: %s\n", filepath.Join(dir, "matrix.html"))
		if c.JSON {
			return printJSON(h.Stdio.Out, m)
		}
		return m.Text(h.Stdio.Out)
	}
	return exitOf(e.Run(h.Ctx, h.app(), func(done app.Evaluated) error {
		h.flushLogs()
		e.Summary(h.Stdio.Err, done.Books)
		if done.Report == nil {
			return nil
		}
		fmt.Fprintf(h.Stdio.Err, "hermes: the report is in %s\n", filepath.Join(done.Dir, "report.html"))
		if c.JSON {
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

type evalRun struct {
	Suite           string   `arg:"" help:"Suite: a YAML file or one of ${suites}; or a dataset, with --grader."`
	Split           string   `enum:",train,eval" default:"" help:"Rows of a suite's environment: train or eval (default: the suite's, else eval)."`
	Set             []string `sep:"none" help:"KEY=VALUE: a setting of the suite's environment; may repeat." placeholder:"KEY=VALUE"`
	app.PromptFlags `group:"Prompts:"`
	evalFlags
}

// Run evaluates.
func (c *evalRun) Run(h *host) error {
	suite, err := configs.ReadSuite(c.Suite)
	if err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	b := c.batch(h)
	b.PromptFlags = c.PromptFlags
	return c.evaluate(h, app.Eval{Batch: b, Target: c.Suite, Suite: suite, Split: c.Split, Set: c.Set})
}

type envEvaluate struct {
	app.EnvFlags
	evalFlags
}

// Run evaluates on one environment.
func (c *envEvaluate) Run(h *host) error {
	return c.evaluate(h, app.Eval{Batch: c.batch(h), Env: c.Name, Split: c.EnvFlags.Split, Set: c.EnvFlags.Set})
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
	if o.Base, err = configs.Read("evaluation", []byte(base)); err != nil {
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
	Name     string   `arg:"" name:"run" help:"Run: a name or a path."`
	Grader   string   `help:"By what to judge: a grader, a list of graders or a file (default: as the run was)." placeholder:"NAME"`
	As       string   `name:"scores" default:"again" help:"Name of the scores: scores/NAME.jsonl in the run directory." placeholder:"NAME"`
	Datasets []string `name:"dataset" help:"Where the run's dataset is now." placeholder:"FILE"`
	Set      []string `sep:"none" help:"KEY=VALUE: a setting of the run's environment." placeholder:"KEY=VALUE"`
	Strict   bool     `help:"No figure while a planned sample has no score; exit code 3 then."`
	Backend  string   `default:"auto" help:"Where boxes are restored, for graders that need one." placeholder:"NAME"`
	Image    string   `help:"Image of boxes whose row names none (default: the run's)." placeholder:"IMAGE"`
	app.JudgeFlags
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
	o := app.Rescore{Grader: c.Grader, Name: c.As, Datasets: c.Datasets, Set: c.Set, Strict: c.Strict, JudgeFlags: c.JudgeFlags, ToolFlags: app.ToolFlags{Backend: c.Backend, Image: c.Image}}
	r, err := o.Run(ctx, h.app(), dir)
	if r.Report == nil {
		return exitOf(err)
	}
	fmt.Fprintf(h.Stdio.Err, "%d scored, %d without anything to be judged by, %d failed by our fault, %d errors of the grader; %d played again in a box; %d rewards changed: %s\n",
		r.Scored, r.Unscored, r.Kept, r.Errors, r.Replayed, r.Changed, r.File)
	if c.JSON {
		return errors.Join(exitOf(err), printJSON(h.Stdio.Out, r))
	}
	_, perr := fmt.Fprintf(h.Stdio.Out, "%s: %s\n", dir, r.Report.Line())
	return errors.Join(exitOf(err), perr)
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
	d, err := app.Compare(h.Ctx, dirs[0], dirs[1], c.Scores)
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
		if app.IsMatrix(dir) {
			return c.matrix(h, filepath.Clean(dir))
		}
	}
	dir, err := c.dir(c.Name)
	if err != nil {
		return err
	}
	r, err := app.WriteReport(h.Ctx, dir, c.Scores, c.Strict)
	if err == nil && c.Events != "" {
		err = app.WriteEvents(dir, c.Events, c.Step, r)
	}
	if err != nil {
		return runError(exitOf(err))
	}
	if c.JSON {
		err = printJSON(h.Stdio.Out, r)
	} else {
		_, err = fmt.Fprintf(h.Stdio.Out, "%s: %s\n", dir, r.Line())
	}
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
	m, err := app.WriteMatrix(h.Ctx, dir, c.Scores, c.Strict)
	if err != nil {
		return runError(exitOf(err))
	}
	if c.JSON {
		return printJSON(h.Stdio.Out, m)
	}
	return m.Text(h.Stdio.Out)
}

package settings

import (
	"time"
)

// Evaluate is what evaluations of suites and of environments can both be given.
type Evaluate struct {
	Strict bool `help:"No figure while a planned sample has no score; exit code 3 then."`
	PartsFlags
	RowFlags  `group:"Rows:"`
	RunFlags  `group:"The run:"`
	RoleFlags `group:"Other models:"`
}

// Batch is what each run of the evaluation is rolled out with.
func (e Evaluate) Batch() Batch {
	return Batch{PartsFlags: e.PartsFlags, RowFlags: e.RowFlags, RunFlags: e.RunFlags, RoleFlags: e.RoleFlags}
}

// EvalRun is what `hermes eval run` can be given.
type EvalRun struct {
	Suite       string   `arg:"" help:"Suite: a YAML file or one of ${suites}; or a dataset, with --grader."`
	Split       string   `enum:",train,eval" default:"" help:"Rows of a suite's environment: train or eval (default: the suite's, else eval)."`
	Set         []string `sep:"none" help:"KEY=VALUE: a setting of the suite's environment; may repeat." placeholder:"KEY=VALUE"`
	PromptFlags `group:"Prompts:"`
	Evaluate
}

// Batch is what each run of the suite is rolled out with.
func (e EvalRun) Batch() Batch {
	b := e.Evaluate.Batch()
	b.PromptFlags = e.PromptFlags
	return b
}

// EnvEvaluate is what `hermes env evaluate` can be given.
type EnvEvaluate struct {
	EnvFlags
	Evaluate
}

// JudgeFlags are the models that judge stored samples.
type JudgeFlags struct {
	BaseURL     []string `name:"base-url" sep:"none" help:"Server of judges whose role names none; ends in /v1. May repeat." placeholder:"URL"`
	APIKeyEnv   []string `name:"api-key-env" default:"OPENAI_API_KEY" help:"Environment variables that hold keys of --base-url; HOST=NAME for a judge elsewhere." placeholder:"NAME"`
	Concurrency int      `aliases:"in-flight" default:"64" range:"1:" help:"Samples that are judged by models at once."`
	BudgetFlags
	RoleFlags
}

// Parts is what the models of judges are opened with. The run's own model is not asked.
func (f JudgeFlags) Parts() (Parts, error) {
	p, err := NewParts(PartsFlags{ModelFlags: ModelFlags{BaseURL: f.BaseURL, APIKeyEnv: f.APIKeyEnv, Server: "auto", Affinity: "rollout", PromptCache: "auto",
		RequestTimeout: 10 * time.Minute, IdleTimeout: 2 * time.Minute, RequestRetries: 5, Stream: true}, BudgetFlags: f.BudgetFlags}, false)
	p.Requests = f.Concurrency
	return p, err
}

// Rescore is what `hermes eval score` can be given.
type Rescore struct {
	Name     string   `arg:"" name:"run" help:"Run: a name or a path."`
	Grader   string   `help:"By what to judge: a grader, a list of graders or a file (default: as the run was)." placeholder:"NAME"`
	Scores   string   `name:"scores" default:"again" help:"Name of the scores: scores/NAME.jsonl in the run directory." placeholder:"NAME"`
	Datasets []string `name:"dataset" help:"Where the run's dataset is now." placeholder:"FILE"`
	Set      []string `sep:"none" help:"KEY=VALUE: a setting of the run's environment." placeholder:"KEY=VALUE"`
	Strict   bool     `help:"No figure while a planned sample has no score; exit code 3 then."`
	Backend  string   `default:"auto" help:"Where boxes are restored, for graders that need one." placeholder:"NAME"`
	Image    string   `help:"Image of boxes whose row names none (default: the run's)." placeholder:"IMAGE"`
	JudgeFlags
}

// Tools are the boxes in which samples are played again.
func (r Rescore) Tools() ToolFlags { return ToolFlags{Backend: r.Backend, Image: r.Image} }

package settings

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"hermes/rollout/policy"
)

// EnvFlags choose an environment.
type EnvFlags struct {
	Name  string   `arg:"" name:"environment" help:"Environment, as 'hermes env list' has it; or a program: ./env.py, 'cmd:python3 env.py', http://…"`
	Split string   `enum:"train,eval" default:"train" help:"Rows: train or eval."`
	Set   []string `sep:"none" help:"KEY=VALUE: a setting of the environment, over the run file's section envs; may repeat." placeholder:"KEY=VALUE"`

	Workers int `range:"0:256" default:"0" help:"Processes of an environment that is a program (default: one a CPU)."`
}

// ServeFlags say how environments are served to a trainer.
type ServeFlags struct {
	API                string        `name:"api" default:"http://127.0.0.1:8000" help:"Trajectory server, such as 'hermes run-api'." placeholder:"URL"`
	APITokenEnv        string        `name:"api-token-env" help:"Environment variable that holds the trajectory server's token." placeholder:"NAME"`
	EnvName            string        `name:"env-name" help:"Name to register under (default: the environment's)." placeholder:"NAME"`
	InferenceWeight    float64       `name:"inference-weight" default:"1" help:"Weight among the environments of the trajectory server; those of NAME=WEIGHT share it."`
	MaxTokenLength     int           `name:"max-token-length" default:"2048" range:"1:" help:"Longest sequence that is registered; the trainer's own limit is what counts."`
	MinBatchAllocation *float64      `name:"min-batch-allocation" range:"0:1" help:"Share of each batch that each environment wants." placeholder:"SHARE"`
	OffPolicy          int           `name:"max-batches-offpolicy" default:"3" help:"Batches in the trainer's queue beyond which nothing new is begun; 0 or less: no bound."`
	TotalSteps         int64         `name:"total-steps" default:"0" range:"-1:" help:"Trainer steps after which it ends (default: the trainer's number; -1: never)."`
	StepsPerEval       int64         `name:"steps-per-eval" default:"100" help:"Trainer steps between two evaluations; 0: none."`
	EvalHandling       string        `name:"eval-handling" enum:"STOP_TRAIN,LIMIT_TRAIN,NONE" default:"STOP_TRAIN" help:"Training rollouts during an evaluation: STOP_TRAIN, LIMIT_TRAIN, NONE."`
	EvalLimitRatio     float64       `name:"eval-limit-ratio" default:"0.5" range:"0:1" help:"Share of the rollouts that LIMIT_TRAIN leaves."`
	EvalWorkers        int           `name:"eval-workers" default:"16" range:"1:" help:"Rollouts of an evaluation at once."`
	EvalRows           int64         `name:"eval-rows" default:"64" range:"1:" help:"Rows of the evaluation split that an evaluation uses."`
	LogAfter           int           `name:"log-after" default:"2" range:"1:" help:"Groups sent before metrics are written again."`
	EqualScores        string        `name:"equal-scores" enum:",drop,send,resample" default:"" help:"Groups whose scores are all the same: drop, send, resample (default: as the run file's section training says, else drop)."`
	MaxStaleGroups     int           `name:"max-stale-groups" default:"1000" range:"0:" help:"Groups in a row that no trainer can use (all rewards equal, say), behind which it ends; 0: it never does."`
	SendMessages       bool          `name:"send-messages" help:"Send the conversations with the tokens."`
	GroupsFile         string        `name:"groups-file" help:"Also write the groups that were sent into this file." placeholder:"FILE"`
	Forks              string        `enum:"reject,last" default:"reject" help:"A template that rewrites the past: reject it at the start, or send the last sequence of each sample."`
	Wait               time.Duration `default:"5m" range:"0s:" help:"How long to wait for a trainer at the start."`
	Poll               time.Duration `default:"250ms" range:"1ms:" help:"Time between two looks at the trainer's queue."`
	Shuffle            bool          `help:"Another seeded order of the rows in each epoch."`
	Limit              int64         `help:"Rows of an epoch."`
	Shard              string        `help:"i/n: this process takes part i of the rows and of the weight." placeholder:"I/N"`
}

// CompressFlags say how trajectories are made to fit.
type CompressFlags struct {
	TargetTokens  int           `name:"target-tokens" aliases:"target-max-tokens" default:"15250" range:"32:" help:"Tokens that a trajectory may have."`
	SummaryTokens int           `name:"summary-tokens" default:"750" range:"16:" help:"Tokens that a summary may have."`
	ProtectLast   int           `name:"protect-last" default:"4" range:"1:" help:"Last turns that stay as they are."`
	Summary       string        `enum:"model,extractive" default:"model" help:"Who writes summaries: model, or extractive (first words of each turn, no model)."`
	ModelRole     []string      `name:"model-role" sep:"none" help:"summary=MODEL[@URL]: the model that writes summaries (default: --model)." placeholder:"summary=MODEL[@URL]"`
	ModelFiles    string        `name:"model-files" help:"Tokenizer and chat template of the model that will read the data: a folder or hf:owner/name[@revision]." placeholder:"DIR|hf:NAME"`
	Tokenizer     string        `help:"Tokenizer that counts: a file, a folder, or builtin:words (default: of --model-files)." placeholder:"FILE|DIR"`
	Template      string        `help:"Chat template of exact runs, for the summary's tokens (default: of --model-files)." placeholder:"FILE|NAME"`
	TemplateVars  string        `name:"template-kwargs" help:"JSON object of template variables." placeholder:"JSON"`
	Retries       int           `default:"3" range:"0:" help:"Further tries of a summary that is empty or failed; then the extract takes its place."`
	Timeout       time.Duration `default:"300s" help:"Longest time for the summary of one trajectory."`
	SamplePercent float64       `name:"sample-percent" default:"100" help:"Take only this share of the rows, in percent, chosen by chance; the others are not in the output."`
	Seed          int64         `default:"42" help:"Seed of --sample-percent."`
	DryRun        bool          `name:"dry-run" help:"Count and tell what would be done; write nothing and ask no model."`
	Concurrency   int           `aliases:"in-flight" default:"50" range:"1:" help:"Trajectories at once."`
	StopAfter     int           `name:"stop-after-failures" default:"50" help:"Failed summaries in a row that stop the work, resumable; 0: none do."`
	Progress      string        `enum:"auto,plain,none" default:"auto" help:"auto, plain or none."`
	Offline       bool          `help:"Use only what the hub's cache holds."`
}

// JudgeFlags are the models that judge stored samples.
type JudgeFlags struct {
	BaseURL     []string `name:"base-url" sep:"none" help:"Server of judges whose role names none; ends in /v1. May repeat." placeholder:"URL"`
	APIKeyEnv   []string `name:"api-key-env" default:"OPENAI_API_KEY" help:"Environment variables that hold keys of --base-url; HOST=NAME for a judge elsewhere." placeholder:"NAME"`
	Concurrency int      `aliases:"in-flight" default:"64" range:"1:" help:"Samples that are judged by models at once."`
	BudgetFlags
	RoleFlags
}

// WandbFlags tell Weights & Biases of a run.
type WandbFlags struct {
	Wandb       string   `enum:"off,offline,online" default:"off" help:"Tell Weights & Biases of the run: off, offline (a file for 'wandb sync') or online."`
	WandbProj   string   `name:"wandb-project" help:"Project (default: WANDB_PROJECT, else hermes)." placeholder:"NAME"`
	WandbEntity string   `name:"wandb-entity" help:"User or team that the run belongs to (default: WANDB_ENTITY, else the key's)." placeholder:"NAME"`
	WandbName   string   `name:"wandb-name" help:"Name of the run there (default: that of the run directory)." placeholder:"NAME"`
	WandbGroup  string   `name:"wandb-group" help:"Group of runs that it belongs to." placeholder:"NAME"`
	WandbTags   []string `name:"wandb-tags" help:"Tags." placeholder:"TAG"`
	WandbKeyEnv string   `name:"wandb-api-key-env" default:"WANDB_API_KEY" help:"Environment variable that holds the key." placeholder:"NAME"`
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

// Parts is what the models of judges are opened with. The run's own model is not asked.
func (f JudgeFlags) Parts() (Parts, error) {
	p, err := NewParts(PartsFlags{ModelFlags: ModelFlags{BaseURL: f.BaseURL, APIKeyEnv: f.APIKeyEnv, Server: "auto", Affinity: "rollout", PromptCache: "auto",
		RequestTimeout: 10 * time.Minute, IdleTimeout: 2 * time.Minute, RequestRetries: 5, Stream: true}, BudgetFlags: f.BudgetFlags}, false)
	p.Requests = f.Concurrency
	return p, err
}

// List reads a setting of run.yaml that holds several values.
func List(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// Serve is what `hermes env serve` can be given.
type Serve struct {
	Envs []string `arg:"" name:"environment" help:"NAME or NAME=WEIGHT: environments, mixed by weight; may repeat."`
	Set  []string `sep:"none" help:"KEY=VALUE: a setting of the environment; NAME.KEY=VALUE of several; may repeat." placeholder:"KEY=VALUE"`
	ServeFlags
	PartsFlags
	RunFlags  `group:"The run:"`
	RoleFlags `group:"Other models:"`
}

// Batch is what one of the environments is rolled out with.
func (s Serve) Batch() Batch {
	return Batch{PartsFlags: s.PartsFlags, RowFlags: RowFlags{Limit: s.Limit, Shuffle: s.Shuffle, Shard: s.Shard, BadRows: "fail"}, RunFlags: s.RunFlags, RoleFlags: s.RoleFlags}
}

// Process is what `hermes env process` can be given.
type Process struct {
	EnvFlags
	Groups  int64 `range:"1:" default:"10" help:"Groups to roll out, one a row."`
	Shuffle bool  `help:"Seeded order of the rows."`
	PartsFlags
	RunFlags  `group:"The run:"`
	RoleFlags `group:"Other models:"`
}

// Batch is what the environment is rolled out with.
func (p Process) Batch() Batch {
	return Batch{PartsFlags: p.PartsFlags, RowFlags: RowFlags{Limit: p.Groups, Shuffle: p.Shuffle, BadRows: "fail"}, RunFlags: p.RunFlags, RoleFlags: p.RoleFlags}
}

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

// Chat is what `hermes chat` can be given.
type Chat struct {
	ModelFlags    `group:"Model and server:"`
	SamplingFlags `group:"Sampling:"`
	ProviderFlags `group:"OpenRouter:"`
	ChatFlags
}

// Parts is what the conversation's model, box and tools are made from.
func (c Chat) Parts() (Parts, error) {
	p, err := NewParts(PartsFlags{ModelFlags: c.ModelFlags, SamplingFlags: c.SamplingFlags, ProviderFlags: c.ProviderFlags,
		ToolFlags: ToolFlags{Toolsets: c.Toolsets, MissingTools: "drop", Backend: c.Backend, Image: c.Image}}, false)
	p.Requests = 4
	return p, err
}

// Compress is what `hermes compress` can be given.
type Compress struct {
	Inputs        []string `arg:"" name:"in" help:"Trajectories: .jsonl (also .gz, .zst), Parquet of a run, or a folder of them."`
	Into          string   `short:"o" required:"" nokey:"" placeholder:"FILE" help:"File to write: .jsonl, for Parquet .parquet. The originals, the log of rows and the metrics stand beside it."`
	Undo          bool     `nokey:"" help:"Bring the originals of a compressed file back."`
	Originals     string   `nokey:"" placeholder:"FILE" help:"With --undo: the file of the originals (default: beside the input)."`
	JSON          bool     `name:"json" nokey:"" help:"JSON on stdout."`
	ModelFlags    `group:"Model and server:"`
	SamplingFlags `group:"Sampling:"`
	BudgetFlags   `group:"Budget and price:"`
	CompressFlags
}

// Exact is what reads the tokenizer that counts and, of exact runs, the template.
func (c Compress) Exact() ExactFlags {
	return ExactFlags{Wire: "sglang", Exact: true, ModelFiles: c.ModelFiles, Tokenizer: c.Tokenizer, Template: c.Template, TemplateKwargs: c.TemplateVars, Dialect: "ours", History: "append"}
}

// Summarizer is what the model that writes summaries is opened with; named is false where
// none writes them.
func (c Compress) Summarizer() (p Parts, named bool, err error) {
	f := PartsFlags{ModelFlags: c.ModelFlags, SamplingFlags: c.SamplingFlags, BudgetFlags: c.BudgetFlags}
	named = c.Model != "" || len(c.ModelRole) > 0
	switch {
	case c.Summary == "extractive" && named:
		return p, false, errors.New("--summary extractive asks no model: leave --model and --model-role out")
	case c.Summary == "extractive":
		return p, false, nil
	case !named:
		return p, false, errors.New("no model for the summaries: give --model NAME and --base-url URL, or --model-role summary=MODEL[@URL], or --summary extractive")
	case len(c.ModelRole) > 1:
		return p, false, errors.New("--model-role: one model writes the summaries")
	}
	for _, text := range c.ModelRole {
		spec, err := policy.ParseRole(text)
		if err != nil {
			return p, false, fmt.Errorf("--model-role: %w", err)
		}
		if spec.Role != policy.Summary {
			return p, false, fmt.Errorf("--model-role %s: compress asks for summaries only: summary=MODEL[@URL]", text)
		}
		if spec.Base != "" && len(f.BaseURL) > 0 {
			return p, false, fmt.Errorf("--model-role %s with --base-url: name the server once", text)
		}
		if f.Model = spec.Model; spec.Base != "" {
			f.BaseURL = []string{spec.Base}
		}
	}
	p, err = NewParts(f, false)
	p.Requests, p.Offline = c.Concurrency, c.Offline
	return p, true, err
}

// ModelCheck is what `hermes model check` can be given. Its settings belong to one check
// and are no keys of run files; the lines that it prints are.
type ModelCheck struct {
	BaseURL    string        `name:"base-url" nokey:"" placeholder:"URL" help:"OpenAI-compatible server, ends in /v1. Without it the parts alone are checked."`
	Model      string        `nokey:"" placeholder:"NAME" help:"Model name (default: the only one that the server offers)."`
	APIKeyEnv  string        `name:"api-key-env" nokey:"" default:"OPENAI_API_KEY" placeholder:"NAME" help:"Environment variable that holds the key."`
	ModelFiles string        `name:"model-files" nokey:"" placeholder:"SPEC" help:"hf:owner/name[@revision] or a folder: tokenizer, template, generation configuration; no weights."`
	Tokenizer  string        `nokey:"" placeholder:"FILE|DIR" help:"Tokenizer file, or 'server' for the server's own (default: that of the model files, else the server's)."`
	Template   string        `nokey:"" placeholder:"FILE" help:"Chat template, or the name of one among the model files."`
	Kwargs     string        `name:"template-kwargs" nokey:"" placeholder:"JSON" help:"Further variables of the template."`
	Family     string        `nokey:"" placeholder:"NAME" help:"Parser family (default: what the template tells)."`
	Timeout    time.Duration `nokey:"" default:"2m" help:"Longest wait for one answer."`
	Offline    bool          `nokey:"" help:"Use only what the hub's cache holds."`
	JSON       bool          `nokey:"" help:"Print the findings as JSON."`
}

// EnvCheck is what `hermes env check` can be given.
type EnvCheck struct {
	EnvFlags
	Rows    int    `default:"3" range:"1:" help:"Rows to play."`
	Repeats int    `default:"10" range:"2:" help:"Rollouts of each."`
	AtOnce  int    `name:"concurrency" aliases:"in-flight" default:"4" range:"1:" help:"Rollouts at once."`
	Seed    int64  `default:"0" help:"Seed of everything random."`
	Backend string `default:"auto" help:"Where boxes live: auto, or one of 'hermes sandbox list'." placeholder:"NAME"`
	Image   string `help:"Image of boxes whose row names none." placeholder:"IMAGE"`
	JSON    bool   `name:"json" nokey:"" help:"One JSON object a check."`
}

// EnvDebug is what `hermes env debug` can be given.
type EnvDebug struct {
	EnvFlags
	Record  string `required:"" nokey:"" placeholder:"ID" help:"KEY, ROW or ROW/SAMPLE."`
	RunName string `name:"run" placeholder:"NAME" help:"Run: a name or a path (default: the environment's name)."`
	NoShell bool   `name:"no-shell" help:"Open no shell, on a terminal either."`
	Backend string `default:"auto" help:"Where boxes live: auto, or one of 'hermes sandbox list'." placeholder:"NAME"`
	Image   string `help:"Image of boxes whose row names none." placeholder:"IMAGE"`
	Out     string `default:"runs" placeholder:"DIR" help:"Parent of run directories."`
}

// Bench is what `hermes bench` can be given. What is not given is as the shape has it.
type Bench struct {
	Shape       string         `nokey:"" enum:"plain,tool,long,flight,serve" default:"plain" help:"plain (a user speaks), tool (one call a turn), long (74 kB of context), flight (10,000 at once, 5 s of latency) or serve (env serve: 4,000 at once with exact tokens, posted to a run-api)."`
	Rollouts    *int           `nokey:"" range:"1:" placeholder:"N" help:"Rollouts of a round."`
	Turns       *int           `nokey:"" range:"1:" placeholder:"N" help:"Model answers of each."`
	Context     *int           `nokey:"" name:"context-bytes" range:"1:" placeholder:"N" help:"Mean size of a conversation."`
	Concurrency *int           `nokey:"" aliases:"in-flight" range:"1:" placeholder:"N" help:"Rollouts at once."`
	Rounds      *int           `nokey:"" range:"1:" placeholder:"N" help:"Rounds, of which the figures are medians."`
	Latency     *time.Duration `nokey:"" range:"0s:" help:"With which the model answers."`
	Profile     string         `nokey:"" placeholder:"FILE" help:"Write a CPU profile, for go tool pprof."`
	JSON        bool           `name:"json" nokey:"" help:"One JSON object."`
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

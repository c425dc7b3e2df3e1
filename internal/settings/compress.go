package settings

import (
	"errors"
	"fmt"
	"time"

	"hermes/rollout/policy"
)

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

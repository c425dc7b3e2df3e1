// Package settings holds what a command can be given: the flags with their help, defaults
// and names in a run file, and the decisions that follow from them alone.
//
// Each group of flags is one struct, whose tags are kong's. A command embeds the groups
// that it has; they are passed on whole. [Batch.Resolve] reads the texts and rules that
// flags name and returns a [Job], which does not change afterwards. Nothing here opens a
// model, a box or a dataset: that is the work of package build.
package settings

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"hermes/configs"
	"hermes/envs"
	"hermes/rollout/rundir"
)

// ModelFlags choose the model and where it is served. The tags are kong's.
type ModelFlags struct {
	Model          string        `help:"Model name; 'auto' takes the only one that the server offers." placeholder:"NAME"`
	BaseURL        []string      `name:"base-url" sep:"none" help:"OpenAI-compatible server, ends in /v1. May repeat (replicas), or be @FILE with one a line." placeholder:"URL"`
	APIKeyEnv      []string      `name:"api-key-env" default:"OPENAI_API_KEY" help:"Environment variables that hold keys of the run's servers, several make a pool; HOST=NAME for a fallback or role elsewhere." placeholder:"NAME"`
	Server         string        `enum:"auto,openai,openrouter,vllm,sglang,llamacpp,ollama" default:"auto" help:"Whose quirks to expect: auto, openai, openrouter, vllm, sglang, llamacpp, ollama."`
	Affinity       string        `enum:"rollout,group" default:"rollout" help:"What stays on one replica: rollout or group."`
	ExtraBody      string        `name:"extra-body" help:"JSON object merged into every request."`
	Fallback       []string      `sep:"none" help:"MODEL[@URL] to use when the model fails after its retries; may repeat."`
	RequestTimeout time.Duration `name:"request-timeout" default:"10m" help:"Longest wait for one model answer."`
	IdleTimeout    time.Duration `name:"idle-timeout" default:"120s" help:"Longest silence of a model server within an answer."`
	RequestRetries int           `name:"request-retries" default:"5" help:"Tries of one model request beyond the first."`
	Stream         bool          `default:"true" negatable:"" help:"Stream answers."`
	SendScripts    bool          `name:"send-scripts" help:"Send the rows' scripts along, for 'hermes model fake'."`
	PromptCache    string        `name:"prompt-cache" enum:"auto,off,5m,1h" default:"auto" help:"Mark prompts to be kept by servers that want it: auto (Claude behind OpenRouter), off, 5m, 1h."`
	Cassette       string        `help:"Answer every model request from this recording." placeholder:"FILE"`
	Record         string        `help:"Record every model answer into this file." placeholder:"FILE"`
}

// SamplingFlags are sent with every request; what is not given is not sent.
type SamplingFlags struct {
	MaxTokens       int      `name:"max-tokens" help:"Tokens of one answer."`
	Temperature     *float64 `help:"Sampling temperature."`
	TopP            *float64 `name:"top-p" help:"Nucleus sampling."`
	TopK            *int     `name:"top-k" help:"Sample from the K most likely tokens."`
	MinP            *float64 `name:"min-p" help:"Smallest probability relative to the most likely token."`
	Stop            []string `sep:"none" help:"Stop text; may repeat."`
	ReasoningEffort string   `name:"reasoning-effort" enum:",none,minimal,low,medium,high,xhigh" default:"" help:"none, minimal, low, medium, high, xhigh."`
}

// ProviderFlags are OpenRouter's routing wishes.
type ProviderFlags struct {
	ProviderOrder          []string `name:"provider-order" help:"Providers to try in order."`
	ProviderOnly           []string `name:"provider-only" help:"Providers to use, no other."`
	ProviderIgnore         []string `name:"provider-ignore" help:"Providers to leave out."`
	ProviderSort           string   `name:"provider-sort" enum:",price,throughput,latency" default:"" help:"price, throughput or latency."`
	ProviderDataCollection string   `name:"provider-data-collection" enum:",allow,deny" default:"" help:"allow or deny."`
	RequireParameters      bool     `name:"require-parameters" help:"Only providers that know all parameters."`
}

// PromptFlags are added to every task.
type PromptFlags struct {
	System          string `help:"System prompt, or @FILE." placeholder:"TEXT"`
	EphemeralSystem string `name:"ephemeral-system" help:"System prompt that the model sees and the data does not, or @FILE." placeholder:"TEXT"`
	Prefill         string `help:"JSON file of messages that the model sees after the system prompt and the data does not." placeholder:"FILE"`
}

// ToolFlags choose tools and boxes.
type ToolFlags struct {
	Toolsets     []string `help:"Toolsets of every rollout (default: terminal,file,todo,code_execution); none for no tools."`
	Distribution string   `help:"Draw toolsets from this distribution instead." placeholder:"NAME"`
	MissingTools string   `name:"missing-tools" enum:"fail,drop" default:"fail" help:"Toolsets that cannot be served: fail, or drop and record."`
	Backend      string   `default:"auto" help:"Where boxes live: auto, or one of 'hermes sandbox list'." placeholder:"NAME"`
	Boxes        int      `help:"Boxes at once; rollouts beyond that wait for one (default: one for each rollout)." placeholder:"N"`
	Image        string   `help:"Image of boxes whose row or task names none." placeholder:"IMAGE"`
	Verify       string   `enum:",same,fresh,separate" default:"" help:"Box that a result is judged in, where the row does not say: same (the model's own), fresh (a new one, with the workspace copied in), separate (the same, of --verify-image); default: as the environment is used to, else same."`
	VerifyImage  string   `name:"verify-image" help:"Image of --verify separate, for rows that name none." placeholder:"IMAGE"`
	ResultChars  int      `name:"result-chars" default:"100000" help:"Longest tool result; the rest is kept in the box."`
	TurnChars    int      `name:"turn-chars" default:"200000" help:"Longest results of one turn together."`
}

// Check objects to flags of the judging box that do not go together.
func (f ToolFlags) Check() error {
	switch {
	case f.VerifyImage != "" && f.Verify != envs.VerifySeparate:
		return fmt.Errorf("--verify-image %s: it is that of --verify separate, which is not asked for", f.VerifyImage)
	case f.Verify == envs.VerifySeparate && f.VerifyImage == "":
		return errors.New("--verify separate: name the image to judge in with --verify-image")
	}
	return nil
}

// Of takes the boxes from the manifest of a run where the flags name none.
func (f ToolFlags) Of(m rundir.Manifest) ToolFlags {
	if f.Image == "" {
		f.Image, _ = m.Identity.Get("image")
	}
	if f.Verify == "" {
		text, _ := m.Identity.Get("verify")
		f.Verify, f.VerifyImage, _ = strings.Cut(text, " ")
	}
	return f
}

// BudgetFlags end a run early, resumable.
type BudgetFlags struct {
	BudgetUSD    float64       `name:"budget-usd" help:"Dollars."`
	BudgetTokens int64         `name:"budget-tokens" help:"Tokens, given and written."`
	BudgetTime   time.Duration `name:"budget-time" help:"Wall time."`
	Price        []string      `sep:"none" help:"[MODEL=]IN,OUT[,CACHED]: dollars per million tokens, where the server names no cost; MODEL is a fallback or a role's; may repeat." placeholder:"IN,OUT"`
}

// RowFlags choose rows and how they are read.
type RowFlags struct {
	Limit     int64    `help:"Rows to use."`
	Shuffle   bool     `help:"Seeded order."`
	Shard     string   `help:"i/n: only the rows whose hash falls into part i of n." placeholder:"I/N"`
	Map       []string `help:"FROM=TO: rename keys of rows."`
	PromptKey string   `name:"prompt-key" help:"Key that holds the task." placeholder:"KEY"`
	BadRows   string   `name:"bad-rows" enum:"fail,skip" default:"fail" help:"Rows that cannot be used: fail before any call, or skip and report."`
	Offline   bool     `help:"Use only what the dataset cache holds."`
}

// RunFlags say how a batch runs and what it writes.
type RunFlags struct {
	Run              string        `help:"Name of the run directory (default: the dataset's stem)." placeholder:"NAME"`
	Out              string        `default:"runs" help:"Parent of run directories." placeholder:"DIR"`
	Amend            bool          `help:"Accept new rows or more rollouts under the same name."`
	RetryFailed      bool          `name:"retry-failed" help:"Try recorded failures again."`
	Rollouts         int           `short:"n" aliases:"samples,group-size" default:"1" range:"1:" help:"Samples of each row."`
	Concurrency      int           `aliases:"in-flight" default:"64" range:"1:" help:"Rollouts at once."`
	Memory           *configs.Size `range:"64MiB:" placeholder:"SIZE" help:"Memory of the engine, such as 4GiB: no rollout is begun while it is short (default: half of the machine's or the control group's)."`
	MaxTurns         int           `name:"max-turns" default:"10" help:"Model answers of a rollout."`
	MaxTotalTokens   int64         `name:"max-total-tokens" help:"Tokens that a rollout may write."`
	Retries          int           `default:"2" help:"Further attempts of a sample that failed without the model's fault."`
	Timeout          time.Duration `help:"Longest time of one rollout (default: none)."`
	Seed             int64         `default:"0" help:"Seed of everything random."`
	Faults           string        `enum:"show,resample" default:"resample" help:"Answers that cannot be used: show (kept, scored) or resample."`
	RunCalls         string        `name:"run-calls" default:"complete,recovered" placeholder:"LIST" help:"States of calls that are executed: complete, recovered, ambiguous. Others are answered with the reason, or the model is asked again (--faults)."`
	DryRun           bool          `name:"dry-run" help:"Check everything, print the plan and its estimate, ask no model."`
	Accept           string        `default:"all" help:"all, passed, or an expression such as 'reward >= 0.5'."`
	Grader           string        `default:"" help:"How answers are judged: a grader by name, a list of graders (YAML) or a file that holds one, auto, none (default: as the row says)."`
	RequireReasoning bool          `name:"require-reasoning" help:"Reject samples without any reasoning."`
	Dedup            bool          `help:"Reject samples of a row whose conversation is word for word that of an earlier one."`
	Keep             string        `enum:"all,failed,zero,none" default:"failed" help:"Artifacts to keep: all, failed, zero, none."`
	Format           []string      `default:"sharegpt,messages" help:"Projections: sharegpt, messages."`
	Parquet          bool          `help:"Also write Parquet."`
	Preamble         string        `help:"File that replaces the preamble of the ShareGPT layout." placeholder:"FILE"`
	FailOnError      string        `name:"fail-on-error" default:"0.01" help:"SHARE or COUNT of infrastructure failures above which the exit code is 3."`
	StopAfter        int           `name:"stop-after-failures" default:"50" help:"Failures in a row of one cause that stop the run."`
	DrainTimeout     time.Duration `name:"drain-timeout" default:"60s" help:"How long the first interrupt lets rollouts finish."`
	Progress         string        `enum:"auto,bar,plain,none" default:"auto" help:"auto, bar, plain or none."`
	WandbFlags       `group:"Weights & Biases:"`
	Metrics          string `help:"Serve Prometheus metrics on this loopback address." placeholder:"ADDR"`
	JSON             bool   `name:"json" nokey:"" help:"Print the books as JSON."`
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

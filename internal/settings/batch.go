package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hermes/datasets"
	"hermes/rollout"
	"hermes/rollout/policy"
	"hermes/rollout/sink"
	"hermes/trajectory"
)

// Batch is what `hermes batch` can be given. Other commands that roll out rows into a run
// directory make one from their flags.
type Batch struct {
	Datasets []string `arg:"" optional:"" name:"dataset" help:"JSONL, JSON, Parquet or CSV file (.gz, .zst), hf:owner/name, samples:tasks, or - for stdin."`
	PartsFlags
	PromptFlags `group:"Prompts:"`
	RowFlags    `group:"Rows:"`
	RunFlags    `group:"The run:"`
	RoleFlags   `group:"Other models:"`
}

// Name is the name of the run: that of --run, else the first dataset's.
func (b Batch) Name() string {
	if b.Run != "" || len(b.Datasets) == 0 {
		return b.Run
	}
	name, _ := stem(b.Datasets[0]) // Resolve has the error
	return name
}

// RowOptions is how the rows are read, but for the hub and stdin.
func (f RowFlags) RowOptions(seed int64) (o datasets.Options, err error) {
	o = datasets.Options{PromptKey: f.PromptKey, Shuffle: f.Shuffle, Seed: uint64(seed), Limit: f.Limit}
	o.Map, err = datasets.ParseMap(strings.Join(f.Map, ","))
	if err != nil {
		return o, fmt.Errorf("--map: %w", err)
	}
	if f.Shard != "" {
		o.Shard, err = datasets.ParseShard(f.Shard)
		if err != nil {
			return o, fmt.Errorf("--shard: %w", err)
		}
	}
	return o, nil
}

// Job is a [Batch] whose texts and rules were read. It does not change any more.
type Job struct {
	Batch
	Parts   Parts
	Dir     string // of the run
	Mode    string // by which rules samples are accepted: batch, env, eval
	Roles   map[policy.Role]Role
	Allowed Tolerance
	Calls   rollout.RunCalls
	Opening []trajectory.Message // of --prefill
}

// Tasks is where the tasks of a [Batch] come from. The zero value: from datasets, with the
// prompts of the flags.
type Tasks struct {
	Env      string   // the environment
	Toolsets []string // that it wants where the flags name none; nil: the usual ones
	Suite    bool     // it is an evaluation
}

// Resolve checks everything that needs no part, and reads what flags name.
func (b Batch) Resolve(t Tasks) (Job, error) {
	j := Job{Batch: b, Mode: "batch"}
	var err error
	switch {
	case len(b.Datasets) == 0 && t.Env == "":
		return j, errors.New("no dataset: name a file, hf:owner/name, samples:tasks, or - for stdin")
	case t.Suite:
		j.Mode = "eval"
	case t.Env != "":
		j.Mode = "env"
	}
	j.Run = cmp.Or(b.Run, t.Env)
	if j.Run == "" {
		j.Run, err = stem(b.Datasets[0])
		if err != nil {
			return j, err
		}
	}
	j.Dir = filepath.Join(b.Out, j.Run)
	if err := j.check(); err != nil {
		return j, err
	}
	j.Parts, err = NewParts(b.PartsFlags, t.Env != "")
	if err != nil {
		return j, err
	}
	j.PartsFlags = j.Parts.PartsFlags
	j.Parts.RunDir = j.Dir
	j.Parts.Offline = b.Offline
	j.Parts.Requests = b.Concurrency
	j.Parts.Watch = true
	j.Parts.Seed = b.Seed
	j.Parts.Usual = t.Toolsets
	j.Calls, err = rollout.ParseRunCalls(cmp.Or(b.RunCalls, rollout.DefaultRunCalls().String()))
	if err != nil {
		return j, fmt.Errorf("--run-calls: %w", err)
	}
	j.Allowed, err = parseTolerance(b.FailOnError)
	if err != nil {
		return j, err
	}
	j.Roles, err = b.RoleFlags.Roles()
	if err != nil {
		return j, err
	}
	if t.Env != "" {
		return j, nil
	}
	return j, j.readPrompts()
}

// check objects to values that cannot be, alone or together.
func (j *Job) check() error {
	if j.Run != filepath.Base(j.Run) || j.Run == ".." || j.Run == "." {
		return fmt.Errorf("--run %q: want a plain name; --out chooses the folder", j.Run)
	}
	for name, n := range map[string]int{"--rollouts": j.Rollouts, "--concurrency": j.Concurrency} {
		if n < 1 {
			return fmt.Errorf("%s %d: want at least 1", name, n)
		}
	}
	for name, n := range map[string]int{"--max-turns": j.MaxTurns, "--retries": j.Retries, "--stop-after-failures": j.StopAfter, "--max-tokens": j.MaxTokens} {
		if n < 0 {
			return fmt.Errorf("%s %d: want 0 or more", name, n)
		}
	}
	for _, f := range j.Format {
		if f != "sharegpt" && f != "messages" {
			return fmt.Errorf("--format %q: want sharegpt, messages", f)
		}
	}
	if err := j.ToolFlags.Check(); err != nil {
		return err
	}
	if err := j.ExactFlags.Check(); err != nil {
		return err
	}
	if !j.DryRun {
		if err := CanMake(j.Dir); err != nil {
			return fmt.Errorf("--out %s, --run %s: the run directory %s cannot be made: %w", j.Out, j.Run, j.Dir, err)
		}
	}
	_, err := sink.NewRules(j.Mode, j.Accept, j.RequireReasoning)
	return err
}

// readPrompts reads what is added to every task of a dataset. An environment has its own.
func (j *Job) readPrompts() error {
	var err error
	for _, p := range []*string{&j.System, &j.EphemeralSystem} {
		*p, err = SystemText(*p)
		if err != nil {
			return err
		}
	}
	if j.Prefill != "" {
		j.Opening, err = readPrefill(j.Prefill)
		if err != nil {
			return err
		}
	}
	if j.Preamble != "" {
		raw, err := os.ReadFile(j.Preamble)
		if err != nil {
			return fmt.Errorf("--preamble: %w", err)
		}
		j.Preamble = string(raw)
	}
	return nil
}

// stem is the name of the run when none is given.
func stem(dataset string) (string, error) {
	if dataset == "-" {
		return "", errors.New("rows from stdin need --run NAME")
	}
	name := dataset
	if rest, ok := strings.CutPrefix(name, "hf:"); ok {
		name, _, _ = strings.Cut(rest, "[")
		name, _, _ = strings.Cut(name, ":")
		name, _, _ = strings.Cut(name, "@")
	}
	if _, rest, ok := strings.Cut(name, "samples:"); ok {
		name = "samples-" + rest
	}
	name = filepath.Base(name)
	for _, ext := range []string{".gz", ".zst", ".jsonl", ".json", ".parquet", ".csv", ".tsv"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name, nil
}

// Tolerance is --fail-on-error: a share below 1, or a count.
type Tolerance struct {
	share float64
	count int64
}

func parseTolerance(text string) (Tolerance, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return Tolerance{count: n, share: -1}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > 1 {
		return Tolerance{}, fmt.Errorf("--fail-on-error %q: want a share from 0 to 1 or a count", text)
	}
	return Tolerance{share: f}, nil
}

// Exceeded reports whether more than that failed.
func (t Tolerance) Exceeded(failed, planned int64) bool {
	if t.share < 0 {
		return failed > t.count
	}
	return float64(failed) > t.share*float64(planned)
}

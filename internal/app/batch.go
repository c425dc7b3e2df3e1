package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hermes/configs"
	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/rows"
	"hermes/internal/atropos/serve"
	"hermes/internal/control"
	"hermes/rollout"
	"hermes/rollout/artifact"
	"hermes/rollout/engine"
	"hermes/rollout/event"
	"hermes/rollout/event/progress"
	"hermes/rollout/event/prom"
	"hermes/rollout/policy"
	"hermes/rollout/rundir"
	"hermes/rollout/sink"
	"hermes/rollout/tool"
	"hermes/trajectory"
	"hermes/trajectory/stats"
)

// Batch is everything that `hermes batch` can be told.
type Batch struct {
	Datasets []string
	PartsFlags
	PromptFlags
	RowFlags
	RunFlags
	RoleFlags
	Settings []configs.Setting // what was resolved, for run.yaml
	Env      *ChosenEnv        // rows, tasks and scores are its own; nil: those of the datasets
	eval     *evaluation       // nil: it is none
	tracked  *tracked          // whoever evaluates closes it; nil: the run does
}

// batch is one run on its way through its phases.
type batch struct {
	Batch
	parts

	data     *datasets.Dataset
	report   datasets.Report
	env      envs.Env
	words    rows.Options // of plain rows
	rules    sink.Rules
	allowed  tolerance
	roles    map[policy.Role]*role
	oracle   envs.Oracle // plays every task; nil: the model does
	dir      *rundir.Dir
	served   bool              // env serve: rows come again and again
	moved    map[string]string // ids that rows without one have now, and those that they had
	runCalls rollout.RunCalls
}

// Run does the whole job and returns its books. The error, if any, is an *Error.
func (b Batch) Run(ctx context.Context, h Host) (stats.Statistics, error) {
	r := &batch{Batch: b, parts: newParts(h, asked{PartsFlags: b.PartsFlags, requests: b.Concurrency, watch: true, seed: b.Seed, usual: b.Env.toolsets()})}
	own := b.tracked == nil
	if own {
		r.tracked = &tracked{}
	}
	s, err := r.run(ctx)
	r.closeAll()
	if own {
		r.tracked.close(h, err)
	}
	return s, err
}

func (b *batch) run(ctx context.Context) (stats.Statistics, error) {
	for _, step := range []func(context.Context) error{b.check, b.openData, b.openModel, b.openRoles, b.openBoxes, b.openTools} {
		if err := step(ctx); err != nil {
			return stats.Statistics{}, usage(err)
		}
	}
	want, err := b.manifest()
	if err != nil {
		return stats.Statistics{}, usage(err)
	}
	b.sayPower()
	if b.DryRun {
		if err := b.plan(ctx, want); err != nil {
			return stats.Statistics{}, usage(err)
		}
		return stats.Statistics{Planned: want.Extent.Planned, Pending: want.Extent.Planned}, nil
	}
	if err := b.openDir(ctx, want); err != nil {
		return stats.Statistics{}, err
	}
	return b.roll(ctx)
}

// check reads everything that needs no part at all.
func (b *batch) check(context.Context) error {
	if len(b.Datasets) == 0 && b.Env == nil {
		return errors.New("no dataset: name a file, hf:owner/name, samples:tasks, or - for stdin")
	}
	if b.RunFlags.Run == "" && b.Env != nil {
		b.RunFlags.Run = b.Env.Name
	}
	if b.RunFlags.Run == "" {
		name, err := stem(b.Datasets[0])
		if err != nil {
			return err
		}
		b.RunFlags.Run = name
	}
	if b.RunFlags.Run != filepath.Base(b.RunFlags.Run) || b.RunFlags.Run == ".." || b.RunFlags.Run == "." {
		return fmt.Errorf("--run %q: want a plain name; --out chooses the folder", b.RunFlags.Run)
	}
	for name, n := range map[string]int{"--rollouts": b.Rollouts, "--concurrency": b.Concurrency} {
		if n < 1 {
			return fmt.Errorf("%s %d: want at least 1", name, n)
		}
	}
	for name, n := range map[string]int{"--max-turns": b.MaxTurns, "--retries": b.Retries, "--stop-after-failures": b.StopAfter, "--max-tokens": b.MaxTokens} {
		if n < 0 {
			return fmt.Errorf("%s %d: want 0 or more", name, n)
		}
	}
	for _, f := range b.Format {
		if f != "sharegpt" && f != "messages" {
			return fmt.Errorf("--format %q: want sharegpt, messages", f)
		}
	}
	if err := b.ToolFlags.check(); err != nil {
		return err
	}
	b.offline, b.runDir = b.Offline, filepath.Join(b.Out, b.RunFlags.Run)
	err := b.Batch.ExactFlags.check()
	if err != nil {
		return err
	}
	if b.runCalls, err = rollout.ParseRunCalls(cmp.Or(b.RunCalls, rollout.DefaultRunCalls().String())); err != nil {
		return fmt.Errorf("--run-calls: %w", err)
	}
	if !b.DryRun {
		if err := canMake(b.runDir); err != nil {
			return fmt.Errorf("--out %s, --run %s: the run directory %s cannot be made: %w", b.Out, b.RunFlags.Run, b.runDir, err)
		}
	}
	if b.allowed, err = parseTolerance(b.FailOnError); err != nil {
		return err
	}
	if _, err = b.server(b.host); err != nil {
		return err
	}
	if b.rules, err = sink.NewRules(b.mode(), b.Accept, b.RequireReasoning); err != nil {
		return err
	}
	if b.roles, err = parseRoles(b.RoleFlags); err != nil {
		return err
	}
	return b.prompts()
}

// mode is by which rules samples are accepted.
func (b *batch) mode() string {
	if b.eval != nil {
		return "eval"
	}
	if b.Env != nil {
		return "env"
	}
	return "batch"
}

// prompts reads what is added to every task. An environment has words of its own.
func (b *batch) prompts() error {
	if b.Env != nil {
		b.env = b.Env.Bundled
		return b.playOracle()
	}
	var err error
	for _, p := range []*string{&b.System, &b.EphemeralSystem} {
		if *p, err = systemText(*p); err != nil {
			return err
		}
	}
	b.words = rows.Options{System: b.System, Ephemeral: b.EphemeralSystem, Image: b.Image, Judge: b.roles[policy.Judge] != nil}
	if b.Prefill != "" {
		if b.words.Prefill, err = readPrefill(b.Prefill); err != nil {
			return err
		}
	}
	if b.Preamble != "" {
		raw, err := os.ReadFile(b.Preamble)
		if err != nil {
			return fmt.Errorf("--preamble: %w", err)
		}
		b.Preamble = string(raw)
	}
	return nil
}

// manifest is what run.yaml will say.
func (b *batch) manifest() (rundir.Manifest, error) {
	print, err := b.data.Fingerprint(context.Background())
	if err != nil {
		return rundir.Manifest{}, err
	}
	m := rundir.Manifest{Version: b.host.Version, Created: time.Now().UTC().Truncate(time.Second), Identity: b.identity(),
		Extent: rundir.Extent{Dataset: print, Rollouts: b.Rollouts, Limit: b.Limit, Shard: b.Shard, Planned: b.report.Rows * int64(b.Rollouts)},
		Books: rundir.Books{Mode: b.mode(), Accept: b.Accept, RequireReasoning: b.RequireReasoning, Dedup: b.Dedup, Formats: b.Format,
			Parquet: b.Parquet, Preamble: b.Preamble},
		Tools: b.tools.names(),
	}
	if b.model.exact != nil {
		m.Books.LogProbs, m.Books.Sampling = b.model.exact.probs(), b.named()
	}
	config := map[string]string{"dataset": strings.Join(b.Datasets, " ")}
	if b.Env != nil {
		config["dataset"] = "env:" + b.Env.Name
	}
	for _, s := range b.Settings {
		config[s.Name] = s.Value
	}
	return m, m.Config.Encode(config)
}

// identity are the fields in which two starts of a run must agree.
func (b *batch) identity() rundir.Fields {
	number := func(v any) string {
		raw, _ := json.Marshal(v) // pointers to numbers and lists of texts
		return string(raw)
	}
	sets := strings.Join(b.tools.sets, ",")
	if b.Distribution != "" {
		sets = "distribution " + b.Distribution
	}
	fields := rundir.Fields{
		{Name: "env", Value: b.Env.Identity()}, {Name: "model", Value: b.model.name}, {Name: "mode", Value: string(b.model.policy.Info().Mode)},
		{Name: "tools", Value: b.tools.digest()}, {Name: "toolsets", Value: sets}, {Name: "image", Value: b.Image},
		{Name: "system", Value: digest(b.System)}, {Name: "ephemeral-system", Value: digest(b.EphemeralSystem)}, {Name: "prefill", Value: digestFile(b.Prefill)},
		{Name: "max-tokens", Value: number(b.MaxTokens)}, {Name: "temperature", Value: number(b.Temperature)}, {Name: "top-p", Value: number(b.TopP)},
		{Name: "top-k", Value: number(b.TopK)}, {Name: "min-p", Value: number(b.MinP)}, {Name: "stop", Value: number(b.Stop)},
		{Name: "reasoning-effort", Value: b.ReasoningEffort}, {Name: "extra-body", Value: b.ExtraBody},
		{Name: "max-turns", Value: strconv.Itoa(b.MaxTurns)}, {Name: "max-total-tokens", Value: strconv.FormatInt(b.MaxTotalTokens, 10)},
		{Name: "faults", Value: b.Faults}, {Name: "grader", Value: b.words.Grader.String()}, {Name: "seed", Value: strconv.FormatInt(b.Seed, 10)},
		{Name: "rows", Value: strings.Join(append(append([]string{}, b.Map...), b.PromptKey, strconv.FormatBool(b.Shuffle)), ",")},
		{Name: "accept", Value: b.Accept}, {Name: "require-reasoning", Value: strconv.FormatBool(b.RequireReasoning)}, {Name: "preamble", Value: digest(b.Preamble)},
	}
	if b.Verify != "" {
		fields = append(fields, rundir.Field{Name: "verify", Value: strings.TrimSpace(b.Verify + " " + b.VerifyImage)})
	}
	if b.model.exact != nil {
		fields = append(fields, b.model.exact.identity()...)
	}
	if p := b.judge(); p != nil {
		fields = append(fields, rundir.Field{Name: "judge", Value: p.Info().Model})
	}
	judges := b.judges()
	for _, name := range slices.Sorted(maps.Keys(judges)) {
		fields = append(fields, rundir.Field{Name: "judge_" + name, Value: judges[name].Info().Model})
	}
	if b.eval != nil {
		fields = append(fields, rundir.Field{Name: "suite", Value: b.eval.suite}, rundir.Field{Name: "judged-by", Value: cmp.Or(b.eval.grader, b.words.Grader.String())})
	}
	if b.oracle != nil {
		fields = append(fields, rundir.Field{Name: "oracle", Value: "true"})
	}
	if b.Family != "" && (b.model.exact == nil || b.model.exact.form == "chat") {
		fields = append(fields, rundir.Field{Name: "text-family", Value: b.Family})
	}
	if list := b.runCalls.String(); list != rollout.DefaultRunCalls().String() {
		fields = append(fields, rundir.Field{Name: "run-calls", Value: list})
	}
	if b.Dedup {
		fields = append(fields, rundir.Field{Name: "dedup", Value: "true"})
	}
	return fields
}

func (b *batch) openDir(ctx context.Context, want rundir.Manifest) error {
	dir, err := rundir.Open(ctx, filepath.Join(b.Out, b.RunFlags.Run), want, rundir.Options{Amend: b.Amend, Log: b.log, Plan: b.planRows(ctx)})
	if err != nil {
		var rows *rowsError
		if errors.As(err, &rows) {
			return usage(err)
		}
		var mismatch *rundir.MismatchError
		var owned *rundir.OwnedError
		if errors.As(err, &mismatch) || errors.As(err, &owned) || errors.Is(err, rundir.ErrNoRun) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) ||
			errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EEXIST) {
			return usage(err)
		}
		return &Error{Code: codeOurs, Err: room(err)}
	}
	b.dir = dir
	b.later(dir.Close)
	if dir.Unnamed {
		fmt.Fprintf(b.host.Err, "%s: the answers that it holds were sampled by the server's own settings where no flag named one; from here on every request names temperature, top-p, top-k and min-p (run.yaml: books.sampling)\n", dir.Path)
	}
	if b.RetryFailed {
		if err := dir.Journal.Reopen(ctx, dir.Journal.Failed()); err != nil {
			return &Error{Code: codeOurs, Err: room(err)}
		}
	}
	if b.model.budget != nil || len(b.RoleBudgetUSD) > 0 {
		for e, err := range dir.Journal.Records(ctx, 0) {
			if err != nil {
				return &Error{Code: codeOurs, Err: err}
			}
			if rec, err := e.Record(); err == nil && rec != nil {
				b.spent(rec)
			}
		}
	}
	return nil
}

// spent tells the budgets what a record of an earlier start has cost.
func (b *batch) spent(rec *trajectory.Record) {
	b.model.budget.Spend(rec.Usage)
	if rec.Judge == nil {
		return
	}
	members := rec.Judge.Members
	if len(members) == 0 {
		members = []trajectory.Judged{*rec.Judge}
	}
	for _, j := range members {
		if r := b.roles[policy.JudgeRole(j.Name)]; r != nil {
			b.budgetOf(r).Spend(j.Usage)
		}
	}
}

// roll runs the engine and closes the books.
func (b *batch) roll(ctx context.Context) (stats.Statistics, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bar, err := progress.New(progress.Options{Mode: progress.Mode(b.Progress), Out: b.host.screen(), Width: b.host.Width,
		Total: b.dir.Manifest.Extent.Planned, Kept: int64(b.dir.Journal.Stats().Done)})
	if err != nil {
		return stats.Statistics{}, usage(err)
	}
	b.later(bar.Close)
	b.log = slog.New(b.host.Handler(bar.Writer()))
	b.Env.logTo(b.log)
	if err := b.track(ctx, b.mode()); err != nil {
		return stats.Statistics{}, err
	}
	meter := control.NewMeter(nil)
	watch := event.All(bar, b.metrics(ctx, cancel), meter)
	project, err := sink.New(b.dir.Journal, b.dir.Path, b.dir.Manifest, sink.Options{Log: b.log})
	if err != nil {
		return stats.Statistics{}, &Error{Code: codeOurs, Err: err}
	}
	project.Follow(ctx)
	memory := budget(b.Memory, "/")
	defer holdMemory(memory)()
	eng, err := b.engine(watch, memory)
	if err != nil {
		return stats.Statistics{}, usage(err)
	}
	go func() {
		select {
		case <-b.dir.Lease.Lost():
			cancel(fmt.Errorf("run directory %s: %w", b.dir.Path, b.dir.Lease.Err()))
		case <-ctx.Done():
		}
	}()
	unsteer := b.steer(ctx, eng, meter, project)
	untold := b.tracked.follow(ctx, project)
	sum := eng.Run(ctx, b.host.Drain, b.skipBad(ctx))
	untold()
	unsteer()
	books, err := project.Finish(ctx)
	b.tracked.books(books)
	switch {
	case errors.Is(sum.Stopped, engine.ErrLog): // what befell the log befalls its projections
		return books, &Error{Code: codeOurs, Err: room(sum.Stopped)}
	case err != nil:
		return books, &Error{Code: codeOurs, Err: room(err)}
	}
	return books, b.verdict(sum, books)
}

// room adds what to do about a disk that is full.
func room(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: make room, and the same command resumes", err)
	}
	return err
}

func (b *batch) engine(watch event.Observer, memory int64) (*engine.Engine, error) {
	r, err := b.runner(watch)
	if err != nil {
		return nil, err
	}
	o := b.engineOptions(memory)
	o.Rollouts, o.Toolsets, o.Observer = b.Rollouts, b.tools.draw, watch
	return engine.New(r, b.dir.Journal, o)
}

// engineOptions are those that every way of running the engine has.
func (b *batch) engineOptions(memory int64) engine.Options {
	return engine.Options{InFlight: b.Concurrency, Guess: b.guess(), Tries: b.Retries + 1, StopAfter: b.StopAfter, Drain: b.DrainTimeout, Seed: b.Seed, Memory: memory, Log: b.log}
}

// guess is what a rollout may need at most: exact ones hold every token. 0: a text
// conversation, whose usual size is known.
func (b *batch) guess() int64 {
	if b.model.exact == nil {
		return 0
	}
	least := int64(0)
	for _, n := range []int64{int64(b.model.policy.Info().Context), b.MaxTotalTokens, int64(b.MaxTokens) * int64(b.MaxTurns)} {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return engine.GuessTokens(cmp.Or(least, 32<<10))
}

// runner takes one sample from row to record.
func (b *batch) runner(watch event.Observer) (*rollout.Runner, error) {
	sampling := b.sampling()
	if b.model.exact != nil {
		sampling.Put = rundir.NewBlobs(nil, b.dir.Path).Put
	}
	keep, err := artifact.New(filepath.Join(b.dir.Path, "artifacts"), b.Keep, artifact.Options{})
	if err != nil {
		return nil, err
	}
	return rollout.NewRunner(rollout.Options{Env: b.env, Policy: b.model.policy, Judge: b.judge(), Judges: b.judges(), Backend: b.boxes.backend, Plan: b.tools.plan,
		Tools: tool.SetOptions{ResultLimit: b.ResultChars, TurnLimit: b.TurnChars},
		Image: b.Image, Verify: b.Verify, VerifyImage: b.VerifyImage,
		Sampling: sampling, SendScripts: b.model.scripted,
		Limits: rollout.Limits{Turns: b.MaxTurns, Tokens: b.MaxTotalTokens},
		Faults: rollout.FaultRule(b.Faults), RunCalls: b.runCalls,
		Deadlines: rollout.Deadlines{Loop: b.Timeout},
		Observer:  watch, Log: b.log,
		Keep: keep.Keep})
}

// metrics serves the page for Prometheus, when asked to.
func (b *batch) metrics(ctx context.Context, cancel context.CancelCauseFunc) event.Observer {
	if b.Metrics == "" {
		return nil
	}
	m := prom.New()
	m.SetPlanned(b.dir.Manifest.Extent.Planned)
	m.Also(b.boxes.pool.WriteMetrics)
	l, err := prom.Listen(ctx, b.Metrics)
	if err != nil {
		cancel(usage(fmt.Errorf("--metrics: %w", err)))
		return nil
	}
	ended := make(chan error, 1)
	sctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { ended <- prom.Serve(sctx, l, m) }()
	b.later(func() error { stop(); return <-ended })
	return m
}

// verdict turns how a run ended into an exit code.
func (b *batch) verdict(sum engine.Summary, s stats.Statistics) error {
	stopped := sum.Stopped
	switch {
	case stopped == nil:
	case errors.Is(stopped, engine.ErrRefused):
		return &Error{Code: codeUsage, Err: stopped}
	case errors.Is(stopped, serve.ErrStale):
		return &Error{Code: codeStopped, Err: fmt.Errorf("%w; the same command goes on with the rows that follow", stopped)}
	case errors.Is(stopped, engine.ErrBudget), errors.Is(stopped, engine.ErrFailures), errors.Is(stopped, engine.ErrCancelled):
		return &Error{Code: codeStopped, Err: fmt.Errorf("%w; the same command resumes", stopped)}
	case errors.Is(stopped, engine.ErrDrained), errors.Is(stopped, context.Canceled):
		return stopped // the signal decides the code
	default:
		var e *Error
		if errors.As(stopped, &e) {
			return e
		}
		return &Error{Code: codeOurs, Err: stopped}
	}
	failed := int64(0)
	for _, n := range s.Failed {
		failed += n
	}
	if b.allowed.exceeded(failed, s.Planned) {
		return &Error{Code: codeFailures, Err: fmt.Errorf("%d of %d samples failed without the model's fault (attempts by cause: %s), more than --fail-on-error %s allows; "+
			"report.md says why, --retry-failed tries them again", failed, s.Planned, causes(s.Causes), b.FailOnError)}
	}
	return nil
}

// causes lists why attempts failed, the most frequent cause first.
func causes(n map[string]int64) string {
	most := func(a, b string) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) }
	var list []string
	for _, cause := range slices.SortedFunc(maps.Keys(n), most) {
		list = append(list, fmt.Sprintf("%s %d", cause, n[cause]))
	}
	return strings.Join(list, ", ")
}

// Summary writes what a person reads when a run ended.
func (b Batch) Summary(w io.Writer, s stats.Statistics) {
	fmt.Fprintf(w, "%d planned: %d accepted", s.Planned, s.Accepted)
	list := func(name string, in map[string]int64, kinds []string) {
		for _, k := range kinds {
			if n := in[k]; n > 0 {
				fmt.Fprintf(w, ", %d %s.%s", n, name, k)
			}
		}
	}
	list("rejected", s.Rejected, stats.RejectedKinds())
	list("failed", s.Failed, stats.FailedKinds())
	if s.Pending > 0 {
		fmt.Fprintf(w, ", %d pending", s.Pending)
	}
	if s.Reward != nil {
		fmt.Fprintf(w, "; mean reward %.3f of %d scored", s.Reward.Mean, s.Scored)
	}
	fmt.Fprintln(w)
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

// tolerance is --fail-on-error: a share below 1, or a count.
type tolerance struct {
	share float64
	count int64
}

func parseTolerance(text string) (tolerance, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return tolerance{count: n, share: -1}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > 1 {
		return tolerance{}, fmt.Errorf("--fail-on-error %q: want a share from 0 to 1 or a count", text)
	}
	return tolerance{share: f}, nil
}

func (t tolerance) exceeded(failed, planned int64) bool {
	if t.share < 0 {
		return failed > t.count
	}
	return float64(failed) > t.share*float64(planned)
}

// RunName is the name of a run over these datasets when none is given.
func RunName(datasets []string) string {
	if len(datasets) == 0 {
		return ""
	}
	name, _ := stem(datasets[0])
	return name
}

// Drained reports whether a run ended because it was told to.
func Drained(err error) bool { return errors.Is(err, engine.ErrDrained) }

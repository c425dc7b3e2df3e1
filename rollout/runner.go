package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"hermes/backends"
	"hermes/datasets"
	"hermes/envs"
	"hermes/internal/schema"
	"hermes/rollout/artifact"
	"hermes/rollout/event"
	"hermes/rollout/policy"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Job is one attempt at one sample.
type Job struct {
	Row      datasets.Row
	Key      trajectory.Key
	Group    string
	Sample   int
	Attempt  int      // from 1
	Toolsets []string // drawn for the group; the task's own win
	Seed     uint64   // of the sample
	Tape     policy.Tape
}

// Plan turns toolset names into tools. dropped are the toolsets that were left out.
// box is nil when the task uses the run's own image.
type Plan func(ctx context.Context, toolsets []string, box func(context.Context) (backends.Sandbox, error)) (defs []tool.Def, dropped []string, err error)

// Deadlines bound the phases of a rollout; zero values are replaced by the defaults.
type Deadlines struct {
	Open    time.Duration // making the box; 5 minutes
	Prepare time.Duration // filling it; 2 minutes
	Loop    time.Duration // the whole loop, waiting included; none
	Respond time.Duration // one response of an environment that answers the model; 5 minutes
	Score   time.Duration // one try of the scorer; 5 minutes
	Keep    time.Duration // artifacts; 2 minutes
	Close   time.Duration // clean-up, also after cancellation; 30 seconds
}

// Options tune a [Runner]. Env and Policy are needed, all else has a default.
type Options struct {
	Env       envs.Env
	Policy    policy.Policy
	Backend   backends.Backend // nil: tools that need a box fail
	Plan      Plan             // nil: no tools
	Tools     tool.SetOptions
	Sampling  policy.Options // the run's; key, seed and tape are the job's
	Limits    Limits
	Faults    FaultRule
	RunCalls  RunCalls
	Hooks     Hooks
	Deadlines Deadlines
	// ScoreTries is how often a failing scorer is tried on the same box; 0: 2.
	ScoreTries int
	Judge      policy.Policy            // asked by graders; nil: none
	Judges     map[string]policy.Policy // further ones by name, for panels
	Observer   event.Observer
	Log        *slog.Logger
	// Image is that of tasks that name none; empty: the back-end's.
	Image string
	// Verify says where tasks are scored that say nothing themselves: see [envs.Verify].
	Verify      string
	VerifyImage string // of separate, for tasks that name none
	// SendScripts puts a row's script into the requests, for a scripted model server.
	SendScripts bool
	// Keep gets what the scorer saw, before the box goes away; it may read the box.
	Keep func(ctx context.Context, s artifact.Scene) error
	Now  func() time.Time
	// Images is shared by runners whose boxes are of the same back-end; nil: the runner's own.
	Images *Images
}

// Images is what was found out about images: it is looked up once for each. The zero value is
// ready; it is safe for concurrent use.
type Images struct {
	starts   sync.Map // images that can run a shell
	programs sync.Map // programs by image; nil where no command can change them
}

// Runner takes one task from row to record.
type Runner struct {
	o      Options
	judges sync.Map // rows whose scorer came to a judgement in a box without a model
}

// NewRunner checks the options.
func NewRunner(o Options) (*Runner, error) {
	if o.Env == nil || o.Policy == nil {
		return nil, errors.New("a runner needs an environment and a policy")
	}
	if o.Tools.Schemas == nil {
		o.Tools.Schemas = &schema.Cache{}
	}
	if o.Images == nil {
		o.Images = &Images{}
	}
	if o.Plan == nil {
		o.Plan = func(context.Context, []string, func(context.Context) (backends.Sandbox, error)) ([]tool.Def, []string, error) {
			return nil, nil, nil
		}
	}
	if err := envs.CheckVerify(o.Verify); err != nil {
		return nil, err
	}
	d := &o.Deadlines
	for _, p := range []struct {
		at  *time.Duration
		def time.Duration
	}{{&d.Open, 5 * time.Minute}, {&d.Prepare, 2 * time.Minute}, {&d.Respond, 5 * time.Minute}, {&d.Score, 5 * time.Minute}, {&d.Keep, 2 * time.Minute}, {&d.Close, 30 * time.Second}} {
		if *p.at == 0 {
			*p.at = p.def
		}
	}
	if o.ScoreTries == 0 {
		o.ScoreTries = 2
	}
	if o.Observer == nil {
		o.Observer = event.Discard
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Runner{o: o}, nil
}

// Run rolls out one job. It always returns a record, unless ctx ended before the
// outcome was known: then the error is ctx's cause and nothing must be recorded.
// A panic is contained and becomes the outcome internal.
func (r *Runner) Run(ctx context.Context, j Job) (out *trajectory.Record, err error) {
	started := r.o.Now()
	rec := &trajectory.Record{
		Key: j.Key, Group: j.Group, Row: j.Row.ID, PromptIndex: j.Row.Index, RowContent: j.Row.Content(), Sample: j.Sample, Attempt: j.Attempt,
		Toolsets: j.Toolsets, Model: r.o.Policy.Info().Model, Started: started.UTC(), Metadata: metadata(j.Row), Scoring: scoring(j.Row.Scoring),
	}
	a := &attempt{runner: r, job: j, rec: rec, log: r.o.Log.With("rollout", j.Key, "row", j.Row.ID, "sample", j.Sample)}
	defer func() {
		if p := recover(); p != nil {
			rec.Outcome = trajectory.Internal
			rec.Cause = "panic"
			rec.Reason = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
			out, err = rec, nil
		}
		if cerr := a.close(ctx); cerr != nil {
			a.log.Warn("clean-up of a rollout", "err", cerr)
		}
		rec.Seconds = time.Since(started).Seconds()
		rec.Judge = judgedBy(a.judged)
		if t, ok := j.Tape.(interface{ Rebought() int }); ok {
			rec.Rebought = t.Rebought()
		}
	}()
	r.o.Observer.Observe(event.RolloutStarted{Key: j.Key, Row: j.Row.ID, Sample: j.Sample, Attempt: j.Attempt})
	if err := a.run(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		a.fail(err)
	}
	if rec.Stop.Reason == trajectory.StopInterrupted && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return rec, nil
}

// attempt is the state of one job.
type attempt struct {
	runner *Runner
	job    Job
	rec    *trajectory.Record
	log    *slog.Logger

	task    envs.Task
	box     lazyBox
	scope   *tool.Scope
	set     *tool.Set
	sampler policy.Sampler
	trace   *trajectory.Trace
	judged  map[string]*trajectory.Judged // by the judge's name
	state   envs.State
	ofBox   *envs.State    // of the box that is scored in; nil: state
	saw     []envs.Exhibit // of the scorer's last try
	hacks   []envs.Hack    // of the same
	other   lazyBox        // another box to score in
}

func (a *attempt) run(ctx context.Context) error {
	if err := a.begin(); err != nil {
		return err
	}
	if err := a.prepare(ctx); err != nil {
		return err
	}
	if err := a.open(ctx); err != nil {
		return err
	}
	stop, errs, err := a.loop(ctx)
	if err != nil {
		return err
	}
	a.rec.Stop, a.rec.Outcome, a.rec.Reason = stop, outcomeOf(stop), stop.Detail
	if a.rec.Outcome != trajectory.Answered {
		a.rec.Cause = string(stop.Reason)
	}
	if stop.Reason == trajectory.StopInterrupted && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return a.score(ctx, errs)
}

// begin asks the environment for the task. It is a separate step, so that its variables are
// not on the stack of a rollout that waits for its model.
func (a *attempt) begin() error {
	o := &a.runner.o
	task, err := o.Env.Task(a.job.Row)
	if err != nil {
		return &stageError{trajectory.Environment, "task", err}
	}
	a.task = task
	a.box = lazyBox{backend: o.Backend, first: a.note, deadline: o.Deadlines.Open, spec: backends.Spec{
		Image: cmp.Or(task.Image, o.Image), Dir: task.Dir, Env: task.Env, Network: a.job.Row.Hermes.Network, Labels: map[string]string{"rollout": a.job.Key.String()}}}
	return nil
}

// prepare opens the box at once where the task has something to put into it.
func (a *attempt) prepare(ctx context.Context) error {
	o := &a.runner.o
	_, prepares := o.Env.(envs.Preparer)
	if !prepares && len(a.task.Files) == 0 && a.task.Image == "" {
		return nil
	}
	if prepares && len(a.task.Files) == 0 && a.task.Image == "" {
		if n, ok := o.Env.(envs.NeedsBox); ok && !n.NeedsBox(a.task) {
			return nil
		}
	}
	box, err := a.box.get(ctx)
	if err != nil {
		return err
	}
	return a.fill(ctx, a.world(box))
}

// fill puts into a box what the task starts with.
func (a *attempt) fill(ctx context.Context, w envs.World) error {
	d := a.runner.o.Deadlines.Prepare
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("filling the box took longer than %v", d))
	defer cancel()
	for _, path := range slices.Sorted(keys(a.task.Files)) {
		if err := w.Box.WriteFile(ctx, path, []byte(a.task.Files[path]), 0o644); err != nil {
			return &stageError{trajectory.Sandbox, "prepare", fmt.Errorf("write %s: %w", path, err)}
		}
	}
	if p, ok := a.runner.o.Env.(envs.Preparer); ok {
		if err := p.Prepare(ctx, a.task, w); err != nil {
			return &stageError{trajectory.Environment, "prepare", err}
		}
	}
	return nil
}

// open makes the tools and the sampler.
func (a *attempt) open(ctx context.Context) error {
	o := &a.runner.o
	names := a.job.Toolsets
	if a.task.Toolsets != nil {
		names = a.task.Toolsets
	}
	var own func(context.Context) (backends.Sandbox, error)
	if a.task.Image != "" {
		own = a.box.get
	}
	defs, dropped, err := o.Plan(ctx, names, own)
	if err != nil {
		return &stageError{trajectory.Sandbox, "tools", err}
	}
	if t, ok := o.Env.(envs.Tooler); ok {
		more, err := t.Tools(ctx, a.task, a.world(a.box.opened()))
		if err != nil {
			return &stageError{trajectory.Environment, "tools", err}
		}
		defs = append(slices.Clone(defs), more...)
	}
	a.rec.Toolsets, a.rec.Dropped = names, dropped
	a.scope = &tool.Scope{Key: a.job.Key, Box: a.box.get, Log: a.log, Now: o.Now,
		Rand: rand.New(rand.NewPCG(a.job.Seed, 0x746f6f6c)), Isolated: o.Backend != nil && o.Backend.Traits().Isolated}
	tools := o.Tools
	tools.After = func(c trajectory.Call, r tool.Result, took time.Duration) {
		o.Observer.Observe(event.CallEnded{Key: a.job.Key, Call: c, Result: r.Text, Failed: r.Failed, Took: took})
	}
	a.set, err = tool.NewSet(defs, a.scope, tools)
	if err != nil {
		return &stageError{trajectory.Sandbox, "tools", err}
	}
	a.rec.Tools = a.set.Specs()
	if slices.ContainsFunc(defs, func(d tool.Def) bool { return d.Traits.NeedsBox }) {
		a.box.expect()
	}
	s := o.Sampling
	s.Key = a.job.Key
	s.Group = a.job.Group
	s.Attempt = a.job.Attempt
	s.Seed = &a.job.Seed
	s.Tape = a.job.Tape
	s.Notes = func(text string) { a.rec.Moves = append(a.rec.Moves, text) }
	if o.SendScripts {
		s.Extra, err = withScript(s.Extra, a.job)
		if err != nil {
			return &stageError{trajectory.Internal, "script", err}
		}
		a.rec.Extra = s.Extra
	}
	a.sampler, err = o.Policy.Open(a.set.Specs(), s)
	if err != nil {
		return &stageError{trajectory.Provider, "model", err}
	}
	return nil
}

func (a *attempt) loop(ctx context.Context) (trajectory.Stop, []envs.ToolError, error) {
	o := &a.runner.o
	most := o.Deadlines.Loop
	if t := a.task.Time; t > 0 && (most == 0 || t < most) {
		most = t
	}
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, most, errLoopTime)
		defer cancel()
	}
	a.trace = trajectory.New(o.Policy.Info().Mode, a.set.Specs())
	l := &HermesAgentLoop{Sampler: a.sampler, Tools: a.set, Limits: o.Limits, Faults: o.Faults, RunCalls: o.RunCalls,
		Hooks: o.Hooks, Observer: o.Observer, Quiet: true, Key: a.job.Key}
	if user, ok := o.Env.(envs.Responder); ok && o.Hooks.Respond == nil {
		l.Hooks.Respond = a.responder(user, l)
	}
	if s, ok := o.Env.(envs.Stepper); ok && o.Hooks.Stepped == nil {
		l.Hooks.Stepped = a.stepper(s, l)
	}
	stop, err := l.Run(ctx, a.trace, a.task.Messages)
	if stop.Reason == trajectory.StopInterrupted && errors.Is(context.Cause(ctx), errLoopTime) {
		stop = trajectory.Stop{Reason: trajectory.StopTime, Detail: most.String()}
	}
	a.trace.Finish(l.Left)
	a.rec.Trace, a.rec.Usage = a.trace, a.trace.Usage
	a.rec.ModelSeconds, a.rec.ToolSeconds = l.ModelTime.Seconds(), l.ToolTime.Seconds()
	a.rec.ToolStats = a.set.Counts()
	return stop, l.ToolErrors, err
}

// responder is the environment's answer to a model that makes no calls.
func (a *attempt) responder(user envs.Responder, l *HermesAgentLoop) func(context.Context, *trajectory.Trace, trajectory.Stop) ([]trajectory.Message, error) {
	random := rand.New(rand.NewPCG(a.job.Seed, 0x75736572))
	d := a.runner.o.Deadlines.Respond
	late := fmt.Errorf("the environment's response took longer than %v", d)
	return func(ctx context.Context, t *trajectory.Trace, stop trajectory.Stop) ([]trajectory.Message, error) {
		rctx, cancel := context.WithTimeoutCause(ctx, d, late)
		defer cancel()
		w := a.world(a.box.opened())
		w.Rand = random
		reply, err := user.Respond(rctx, a.task, w, envs.Episode{Trace: t, Stop: stop, Errors: l.ToolErrors})
		if err != nil && ctx.Err() == nil && rctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(rctx), err)
		}
		for i, m := range reply {
			if err == nil && m.Role != trajectory.User && m.Role != trajectory.System {
				err = fmt.Errorf("message %d of the response has the role %q, want user or system", i, m.Role)
			}
		}
		if err != nil {
			return nil, &stageError{trajectory.Environment, "respond", err}
		}
		return reply, nil
	}
}

// stepper is the environment's look after a turn.
func (a *attempt) stepper(s envs.Stepper, l *HermesAgentLoop) func(context.Context, *trajectory.Trace) error {
	d := a.runner.o.Deadlines.Respond
	return func(ctx context.Context, t *trajectory.Trace) error {
		sctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("the environment's look after a turn took longer than %v", d))
		defer cancel()
		err := s.Step(sctx, a.task, a.world(a.box.opened()), envs.Episode{Trace: t, Errors: l.ToolErrors})
		if err != nil && ctx.Err() == nil && sctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(sctx), err)
		}
		if err != nil {
			return &stageError{trajectory.Environment, "step", err}
		}
		return nil
	}
}

var errLoopTime = errors.New("the rollout's time is over")

func (a *attempt) world(box backends.Sandbox) envs.World {
	w := envs.World{Box: box, State: &a.state, BoxState: cmp.Or(a.ofBox, &a.state), Tools: caller{a.set}, Rand: rand.New(rand.NewPCG(a.job.Seed, 0x73636f7265))}
	if p := a.runner.o.Judge; p != nil {
		w.Judge = a.judge("", p)
	}
	for name, p := range a.runner.o.Judges {
		if w.Judges == nil {
			w.Judges = map[string]envs.Judge{}
		}
		w.Judges[name] = a.judge(name, p)
	}
	return w
}

// judge is one of the judges of this attempt.
func (a *attempt) judge(name string, p policy.Policy) envs.Judge {
	if a.judged == nil {
		a.judged = map[string]*trajectory.Judged{}
	}
	if a.judged[name] == nil {
		a.judged[name] = &trajectory.Judged{Model: p.Info().Model}
	}
	said := "judge: "
	if name != "" {
		said = "judge " + name + ": "
	}
	return &judge{policy: p, used: a.judged[name], o: policy.Options{Key: a.job.Key, Group: a.job.Group, Attempt: a.job.Attempt,
		Seed: &a.job.Seed, Tape: a.job.Tape, Notes: func(text string) { a.rec.Moves = append(a.rec.Moves, said+text) }}}
}

// fail records an infrastructure failure with its cause.
func (a *attempt) fail(err error) {
	out, cause := classify(err)
	if out == trajectory.Faulty { // the model broke the box while we were not looking at the loop
		a.rec.Stop = trajectory.Stop{Reason: trajectory.StopFaultyBox, Detail: err.Error()}
	}
	a.rec.Outcome, a.rec.Cause, a.rec.Reason, a.rec.Score = out, cause, err.Error(), nil
	if a.trace != nil {
		if !a.trace.Sealed {
			a.trace.Finish(nil)
		}
		a.rec.Trace, a.rec.Usage = a.trace, a.trace.Usage
	}
	if a.set != nil && a.rec.ToolStats == nil {
		a.rec.ToolStats = a.set.Counts()
	}
}

// close gives everything back, also after cancellation.
func (a *attempt) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.runner.o.Deadlines.Close)
	defer cancel()
	var errs []error
	if a.sampler != nil {
		errs = append(errs, a.sampler.Close())
	}
	if a.set != nil {
		errs = append(errs, a.set.Close(ctx))
	}
	return errors.Join(append(errs, a.box.close(ctx), a.other.close(ctx))...)
}

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/rollout/play"
)

// EnvFlags choose an environment.
type EnvFlags struct {
	Name  string   `arg:"" name:"environment" help:"Environment, as 'hermes env list' has it; or a program: ./env.py, 'cmd:python3 env.py', http://…"`
	Split string   `enum:"train,eval" default:"train" help:"Rows: train or eval."`
	Set   []string `sep:"none" help:"KEY=VALUE: a setting of the environment, over the run file's section envs; may repeat." placeholder:"KEY=VALUE"`

	Workers int `range:"0:256" default:"0" help:"Processes of an environment that is a program (default: one a CPU)."`
}

// Open opens the environment that the flags name; what is wrong is a usage error. Close
// it.
func (f EnvFlags) Open(ctx context.Context, h Host) (*ChosenEnv, error) {
	if f.Workers > 0 {
		f.Set = append(slices.Clone(f.Set), fmt.Sprintf("workers=%d", f.Workers))
	}
	e, err := OpenEnv(ctx, f.Name, envs.Split(f.Split), f.Set, h.Section("envs"), h.Envs)
	if err != nil {
		return nil, usage(err)
	}
	e.logTo(slog.New(h.Handler(h.Err)))
	return e, nil
}

// player opens boxes and tools for words that are put into a model's mouth. Call closing
// afterwards.
func player(ctx context.Context, h Host, env *ChosenEnv, tools ToolFlags, seed int64) (p play.Player, isolated bool, closing func(), err error) {
	r := newParts(h, asked{PartsFlags: PartsFlags{ToolFlags: tools}, seed: seed, usual: env.toolsets()})
	for _, step := range []func(context.Context) error{r.openBoxes, func(context.Context) error { return r.chooseTools() },
		func(ctx context.Context) error { return r.tools.fit(ctx, r.boxes.backend, tools.Image) }} {
		if err := step(ctx); err != nil {
			r.closeAll()
			return p, false, nil, usage(err)
		}
	}
	return play.Player{Backend: r.boxes.backend, Plan: r.tools.plan, Toolsets: r.tools.sets, Seed: seed,
		Image: tools.Image, Verify: tools.Verify, VerifyImage: tools.VerifyImage}, r.boxes.backend.Traits().Isolated, r.closeAll, nil
}

// CheckEnv runs the contract of environments against one; each hears of every check. The
// error is an *Error when one fails.
func CheckEnv(ctx context.Context, h Host, f EnvFlags, tools ToolFlags, o envtest.Options, each func(envtest.Report)) error {
	if o.Rows < 1 || o.Repeats < 2 {
		return usage(fmt.Errorf("--rows %d, --repeats %d: want at least 1 row and 2 repeats", o.Rows, o.Repeats))
	}
	env, err := f.Open(ctx, h)
	if err != nil {
		return err
	}
	defer env.Close()
	p, isolated, closing, err := player(ctx, h, env, tools, o.Seed)
	if err != nil {
		return err
	}
	defer closing()
	o.Split, o.Isolated = env.Split, isolated
	failed, skipped := 0, 0
	envtest.Check(ctx, env.Bundled, p, o, func(r envtest.Report) {
		switch {
		case r.Err != nil:
			failed++
		case r.Skipped != "":
			skipped++
		}
		each(r)
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed > 0 {
		return &Error{Code: codeOurs, Err: fmt.Errorf("%s: %d checks fail", env.Name, failed)}
	}
	if skipped > 0 {
		fmt.Fprintf(h.Err, "hermes: %s: %d checks could not be asked\n", env.Name, skipped)
	}
	return nil
}

var errOtherEnv = errors.New("the run was made with another environment or other settings")

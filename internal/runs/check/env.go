// Package check looks whether environments keep their contract, plays stored samples again,
// and proves that the parts of a model and its server agree.
package check

import (
	"context"
	"fmt"

	"hermes/envs/envtest"
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/settings"
)

// Env runs the contract of environments against one; each hears of every check. The error
// has its exit code when one fails.
func Env(ctx context.Context, h build.Host, s settings.EnvCheck, each func(envtest.Report)) error {
	o := envtest.Options{Rows: s.Rows, Repeats: s.Repeats, AtOnce: s.AtOnce, Seed: s.Seed}
	if o.Rows < 1 || o.Repeats < 2 {
		return exit.Usage(fmt.Errorf("--rows %d, --repeats %d: want at least 1 row and 2 repeats", o.Rows, o.Repeats))
	}
	env, err := build.Environment(ctx, h, s.EnvFlags)
	if err != nil {
		return err
	}
	defer env.Close()
	p, err := build.NewPlayer(ctx, h, env, settings.ToolFlags{Backend: s.Backend, Image: s.Image, MissingTools: "fail"}, o.Seed)
	if err != nil {
		return err
	}
	defer p.Close()
	o.Split, o.Isolated = env.Split, p.Isolated
	failed, skipped := 0, 0
	envtest.Check(ctx, env.Bundled, p.Player, o, func(r envtest.Report) {
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
		return exit.Ours(fmt.Errorf("%s: %d checks fail", env.Name, failed))
	}
	if skipped > 0 {
		fmt.Fprintf(h.Err, "hermes: %s: %d checks could not be asked\n", env.Name, skipped)
	}
	return nil
}

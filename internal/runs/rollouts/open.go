package rollouts

import (
	"context"
	"fmt"

	"hermes/envs"
	"hermes/envs/rows"
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/settings"
)

// Open checks the request and opens rows, model, roles, boxes and tools, before anything is
// spent. beside shares its model, roles and boxes, and is closed later; nil: none does.
// Close the run. What is wrong is a usage error.
func Open(ctx context.Context, h build.Host, q Request, beside *Run) (*Run, error) {
	r := &Run{Request: q, Host: h, Log: h.Logger()}
	steps := []func(context.Context) error{r.resolve, r.openData, r.openModel, r.openBoxes, r.openTools}
	if beside != nil {
		r.Model, r.Roles, r.Boxes = beside.Model, beside.Roles, beside.Boxes
		steps = []func(context.Context) error{r.resolve, r.openData, r.openTools}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			r.Close()
			return nil, exit.Usage(err)
		}
	}
	return r, nil
}

func (r *Run) resolve(context.Context) (err error) {
	tasks := settings.Tasks{Toolsets: r.Env.Toolsets(), Suite: r.Suite != nil}
	if r.Env != nil {
		tasks.Env = r.Env.Name
	}
	r.Job, err = r.Request.Batch.Resolve(tasks)
	if err != nil {
		return err
	}
	if _, err := build.WandbServer(r.Host, r.WandbFlags); err != nil {
		return err
	}
	if r.Env != nil {
		r.tasks = r.Env.Bundled
		if _, ok := r.Env.Bundled.(envs.Oracle); r.Parts.Oracle && !ok {
			return fmt.Errorf("--model %s: the environment %s has no oracle", settings.Oracle, r.Env.Name)
		}
		return nil
	}
	r.words = rows.Options{System: r.System, Ephemeral: r.EphemeralSystem, Image: r.Image, Judge: r.judged(), Prefill: r.Opening}
	return nil
}

func (r *Run) openModel(ctx context.Context) (err error) {
	r.Model, err = build.OpenModel(ctx, r.Host, r.Parts)
	if err != nil {
		return err
	}
	r.closers.Add(r.Model.Close)
	r.Roles, err = build.OpenRoles(ctx, r.Model, r.Job.Roles)
	if err != nil {
		return err
	}
	return r.checkJudge(ctx)
}

func (r *Run) openBoxes(ctx context.Context) (err error) {
	r.Boxes, err = build.OpenBoxes(ctx, r.Host, r.Parts)
	if err == nil {
		r.closers.Add(r.Boxes.Close)
	}
	return err
}

// openTools resolves toolsets and distribution, asks every tool whether it is ready, and
// fits them to a box of the run-wide image.
func (r *Run) openTools(ctx context.Context) (err error) {
	r.Tools, err = build.ChooseTools(r.Host, r.Parts)
	if err != nil {
		return err
	}
	r.Tools.Sets, err = r.rowToolsets(ctx, r.Tools.Sets)
	if err != nil {
		return err
	}
	if err := r.rowNetworks(ctx); err != nil {
		return err
	}
	return r.Tools.Fit(ctx, r.Boxes.Backend, r.Image)
}

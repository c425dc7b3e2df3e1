package build

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"hermes/backends"
	"hermes/internal/settings"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// usual are the toolsets of a run that asks for none.
func usual() []string { return []string{"terminal", "file", "todo", "code_execution"} }

// Tools is the tools of a run.
type Tools struct {
	catalog *tool.Catalog
	Sets    []string // toolsets by name
	missing tool.Missing
	soft    func(toolset string) bool // toolsets that a box may lack
	dist    *tool.Distribution
	All     tool.Plan // of everything that can be drawn

	mu    sync.Mutex
	plans map[string]tool.Plan // by names, for the run-wide image
}

// ChooseTools resolves toolsets and distribution. [Tools.Fit] makes them usable.
func ChooseTools(h Host, s settings.Parts) (*Tools, error) {
	own, err := tool.DecodeToolsets(h.Section("own-toolsets").Node)
	if err != nil {
		return nil, err
	}
	sets, err := tool.NewToolsets(append(tool.BuiltinToolsets(), own...)...)
	if err != nil {
		return nil, err
	}
	t := &Tools{missing: tool.Missing(s.MissingTools), plans: map[string]tool.Plan{}, Sets: s.Toolsets, soft: func(string) bool { return s.MissingTools == "drop" }}
	if t.catalog, err = tool.NewCatalog(sets, h.Tools...); err != nil {
		return nil, err
	}
	if s.Distribution != "" {
		if len(s.Toolsets) > 0 {
			return nil, fmt.Errorf("--distribution %s and --toolsets exclude each other", s.Distribution)
		}
		mine, err := tool.DecodeDistributions(h.Section("distributions").Node)
		if err != nil {
			return nil, err
		}
		ds, err := tool.NewDistributions(sets, append(tool.BuiltinDistributions(), mine...)...)
		if err != nil {
			return nil, err
		}
		d, err := ds.Get(s.Distribution)
		if err != nil {
			return nil, err
		}
		t.dist, t.Sets = &d, d.Possible()
	} else if len(t.Sets) == 1 && t.Sets[0] == settings.NoTools {
		t.Sets = nil
	} else if len(t.Sets) == 0 {
		if t.Sets = usual(); s.Usual != nil {
			t.Sets = s.Usual
		}
		t.soft = func(toolset string) bool { return toolset == "code_execution" || s.MissingTools == "drop" }
	}
	return t, nil
}

// likelyTools are the tools that rollouts can have, before a box was looked into: those of an
// environment's tasks and of single rows are not known yet.
func likelyTools(ctx context.Context, h Host, s settings.Parts) ([]trajectory.ToolSpec, error) {
	t, err := ChooseTools(h, s)
	if err != nil {
		return nil, err
	}
	plan, err := t.catalog.Plan(ctx, t.Sets, t.missing)
	if err != nil {
		return nil, err
	}
	specs := make([]trajectory.ToolSpec, len(plan.Defs))
	for i, d := range plan.Defs {
		specs[i] = d.Spec
	}
	return specs, nil
}

// Fit plans everything that can be drawn and looks into one box of the run's image, which
// is opened in any case: that it is missing is found before anything is spent.
func (t *Tools) Fit(ctx context.Context, backend backends.Backend, image string) error {
	all, err := t.catalog.Plan(ctx, t.Sets, t.missing)
	if err != nil {
		return err
	}
	if image != "" || slices.ContainsFunc(all.Defs, func(d tool.Def) bool { return d.Fits != nil }) {
		box, err := backend.Open(ctx, backends.Spec{Image: image})
		if err != nil {
			return fmt.Errorf("look into a box: %w", err)
		}
		all, err = all.Fit(ctx, box, t.soft)
		if cerr := box.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	t.All = all
	return nil
}

// Plan gives the tools of one rollout; own opens the box of a row with an image of its own.
func (t *Tools) Plan(ctx context.Context, names []string, own func(context.Context) (backends.Sandbox, error)) ([]tool.Def, []string, error) {
	p, err := t.named(ctx, names)
	if err == nil && own != nil {
		var box backends.Sandbox
		if box, err = own(ctx); err == nil {
			p, err = p.Fit(ctx, box, t.soft)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	var dropped []string
	for _, d := range p.Dropped {
		dropped = append(dropped, d.String())
	}
	return p.Defs, dropped, nil
}

// named plans toolsets for the run-wide image, once for each list of names.
func (t *Tools) named(ctx context.Context, names []string) (tool.Plan, error) {
	key := strings.Join(names, ",")
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.plans[key]; ok {
		return p, nil
	}
	p, err := t.catalog.Plan(ctx, names, t.missing)
	if err != nil {
		return p, err
	}
	fits := map[string]bool{}
	for _, d := range t.All.Defs {
		fits[d.Spec.Name] = true
	}
	for _, d := range t.All.Dropped {
		if slices.ContainsFunc(p.Defs, func(def tool.Def) bool { return slices.Contains(d.Tools, def.Spec.Name) }) {
			p.Dropped = append(p.Dropped, d)
		}
	}
	p.Defs = slices.DeleteFunc(slices.Clone(p.Defs), func(d tool.Def) bool { return !fits[d.Spec.Name] })
	if len(t.plans) < 10_000 {
		t.plans[key] = p
	}
	return p, nil
}

// Draw chooses the toolsets of a group.
func (t *Tools) Draw(r *rand.Rand) []string {
	if t.dist != nil {
		return t.dist.Sample(r)
	}
	return t.Sets
}

// Names are those of the tools.
func (t *Tools) Names() []string {
	var out []string
	for _, s := range t.All.Specs() {
		out = append(out, s.Name)
	}
	return out
}

// Digest names what models are told about the tools.
func (t *Tools) Digest() string { return settings.Digest(tool.JSON(t.All.Specs())) }

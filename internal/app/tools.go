package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"hermes/backends"
	"hermes/datasets"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// usual are the toolsets of a run that asks for none.
func usual() []string { return []string{"terminal", "file", "todo", "code_execution"} }

// noTools is what --toolsets names to have none at all.
const noTools = "none"

// toolbox is the tools of a run.
type toolbox struct {
	catalog *tool.Catalog
	sets    []string
	missing tool.Missing
	soft    func(toolset string) bool // toolsets that a box may lack
	dist    *tool.Distribution
	all     tool.Plan // of everything that can be drawn

	mu    sync.Mutex
	plans map[string]tool.Plan // by names, for the run-wide image
}

// openTools resolves toolsets and distribution, asks every tool whether it is ready, and
// fits them to a box of the run-wide image.
func (b *batch) openTools(ctx context.Context) error {
	if err := b.chooseTools(); err != nil {
		return err
	}
	var err error
	if b.tools.sets, err = b.rowToolsets(ctx, b.tools.sets); err != nil {
		return err
	}
	if err := b.rowNetworks(ctx); err != nil {
		return err
	}
	return b.tools.fit(ctx, b.boxes.backend, b.Image)
}

// rowNetworks refuses rows that want to reach what the operator does not let boxes reach,
// or boxes that reach less than can be kept from them.
func (b *batch) rowNetworks(ctx context.Context) error {
	if b.report.Mapping.Hermes["network"] == 0 {
		return nil
	}
	for row, err := range b.skipBad(ctx) {
		if err != nil {
			return err
		}
		if err := backends.Narrow(b.boxes.backend, row.Hermes.Network); err != nil {
			return &datasets.RowError{File: row.File, Line: row.Line, Row: row.Index, Err: fmt.Errorf("key hermes: %w", err)}
		}
	}
	return nil
}

// chooseTools resolves toolsets and distribution.
func (b *parts) chooseTools() error {
	own, err := tool.DecodeToolsets(b.host.Section("own-toolsets").Node)
	if err != nil {
		return err
	}
	t := &toolbox{missing: tool.Missing(b.MissingTools), plans: map[string]tool.Plan{}, sets: b.Toolsets, soft: func(string) bool { return b.MissingTools == "drop" }}
	b.tools = t
	if t.catalog, err = tool.NewCatalog(own, b.host.Tools...); err != nil {
		return err
	}
	if b.Distribution != "" {
		if len(b.Toolsets) > 0 {
			return fmt.Errorf("--distribution %s and --toolsets exclude each other", b.Distribution)
		}
		mine, err := tool.DecodeDistributions(b.host.Section("distributions").Node)
		if err != nil {
			return err
		}
		ds, err := tool.NewDistributions(t.catalog.Toolsets(), append(tool.BuiltinDistributions(), mine...)...)
		if err != nil {
			return err
		}
		d, err := ds.Get(b.Distribution)
		if err != nil {
			return err
		}
		t.dist, t.sets = &d, d.Possible()
	} else if len(t.sets) == 1 && t.sets[0] == noTools {
		t.sets = nil
	} else if len(t.sets) == 0 {
		if t.sets = usual(); b.usual != nil {
			t.sets = b.usual
		}
		t.soft = func(toolset string) bool { return toolset == "code_execution" || b.MissingTools == "drop" }
	}
	return nil
}

// likelyTools are the tools that rollouts can have, before a box was looked into: those of an
// environment's tasks and of single rows are not known yet.
func (b *parts) likelyTools(ctx context.Context) ([]trajectory.ToolSpec, error) {
	if err := b.chooseTools(); err != nil {
		return nil, err
	}
	plan, err := b.tools.catalog.Plan(ctx, b.tools.sets, b.tools.missing)
	if err != nil {
		return nil, err
	}
	specs := make([]trajectory.ToolSpec, len(plan.Defs))
	for i, d := range plan.Defs {
		specs[i] = d.Spec
	}
	return specs, nil
}

// rowToolsets adds what single rows ask for, so that a set that cannot be served is found
// before anything is spent.
func (b *batch) rowToolsets(ctx context.Context, names []string) ([]string, error) {
	names = slices.Clone(names)
	if b.report.Mapping.Hermes["toolsets"] == 0 {
		return names, nil
	}
	for row, err := range b.skipBad(ctx) {
		if err != nil {
			return nil, err
		}
		for _, n := range row.Hermes.Toolsets {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	return names, nil
}

// fit plans everything that can be drawn and looks into one box of the run's image, which
// is opened in any case: that it is missing is found before anything is spent.
func (t *toolbox) fit(ctx context.Context, backend backends.Backend, image string) error {
	all, err := t.catalog.Plan(ctx, t.sets, t.missing)
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
	t.all = all
	return nil
}

// plan gives the tools of one rollout; own opens the box of a row with an image of its own.
func (t *toolbox) plan(ctx context.Context, names []string, own func(context.Context) (backends.Sandbox, error)) ([]tool.Def, []string, error) {
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
func (t *toolbox) named(ctx context.Context, names []string) (tool.Plan, error) {
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
	for _, d := range t.all.Defs {
		fits[d.Spec.Name] = true
	}
	for _, d := range t.all.Dropped {
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

// draw chooses the toolsets of a group.
func (t *toolbox) draw(r *rand.Rand) []string {
	if t.dist != nil {
		return t.dist.Sample(r)
	}
	return t.sets
}

func (t *toolbox) names() []string {
	var out []string
	for _, s := range t.all.Specs() {
		out = append(out, s.Name)
	}
	return out
}

// digest names what models are told about the tools.
func (t *toolbox) digest() string { return digest(tool.JSON(t.all.Specs())) }

package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hermes/backends"
	"hermes/internal/nearest"
	"hermes/trajectory"
)

// Missing says what to do about toolsets that cannot be served.
type Missing string

// The rules of --missing-tools; the zero value fails.
const (
	MissingFail Missing = "fail"
	MissingDrop Missing = "drop"
)

// ErrMissing says that a toolset cannot be served here.
var ErrMissing = errors.New("toolset cannot be served")

// Plan is what the rollouts of a run, or of one row, may use.
type Plan struct {
	Toolsets []string  // as asked, without those dropped whole
	Defs     []Def     // sorted by name
	Dropped  []Dropped // with MissingDrop or Fit
}

// Dropped is a toolset, or some tools of it, that were left out.
type Dropped struct {
	Toolset string
	Tools   []string
	Reason  string
}

// String is the form in which a record keeps it.
func (d Dropped) String() string {
	return d.Toolset + ": " + strings.Join(d.Tools, ", ") + ": " + d.Reason
}

// Specs are the tools as the model will be shown them, sorted by name, with the rewriting that
// depends on the other tools: the same as [Set.Specs] of a set of these tools.
func (p Plan) Specs() []trajectory.ToolSpec {
	var names []string
	for _, d := range p.Defs {
		names = append(names, d.Spec.Name)
	}
	slices.Sort(names)
	var specs []trajectory.ToolSpec
	for _, d := range p.Defs {
		if d.Respec != nil {
			d.Spec = d.Respec(d.Spec, slices.Clone(names))
		}
		specs = append(specs, d.Spec)
	}
	slices.SortFunc(specs, func(a, b trajectory.ToolSpec) int { return strings.Compare(a.Name, b.Name) })
	return specs
}

// Catalog is the tools and toolsets of a program.
type Catalog struct {
	sets   *Toolsets
	byName map[string]Def
}

// NewCatalog makes the toolsets that follow from the tools, the built-in ones and the
// user's own, and checks them. Names of tools are unique, and each tool names its toolset.
func NewCatalog(own []Toolset, defs ...Def) (*Catalog, error) {
	sets, err := NewToolsets(append(builtinToolsets(defs), own...)...)
	if err != nil {
		return nil, err
	}
	c := &Catalog{sets: sets, byName: map[string]Def{}}
	for _, d := range defs {
		if _, taken := c.byName[d.Spec.Name]; taken {
			return nil, fmt.Errorf("tool %s of toolset %s: the name is taken", d.Spec.Name, d.Toolset)
		}
		c.byName[d.Spec.Name] = d
	}
	return c, nil
}

// Toolsets returns the sets of the catalogue.
func (c *Catalog) Toolsets() *Toolsets { return c.sets }

// Defs lists all tools, sorted by name.
func (c *Catalog) Defs() []Def {
	var defs []Def
	for _, name := range slices.Sorted(maps.Keys(c.byName)) {
		defs = append(defs, c.byName[name])
	}
	return defs
}

// Get finds a tool by name or alias.
func (c *Catalog) Get(name string) (Def, error) {
	if d, ok := c.byName[name]; ok {
		return d, nil
	}
	for _, d := range c.byName {
		if slices.Contains(d.Aliases, name) {
			return d, nil
		}
	}
	names := slices.Collect(maps.Keys(c.byName))
	if n := nearest.Name(name, names); n != "" {
		return Def{}, fmt.Errorf("unknown tool %q (did you mean %s?)", name, n)
	}
	return Def{}, fmt.Errorf("unknown tool %q (have %s)", name, strings.Join(slices.Sorted(slices.Values(names)), ", "))
}

// Why says why a tool cannot be used, or nil.
func (c *Catalog) Why(ctx context.Context, name string) error {
	d, ok := c.byName[name]
	if !ok {
		return errors.New(c.sets.reason(name))
	}
	if d.Ready == nil {
		return nil
	}
	return d.Ready(ctx)
}

// Plan resolves toolsets to tools and asks each tool once whether it is ready. An unknown
// name is always an error. A set that lacks tools is an error (ErrMissing, naming them) or,
// with MissingDrop, is left out; of composite sets only the parts that lack tools are.
// "all" and "*" mean every tool that is ready.
func (c *Catalog) Plan(ctx context.Context, names []string, missing Missing) (Plan, error) {
	if missing != "" && missing != MissingFail && missing != MissingDrop {
		return Plan{}, fmt.Errorf("missing tools: %q is neither fail nor drop", missing)
	}
	p := planner{catalog: c, ctx: ctx, why: map[string]error{}, use: map[string]bool{}}
	var errs []error
	for _, name := range names {
		errs = append(errs, p.add(name))
	}
	if missing != MissingDrop {
		for _, d := range p.dropped {
			errs = append(errs, fmt.Errorf("%w: %s: %s: %s", ErrMissing, d.Toolset, strings.Join(d.Tools, ", "), d.Reason))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	plan := Plan{Toolsets: p.kept, Dropped: p.dropped}
	for _, name := range slices.Sorted(maps.Keys(p.use)) {
		plan.Defs = append(plan.Defs, c.byName[name])
	}
	return plan, nil
}

type planner struct {
	catalog *Catalog
	ctx     context.Context // of one call of Plan
	why     map[string]error
	use     map[string]bool
	kept    []string
	dropped []Dropped
}

func (p *planner) reason(name string) error {
	err, asked := p.why[name]
	if !asked {
		err = p.catalog.Why(p.ctx, name)
		p.why[name] = err
	}
	return err
}

func (p *planner) add(name string) error {
	if name == "all" || name == "*" {
		for tool := range p.catalog.byName {
			if p.reason(tool) == nil {
				p.use[tool] = true
			}
		}
		p.kept = append(p.kept, "all")
		return nil
	}
	parts, err := p.catalog.sets.parts(name, map[string]bool{})
	if err != nil {
		return err
	}
	name = parts[0].Name
	if slices.Contains(p.kept, name) {
		return nil
	}
	served := false
	for _, part := range parts {
		served = p.part(name, part) || served
	}
	if served {
		p.kept = append(p.kept, name)
	}
	return nil
}

// part adds the tools of one set, or drops them all.
func (p *planner) part(asked string, s Toolset) bool {
	d := Dropped{Toolset: asked}
	if s.Name != asked {
		d.Toolset = asked + "/" + s.Name
	}
	var reasons []string
	if s.Reason != "" && len(s.Tools) == 0 {
		d.Reason = s.Reason
		p.dropped = append(p.dropped, d)
		return false
	}
	for _, t := range s.Tools {
		if err := p.reason(t); err != nil {
			d.Tools = append(d.Tools, t)
			if !slices.Contains(reasons, err.Error()) {
				reasons = append(reasons, err.Error())
			}
		}
	}
	if len(d.Tools) > 0 {
		d.Reason = strings.Join(reasons, "; ")
		p.dropped = append(p.dropped, d)
		return false
	}
	for _, t := range s.Tools {
		p.use[t] = true
	}
	return len(s.Tools) > 0
}

// Fit asks every tool whether it fits the box. A tool that does not is left out if soft
// says so for its toolset, else it is an error. An error that wraps one of the conditions
// of package backends (the box failed) is returned as it is.
func (p Plan) Fit(ctx context.Context, box backends.Sandbox, soft func(toolset string) bool) (Plan, error) {
	fitted := Plan{Toolsets: slices.Clone(p.Toolsets), Dropped: slices.Clone(p.Dropped)}
	for _, d := range p.Defs {
		var err error
		if d.Fits != nil {
			err = d.Fits(ctx, box)
		}
		switch {
		case err == nil:
			fitted.Defs = append(fitted.Defs, d)
		case boxFailed(err):
			return Plan{}, fmt.Errorf("fit tool %s: %w", d.Spec.Name, err)
		case soft == nil || !soft(d.Toolset):
			return Plan{}, fmt.Errorf("%w: %s: %s: %w", ErrMissing, d.Toolset, d.Spec.Name, err)
		default:
			fitted.Dropped = append(fitted.Dropped, Dropped{Toolset: d.Toolset, Tools: []string{d.Spec.Name}, Reason: err.Error()})
			fitted.Toolsets = slices.DeleteFunc(fitted.Toolsets, func(s string) bool { return s == d.Toolset })
		}
	}
	return fitted, nil
}

func boxFailed(err error) bool {
	for _, e := range []error{backends.ErrLost, backends.ErrBroken, backends.ErrClosed, backends.ErrImage, backends.ErrUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

package cmd

import (
	"fmt"
	"math/rand/v2"
	"text/tabwriter"

	"hermes/rollout/tool"
)

// toolsetsCmd is `hermes toolsets`.
type toolsetsCmd struct {
	List   toolsetsList   `cmd:"" help:"List toolsets, or distributions."`
	Show   toolsetsShow   `cmd:"" help:"Show a toolset or a distribution."`
	Sample toolsetsSample `cmd:"" help:"Draw toolsets from a distribution."`
}

// distributions are the built-in and the user's own ones.
func (h *host) distributions(sets *tool.Toolsets) (*tool.Distributions, error) {
	section := h.Layers.Section("distributions")
	own, err := tool.DecodeDistributions(section.Node)
	if err != nil {
		return nil, section.Errorf("%v", err)
	}
	d, err := tool.NewDistributions(sets, append(tool.BuiltinDistributions(), own...)...)
	if err != nil {
		return nil, section.Errorf("%v", err)
	}
	return d, nil
}

// shownDistribution is a distribution in JSON.
type shownDistribution struct {
	Name        string             `json:"name"`
	Description string             `json:"description"`
	Toolsets    map[string]float64 `json:"toolsets"` // percent
}

func distributionJSON(d tool.Distribution) shownDistribution {
	s := shownDistribution{Name: d.Name, Description: d.Description, Toolsets: map[string]float64{}}
	for _, c := range d.Chances {
		s.Toolsets[c.Toolset] = c.Percent
	}
	return s
}

type toolsetsList struct {
	All           bool `nokey:"" help:"Also toolsets that cannot be served here, with the reason."`
	Distributions bool `nokey:"" help:"List distributions instead."`
	JSON          bool `name:"json" nokey:"" help:"A JSON array."`
}

// Run lists toolsets and whether they can be served, or distributions.
func (c *toolsetsList) Run(h *host) error {
	catalog, err := h.toolCatalog()
	if err != nil {
		return err
	}
	if !c.Distributions {
		hidden, err := catalog.WriteToolsets(h.Ctx, h.Stdio.Out, c.All, c.JSON)
		if hidden > 0 {
			fmt.Fprintf(h.Stdio.Err, "%d more are known by name and cannot be served here: hermes toolsets list --all\n", hidden)
		}
		return err
	}
	ds, err := h.distributions(catalog.Toolsets())
	if err != nil {
		return err
	}
	if c.JSON {
		list := []shownDistribution{}
		for _, d := range ds.All() {
			list = append(list, distributionJSON(d))
		}
		return printJSON(h.Stdio.Out, list)
	}
	w := tabwriter.NewWriter(h.Stdio.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DISTRIBUTION\tTOOLSETS\tDESCRIPTION")
	for _, d := range ds.All() {
		fmt.Fprintf(w, "%s\t%d\t%s\n", d.Name, len(d.Chances), d.Description)
	}
	return w.Flush()
}

type toolsetsShow struct {
	Name string `arg:"" help:"Toolset or distribution."`
	JSON bool   `name:"json" nokey:"" help:"One JSON object for each of that name."`
}

// Run shows what has the name; a toolset and a distribution may share one.
func (c *toolsetsShow) Run(h *host) error {
	catalog, err := h.toolCatalog()
	if err != nil {
		return err
	}
	ds, err := h.distributions(catalog.Toolsets())
	if err != nil {
		return err
	}
	set, unknown := catalog.Toolsets().Get(c.Name)
	d, none := ds.Get(c.Name)
	if unknown != nil && none != nil {
		return Usage("%w; %w", unknown, none)
	}
	if unknown == nil {
		if err := c.set(h, catalog, set); err != nil {
			return err
		}
	}
	if none == nil {
		return c.distribution(h, d)
	}
	return nil
}

func (c *toolsetsShow) set(h *host, catalog *tool.Catalog, s tool.Toolset) error {
	if !c.JSON {
		return catalog.WriteToolset(h.Ctx, h.Stdio.Out, s.Name)
	}
	tools, err := catalog.Toolsets().Tools(s.Name)
	if err != nil {
		return err
	}
	return printJSON(h.Stdio.Out, map[string]any{"name": s.Name, "description": s.Description, "tools": tools, "includes": append([]string{}, s.Includes...)})
}

func (c *toolsetsShow) distribution(h *host, d tool.Distribution) error {
	if c.JSON {
		return printJSON(h.Stdio.Out, distributionJSON(d))
	}
	fmt.Fprintf(h.Stdio.Out, "distribution %s: %s\n", d.Name, d.Description)
	w := tabwriter.NewWriter(h.Stdio.Out, 0, 0, 2, ' ', 0)
	for _, ch := range d.Chances {
		fmt.Fprintf(w, "%s\t%g %%\n", ch.Toolset, ch.Percent)
	}
	return w.Flush()
}

type toolsetsSample struct {
	Name  string `arg:"" name:"distribution" help:"Distribution."`
	Draws int    `short:"n" nokey:"" default:"10" help:"Draws."`
	Seed  int64  `default:"0" help:"Seed of everything random."`
	JSON  bool   `name:"json" nokey:"" help:"One JSON array a draw."`
}

// Run draws; the same seed gives the same sets.
func (c *toolsetsSample) Run(h *host) error {
	if c.Draws < 1 || c.Draws > 1_000_000 {
		return Usage("-n %d: want 1 to 1000000 draws", c.Draws)
	}
	catalog, err := h.toolCatalog()
	if err != nil {
		return err
	}
	ds, err := h.distributions(catalog.Toolsets())
	if err != nil {
		return err
	}
	d, err := ds.Get(c.Name)
	if err != nil {
		return Usage("%w", err)
	}
	if !c.JSON {
		return tool.WriteSamples(h.Stdio.Out, d, uint64(c.Seed), c.Draws)
	}
	r := rand.New(rand.NewPCG(uint64(c.Seed), 0))
	for range c.Draws {
		if err := printJSON(h.Stdio.Out, d.Sample(r)); err != nil {
			return err
		}
	}
	return nil
}

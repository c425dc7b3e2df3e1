package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"text/tabwriter"

	"hermes/trajectory"
)

// WriteTools lists the tools of a catalogue (`hermes tools list`): as a table, or with
// asJSON as one array of {name, toolset, ready, reason}. With all, those that cannot be used
// here are listed with their reasons; else hidden counts them.
func (c *Catalog) WriteTools(ctx context.Context, w io.Writer, all, asJSON bool) (hidden int, err error) {
	type line struct {
		Name    string `json:"name"`
		Toolset string `json:"toolset"`
		Ready   bool   `json:"ready"`
		Reason  string `json:"reason,omitempty"`
	}
	lines := []line{}
	for _, d := range c.Defs() {
		l := line{Name: d.Spec.Name, Toolset: d.Toolset, Ready: true}
		if err := c.Why(ctx, d.Spec.Name); err != nil {
			l.Ready, l.Reason = false, err.Error()
		}
		lines = append(lines, l)
	}
	for name, set := range c.sets.absent() {
		if _, built := c.byName[name]; !built {
			lines = append(lines, line{Name: name, Toolset: set, Reason: c.sets.reason(name)})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.Name, b.Name) })
	if !all {
		known := len(lines)
		lines = slices.DeleteFunc(lines, func(l line) bool { return !l.Ready })
		hidden = known - len(lines)
	}
	if asJSON {
		_, err := fmt.Fprintln(w, JSON(lines))
		return hidden, err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TOOL\tTOOLSET\tSTATE")
	for _, l := range lines {
		state := "ready"
		if !l.Ready {
			state = l.Reason
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", l.Name, l.Toolset, state)
	}
	return hidden, t.Flush()
}

// WriteTool shows one tool (`hermes tools show`): what the model is shown of it.
func (c *Catalog) WriteTool(w io.Writer, name string, asJSON bool) error {
	d, err := c.Get(name)
	if err != nil {
		return err
	}
	if asJSON {
		_, err := fmt.Fprintln(w, JSON(d.Spec))
		return err
	}
	var schema bytes.Buffer
	if err := json.Indent(&schema, d.Spec.Parameters, "", "  "); err != nil {
		return fmt.Errorf("parameters of %s: %w", name, err)
	}
	_, err = fmt.Fprintf(w, "%s (toolset %s)\n\n%s\n\n%s\n", d.Spec.Name, d.Toolset, d.Spec.Description, schema.String())
	return err
}

// RunTool makes one call in a new scope (`hermes tools run NAME JSON`) and writes its
// result. failed says that the tool reported a failure.
func (c *Catalog) RunTool(ctx context.Context, w io.Writer, scope *Scope, name, args string) (failed bool, err error) {
	if _, err := c.Get(name); err != nil {
		return false, err
	}
	if err := c.Why(ctx, name); err != nil {
		return false, fmt.Errorf("tool %s: %w", name, err)
	}
	var defs []Def
	for _, d := range c.Defs() {
		if c.Why(ctx, d.Spec.Name) == nil {
			defs = append(defs, d) // code may call the others
		}
	}
	s, err := NewSet(defs, scope, SetOptions{ResultLimit: 1 << 30, TurnLimit: 1 << 30})
	if err != nil {
		return false, err
	}
	r, err := s.Call(ctx, trajectory.Call{ID: "run", Name: name, Arguments: args})
	if err == nil {
		_, err = fmt.Fprintln(w, r.Text)
	}
	if e := s.Close(context.WithoutCancel(ctx)); err == nil {
		err = e
	}
	return r.Failed, err
}

// WriteToolsets lists toolsets (`hermes toolsets list`). With all, those that lack tools
// here are listed with their reasons; else hidden counts them.
func (c *Catalog) WriteToolsets(ctx context.Context, w io.Writer, all, asJSON bool) (hidden int, err error) {
	type line struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Tools       []string `json:"tools"`
		Includes    []string `json:"includes,omitempty"`
		Served      bool     `json:"served"`
		Missing     []string `json:"missing,omitempty"`
		Reason      string   `json:"reason,omitempty"`
	}
	lines := []line{}
	for _, name := range c.sets.Names() {
		s, _ := c.sets.Get(name)
		tools, err := c.sets.Tools(name)
		if err != nil {
			return 0, err
		}
		l := line{Name: name, Description: s.Description, Tools: tools, Includes: s.Includes, Reason: s.Reason}
		for _, t := range tools {
			if why := c.Why(ctx, t); why != nil {
				l.Missing = append(l.Missing, t)
				l.Reason = cmp.Or(l.Reason, why.Error())
			}
		}
		l.Served = len(l.Missing) == 0 && s.Reason == ""
		if !l.Served && !all {
			hidden++
			continue
		}
		lines = append(lines, l)
	}
	if asJSON {
		_, err := fmt.Fprintln(w, JSON(lines))
		return hidden, err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TOOLSET\tTOOLS\tSTATE\tDESCRIPTION")
	for _, l := range lines {
		state := "ready"
		if !l.Served {
			state = fmt.Sprintf("%d of %d tools missing: %s", len(l.Missing), len(l.Tools), l.Reason)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", l.Name, len(l.Tools), state, l.Description)
	}
	return hidden, t.Flush()
}

// WriteToolset shows one toolset (`hermes toolsets show`): its tools and why some are missing.
func (c *Catalog) WriteToolset(ctx context.Context, w io.Writer, name string) error {
	s, err := c.sets.Get(name)
	if err != nil {
		return err
	}
	tools, err := c.sets.Tools(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s\n", s.Name, s.Description)
	if s.Composite() {
		fmt.Fprintf(w, "includes %s\n", strings.Join(s.Includes, ", "))
	}
	if s.Reason != "" && len(tools) == 0 {
		fmt.Fprintln(w, s.Reason)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, tool := range tools {
		state := "ready"
		if err := c.Why(ctx, tool); err != nil {
			state = err.Error()
		}
		fmt.Fprintf(t, "%s\t%s\n", tool, state)
	}
	return t.Flush()
}

// WriteSamples draws n times from a distribution (`hermes toolsets sample`), one line a draw.
func WriteSamples(w io.Writer, d Distribution, seed uint64, n int) error {
	r := rand.New(rand.NewPCG(seed, 0))
	for range n {
		if _, err := fmt.Fprintln(w, strings.Join(d.Sample(r), " ")); err != nil {
			return err
		}
	}
	return nil
}

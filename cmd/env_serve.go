package cmd

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"hermes/configs"
	loop "hermes/internal/atropos/serve"
	"hermes/internal/atropos/upstream"
	"hermes/internal/exit"
	"hermes/internal/runs/serve"
	"hermes/internal/settings"
)

type envServe struct{ settings.Serve }

// groupSize is the size of a trainer's group where no flag sets it. It is that of Atropos.
const groupSize = 4

// Run serves the environments until the trainer has its steps.
func (c *envServe) Run(h *host) error {
	layers := h.Layers.Settings(h.parsed)
	if c.Grader != "" {
		return Usage("--grader %s: an environment scores by itself", c.Grader)
	}
	unset := func(name string) bool {
		i := slices.IndexFunc(layers, func(s configs.Setting) bool { return s.Name == name })
		return i >= 0 && layers[i].Layer == configs.FromDefault
	}
	if unset("rollouts") {
		c.Rollouts = groupSize
	}
	if unset("faults") {
		c.Faults = "show" // asking again for a better answer would bias the gradient
	}
	totals, books, err := serve.Run(h.Ctx, h.build(), c.Serve, layers)
	h.flushLogs()
	if totals.Envs != nil && !exit.IsUsage(err) {
		tellServed(h, totals)
		if c.JSON {
			err = errors.Join(err, printJSON(h.Stdio.Out, map[string]any{"books": books, "served": totals}))
		}
	}
	return exitOf(err)
}

// atroposArgs says Atropos' own flags and files, which `env serve` understands, in ours.
func atroposArgs(args []string, say func(string)) ([]string, error) {
	i := slices.Index(args, "serve")
	if i < 1 || args[i-1] != "env" {
		return args, nil
	}
	t, err := upstream.Translate(args[i+1:], os.ReadFile)
	if err != nil {
		return nil, err
	}
	for _, n := range t.Notes {
		say(n)
	}
	return append(slices.Clone(args[:i+1]), t.Args...), nil
}

func tellServed(h *host, t loop.Totals) {
	for _, name := range slices.Sorted(maps.Keys(t.Envs)) {
		e := t.Envs[name]
		line := fmt.Sprintf("%s: %d groups sent", name, e.Sent)
		list := func(what string, n map[string]int64) {
			var parts []string
			for _, why := range slices.Sorted(maps.Keys(n)) {
				parts = append(parts, fmt.Sprintf("%s %d", why, n[why]))
			}
			if parts != nil {
				line += "; " + what + ": " + strings.Join(parts, ", ")
			}
		}
		list("groups dropped", e.Dropped)
		list("samples dropped", e.Samples)
		if e.Unknown > 0 {
			line += fmt.Sprintf("; of unknown fate: %d", e.Unknown)
		}
		fmt.Fprintln(h.Stdio.Err, line)
	}
	fmt.Fprintf(h.Stdio.Err, "trainer at step %d\n", t.Step)
}

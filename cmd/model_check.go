package cmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"hermes/internal/build"
	"hermes/internal/runs/check"
	"hermes/internal/settings"
)

// modelCheck is `hermes model check`.
type modelCheck struct{ settings.ModelCheck }

// Run checks the parts of a model and its server. Parts that cannot be used, a server that
// gives no ids and a difference are exit 2: a run would be refused for the same reason.
func (c *modelCheck) Run(h *host) error {
	ctx, stop := h.untilSignal()
	defer stop()
	key := h.Env.Get(c.APIKeyEnv)
	if err := settings.WantKey(c.APIKeyEnv, key); err != nil && c.BaseURL != "" {
		return Usage("--api-key-env %s: %w", c.APIKeyEnv, err)
	}
	h.Redact.Add(key)
	hub := build.ModelHub(h.build(), c.Offline)
	h.Redact.Add(hub.Token)
	found, err := check.ModelCheck{ModelCheck: c.ModelCheck, Key: key, Hub: hub, Now: time.Now()}.Run(ctx)
	if c.JSON {
		if e := printJSON(h.Stdio.Out, found); e != nil {
			return e
		}
	} else if e := printCheck(h, found); e != nil {
		return e
	}
	if err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	return nil
}

func printCheck(h *host, found *check.CheckedModel) error {
	var b strings.Builder
	say := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	for _, l := range found.Parts {
		say("%s", l)
	}
	if r := found.Report; r != nil {
		say("server: %s, model %s", r.Base, r.Model)
		for _, a := range r.Abilities {
			say("  %-24s %s", a.Name, yes(a.OK, a.Note))
		}
		for _, s := range r.Proof {
			say("  %-8s %s: %s", s.Result, s.Name, s.Note)
		}
		switch {
		case r.Exact() && !r.Skipped():
			say("template, tokenizer and parser agree with the server token by token")
		case r.Exact():
			say("nothing differs; what was skipped could not be compared")
		}
		if len(r.Proof) == 0 && r.Wire != "chat" {
			say("nothing proved: give --model-files, or --tokenizer and --template")
		}
	}
	if len(found.Lines) > 0 {
		say("run file:")
	}
	for _, l := range found.Lines {
		say("  %s", l)
	}
	_, err := io.WriteString(h.Stdio.Out, b.String())
	return err
}

func yes(ok bool, note string) string {
	word := map[bool]string{true: "yes", false: "no"}[ok]
	if note != "" {
		word += ", " + note
	}
	return word
}

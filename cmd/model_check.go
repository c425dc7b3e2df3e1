package cmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"hermes/internal/app"
)

// modelCheck is `hermes model check`. Its settings belong to one check and are no keys of
// run files; the lines that it prints are.
type modelCheck struct {
	BaseURL    string        `name:"base-url" nokey:"" placeholder:"URL" help:"OpenAI-compatible server, ends in /v1. Without it the parts alone are checked."`
	Model      string        `nokey:"" placeholder:"NAME" help:"Model name (default: the only one that the server offers)."`
	APIKeyEnv  string        `name:"api-key-env" nokey:"" default:"OPENAI_API_KEY" placeholder:"NAME" help:"Environment variable that holds the key."`
	ModelFiles string        `name:"model-files" nokey:"" placeholder:"SPEC" help:"hf:owner/name[@revision] or a folder: tokenizer, template, generation configuration; no weights."`
	Tokenizer  string        `nokey:"" placeholder:"FILE|DIR" help:"Tokenizer file, or 'server' for the server's own (default: that of the model files, else the server's)."`
	Template   string        `nokey:"" placeholder:"FILE" help:"Chat template, or the name of one among the model files."`
	Kwargs     string        `name:"template-kwargs" nokey:"" placeholder:"JSON" help:"Further variables of the template."`
	Family     string        `nokey:"" placeholder:"NAME" help:"Parser family (default: what the template tells)."`
	Timeout    time.Duration `nokey:"" default:"2m" help:"Longest wait for one answer."`
	Offline    bool          `nokey:"" help:"Use only what the hub's cache holds."`
	JSON       bool          `nokey:"" help:"Print the findings as JSON."`
}

// Run checks the parts of a model and its server. Parts that cannot be used, a server that
// gives no ids and a difference are exit 2: a run would be refused for the same reason.
func (c *modelCheck) Run(h *host) error {
	ctx, stop := h.untilSignal()
	defer stop()
	key := h.Env.Get(c.APIKeyEnv)
	if err := app.WantKey(c.APIKeyEnv, key); err != nil && c.BaseURL != "" {
		return Usage("--api-key-env %s: %w", c.APIKeyEnv, err)
	}
	h.Redact.Add(key)
	hub := app.Hub(h.Env.Get, c.Offline)
	h.Redact.Add(hub.Token)
	hub.Log = func(line string) { fmt.Fprintln(h.Stdio.Err, line) }
	found, err := app.ModelCheck{BaseURL: c.BaseURL, Model: c.Model, Key: key, KeyEnv: c.APIKeyEnv, ModelFiles: c.ModelFiles, Tokenizer: c.Tokenizer, Template: c.Template,
		Kwargs: c.Kwargs, Family: c.Family, Timeout: c.Timeout, Hub: hub, Now: time.Now()}.Run(ctx)
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

func printCheck(h *host, found *app.CheckedModel) error {
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

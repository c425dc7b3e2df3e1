// Package modelcheck asks a model server what it can do and proves that template,
// tokenizer and parser here agree with it token by token: what exact training needs, before
// anything is spent on it.
package modelcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"hermes/internal/jinja"
	"hermes/parsers"
	"hermes/parsers/tokenizer"
	"hermes/parsers/tokenizer/remote"
)

// Options say which server and which parts. Base and Model are required.
type Options struct {
	Base    string // http://host:port/v1
	Model   string
	Key     string        // bearer token; empty: none
	Timeout time.Duration // of one request; 0 means 2 min
	Client  *http.Client  // nil means http.DefaultClient

	Tokenizer tokenizer.Coder // nil: the server's own /tokenize, where it has one
	Template  *jinja.Template // nil: nothing is proved
	Vars      map[string]any  // further variables of the template; sent to the server as chat_template_kwargs
	BOS, EOS  string
	Stops     []string       // spellings of tokens that end a turn; for the server's tokenizer, which does not tell
	Family    parsers.Family // the zero value: answers are compared as text only
	Thinking  bool           // the prompt opens the think block
	Now       time.Time      // what the template's clock says; the server's should say the same
}

// Ability is one thing that a server can do, or not.
type Ability struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Note string `json:"note,omitempty"`
}

// Step is one step of the proof.
type Step struct {
	Name   string `json:"name"`
	Result string `json:"result"` // proved, differs, skipped
	Note   string `json:"note,omitempty"`
}

// The results of a step.
const (
	Proved  = "proved"
	Differs = "differs"
	Skipped = "skipped" // it could not be compared
)

// Report is what was found.
type Report struct {
	Base      string    `json:"base"`
	Model     string    `json:"model"`
	Wire      string    `json:"wire"` // how exact runs would talk to it: vllm, vllm-completions, sglang, llamacpp; chat: not exactly
	Abilities []Ability `json:"abilities"`
	Proof     []Step    `json:"proof"`
}

// Exact tells whether something was proved and nothing differs.
func (r *Report) Exact() bool {
	proved := false
	for _, s := range r.Proof {
		if s.Result == Differs {
			return false
		}
		proved = proved || s.Result == Proved
	}
	return proved
}

// Skipped tells whether something could not be compared.
func (r *Report) Skipped() bool {
	return slices.ContainsFunc(r.Proof, func(s Step) bool { return s.Result == Skipped })
}

// ErrNoIDs says that the server gives no token ids, without which nothing is exact.
var ErrNoIDs = errors.New(`the server returns no token ids: start vLLM 0.10.2 or later (return_token_ids, /inference/v1/generate), ` +
	`SGLang with its native /generate reachable, or llama.cpp's server (/completion with return_tokens)`)

// ErrDiffers says that the parts here are not those of the server.
var ErrDiffers = errors.New("template, tokenizer or parser differ from the server's")

// Run probes the server and, with a template, proves the parts. The report is complete
// also where the error is [ErrNoIDs] or [ErrDiffers].
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Base == "" || o.Model == "" {
		return nil, errors.New("model check: no base address or no model")
	}
	o.Timeout, o.Client = cmp.Or(o.Timeout, 2*time.Minute), cmp.Or(o.Client, http.DefaultClient)
	o.Base = strings.TrimRight(o.Base, "/")
	c := &check{Options: o, root: strings.TrimSuffix(o.Base, "/v1"), report: &Report{Base: o.Base, Model: o.Model, Wire: "chat", Proof: []Step{}}}
	if err := c.abilities(ctx); err != nil {
		return c.report, err
	}
	if o.Template == nil {
		return c.report, nil
	}
	if c.Tokenizer == nil && c.served == nil {
		return c.report, errors.New("no --tokenizer, and the server has no /tokenize: nothing to compare ids with")
	}
	if c.Tokenizer == nil {
		c.Tokenizer = c.served
	}
	if !c.gives["token ids"] && c.report.Wire == "chat" {
		return c.report, fmt.Errorf("%s: %w", o.Base, ErrNoIDs)
	}
	if err := c.prove(ctx); err != nil {
		return c.report, err
	}
	if !c.report.Exact() {
		return c.report, ErrDiffers
	}
	return c.report, nil
}

// check is one run.
type check struct {
	Options
	root   string // Base without /v1
	served *remote.Tokenizer
	gives  map[string]bool
	report *Report
}

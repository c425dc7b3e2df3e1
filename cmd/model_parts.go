package cmd

import (
	"fmt"
	"os"
	"time"

	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/parsers/tokenizer"
)

// modelParse is `hermes model parse`.
type modelParse struct {
	List    bool   `nokey:"" help:"Print the families as JSON."`
	JSONL   bool   `name:"jsonl" nokey:"" help:"One JSON object a line on stdin, one on stdout."`
	Dialect string `nokey:"" placeholder:"NAME" help:"Reproduce the choices of vllm, sglang or upstream (default: ours)."`

	ResponseTemplate string `nokey:"" placeholder:"FILE" help:"A model's response_template, or the tokenizer_config.json that holds it: the family response_template."`
}

// Run reads what models wrote.
func (c *modelParse) Run(h *host) error {
	set, err := c.families()
	if err != nil {
		return Usage("--response-template: %w", err)
	}
	if c.List {
		var names []string
		for _, f := range set.Families() {
			names = append(names, f.Name)
		}
		return printJSON(h.Stdio.Out, names)
	}
	d, err := parsers.ParseDialect(c.Dialect)
	if err != nil {
		return Usage("--dialect: %w", err)
	}
	if !c.JSONL {
		return Usage("want --jsonl (lines on stdin) or --list")
	}
	return parsers.Lines(h.stdin(), h.Stdio.Out, set, d)
}

// families is the set of families, with that of the response template if one is named.
func (c *modelParse) families() (*parsers.Set, error) {
	if c.ResponseTemplate == "" {
		return parsers.Standard(), nil
	}
	source, err := os.ReadFile(c.ResponseTemplate)
	if err != nil {
		return nil, err
	}
	f, err := parsers.FromResponseTemplate(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.ResponseTemplate, err)
	}
	return parsers.NewSet(append(parsers.Builtin(), f)...)
}

// modelRender is `hermes model render`.
type modelRender struct {
	JSONL bool `name:"jsonl" nokey:"" help:"One JSON object a line on stdin, one on stdout."`
}

// Run renders chat templates.
func (c *modelRender) Run(h *host) error {
	if !c.JSONL {
		return Usage("want --jsonl (lines on stdin)")
	}
	return chattemplate.RenderLines(h.stdin(), h.Stdio.Out, chattemplate.LineOptions{ReadFile: os.ReadFile, Now: time.Now})
}

// modelTokenize is `hermes model tokenize`.
type modelTokenize struct {
	Tokenizer string `nokey:"" placeholder:"FILE|DIR" help:"tokenizer.json, tiktoken ranks, a SentencePiece model, or a folder that holds one."`
	JSONL     bool   `name:"jsonl" nokey:"" help:"One JSON object a line on stdin, one on stdout."`
}

// Run turns text into ids and ids into text.
func (c *modelTokenize) Run(h *host) error {
	if c.Tokenizer == "" || !c.JSONL {
		return Usage("want --tokenizer FILE|DIR and --jsonl (lines on stdin)")
	}
	t, err := tokenizer.Load(c.Tokenizer)
	if err != nil {
		return Usage("--tokenizer: %w", err)
	}
	return tokenizer.ServeLines(t, h.stdin(), h.Stdio.Out)
}

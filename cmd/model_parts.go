package cmd

import (
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
}

// Run reads what models wrote.
func (c *modelParse) Run(h *host) error {
	set := parsers.Standard()
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

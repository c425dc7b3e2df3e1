package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"hermes/internal/build"
	"hermes/internal/fakellm"
	"hermes/internal/fakellm/model"
	"hermes/internal/guard"
)

// modelCmd is `hermes model`.
type modelCmd struct {
	Check    modelCheck    `cmd:"" help:"Say what a model server can do and prove that template, tokenizer and parser agree with it."`
	Parse    modelParse    `cmd:"" help:"Read tool calls and reasoning out of what a model wrote."`
	Render   modelRender   `cmd:"" help:"Render a chat template."`
	Tokenize modelTokenize `cmd:"" help:"Turn text into ids and back."`
	Fake     modelFake     `cmd:"" help:"Serve a scripted model for tests and demos."`
}

// modelFake is `hermes model fake`. Its settings belong to one server and are no keys of
// run files.
type modelFake struct {
	Listen     string        `nokey:"" default:"127.0.0.1:0" placeholder:"ADDRESS" help:"Address; port 0 takes a free one. Beyond the loopback it wants --key, --token, --allow or --insecure."`
	Like       string        `nokey:"" enum:",openai,openrouter,vllm,sglang,llamacpp,ollama,anthropic" default:"" placeholder:"SERVER" help:"Take on the ways of a server: openai, openrouter, vllm, sglang, llamacpp, ollama, anthropic."`
	Script     string        `nokey:"" placeholder:"FILE" help:"JSON lines {match, turns}: what the model says (default: a small agent that calls the tools it is offered)."`
	Models     []string      `nokey:"" placeholder:"NAME" help:"Model names that exist (default: any)."`
	Key        string        `nokey:"" placeholder:"TEXT" help:"Demand this bearer token."`
	Seed       int64         `nokey:"" default:"0" help:"Seed of latency and faults."`
	Closed     []string      `nokey:"" placeholder:"PATH" help:"Paths that are answered with 403, such as /inference/v1/generate of a vLLM without --enable-scale-out."`
	Latency    string        `nokey:"" placeholder:"MODEL" help:"Parts joined by +: 200ms, lognormal:1s,0.5, tokens:80 (a second), prompt:20000."`
	Faults     string        `nokey:"" placeholder:"NAME=SHARE,..." help:"Shares of requests that fail, such as 429=0.05,reset=0.01."`
	Capacity   int           `nokey:"" help:"Requests worked on at once; the others wait."`
	Degrade    float64       `nokey:"" help:"Share by which answers slow down for each capacity in flight above the first."`
	Limit      int           `nokey:"" help:"Requests in flight above which 429 is answered."`
	RetryAfter time.Duration `nokey:"" help:"Sent with 429."`
	Context    int           `nokey:"" name:"context-length" help:"Tokens that a request may have."`
	Tokenizer  string        `nokey:"" placeholder:"FILE|DIR" help:"Tokenizer with the tokens of ChatML; builtin:words needs no file (default: one id a byte)."`
	KeepTokens bool          `nokey:"" name:"keep-tokens" help:"Put the tokens of prompts and answers into the log."`
	Log        string        `nokey:"" aliases:"log-file" placeholder:"FILE" help:"Append one JSON line a request."`
	guardFlags
}

// fakeGCPercent lets the heap of the server grow: it serves thousands of small requests
// and keeps next to nothing.
const fakeGCPercent = 800

// Run serves until a signal. The first line of stdout is the address.
func (c *modelFake) Run(h *host) (err error) {
	h.Redact.Add(c.Key)
	guarded, err := c.guard(h)
	if err != nil {
		return err
	}
	o, err := c.options()
	if err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	if c.Log != "" {
		f, openErr := os.OpenFile(c.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if openErr != nil {
			return Usage("log file: %w", openErr)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		o.Log = f
	}
	s, err := fakellm.New(o)
	if err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(fakeGCPercent))
	ctx, stop := h.untilSignal()
	defer stop()
	guarded.Insecure = guarded.Insecure || c.Key != "" // then the model asks for its key itself; what it leaves open are counts
	r, err := s.Serve(ctx, c.Listen, guarded)
	if errors.Is(err, guard.ErrOpen) {
		err = fmt.Errorf("%w; --key TEXT has the model ask for a key, as real servers do", err)
	}
	if err != nil {
		return &Exit{Code: ExitUsage, Err: err}
	}
	if _, err := fmt.Fprintln(h.Stdio.Out, r.URL); err != nil {
		return err
	}
	err = r.Wait()
	counts := s.Stats()
	fmt.Fprintf(h.Stdio.Err, "hermes: %d requests, %d answers, %d refused, at most %d at once, /metrics read %d times\n",
		counts.Requests, counts.Answers, counts.Refused, counts.MaxInFlight, counts.Metrics)
	return err
}

func (c *modelFake) options() (fakellm.Options, error) {
	o := fakellm.Options{Models: c.Models, Like: c.Like, Key: c.Key, ContextLength: c.Context, Closed: c.Closed, Seed: uint64(c.Seed), Capacity: c.Capacity,
		Degrade: c.Degrade, Limit: c.Limit, RetryAfter: c.RetryAfter}
	var err error
	if c.Latency != "" {
		o.Latency, err = model.ParseLatency(c.Latency)
		if err != nil {
			return o, fmt.Errorf("--latency: %w", err)
		}
	}
	if c.Faults != "" {
		o.Faults, err = fakellm.ParseFaults(c.Faults)
		if err != nil {
			return o, fmt.Errorf("--faults: %w", err)
		}
	}
	o.KeepTokens = c.KeepTokens
	if c.Tokenizer != "" {
		t, err := build.LoadTokenizer(c.Tokenizer)
		if err == nil {
			o.Tokenizer, err = build.FakeTokens(t, fakellm.ChatML.End)
		}
		if err != nil {
			return o, fmt.Errorf("--tokenizer: %w", err)
		}
	}
	if c.Script != "" {
		o.Scripts, err = readScripts(c.Script)
		if err != nil {
			return o, fmt.Errorf("script %s: %w", c.Script, err)
		}
	}
	return o, nil
}

// maxScript bounds a script file, in bytes.
const maxScript = 256 << 20

func readScripts(file string) ([]fakellm.Script, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return fakellm.ReadScripts(io.LimitReader(f, maxScript))
}

// Package compress makes trajectories fit a budget of tokens, with summaries that a model
// writes in the place of turns.
package compress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/settings"
	"hermes/parsers/chattemplate"
	"hermes/parsers/tokenizer"
	"hermes/rollout/policy"
	"hermes/trajectory"
	"hermes/trajectory/compress"
)

// job is one compression.
type job struct {
	settings.Compress
	host build.Host
}

// Run makes trajectories fit a budget of tokens and returns its books. The error, if any,
// has its exit code.
func Run(ctx context.Context, h build.Host, flags settings.Compress) (compress.Metrics, error) {
	c := job{flags, h}
	inputs, err := compress.Find(c.Inputs)
	if err != nil {
		return compress.Metrics{}, exit.Usage(err)
	}
	if !(c.SamplePercent > 0 && c.SamplePercent <= 100) {
		return compress.Metrics{}, exit.Usage(fmt.Errorf("--sample-percent %g: want more than 0 and at most 100", c.SamplePercent))
	}
	sample := compress.Sample{}
	if c.SamplePercent < 100 {
		sample = compress.Sample{Percent: c.SamplePercent, Seed: c.Seed}
	}
	id := compress.Identity{Summarizer: "extractive"}
	o := compress.Options{Target: c.TargetTokens, Summary: c.SummaryTokens, Tail: c.ProtectLast}
	tok, err := c.counter(ctx, inputs, &id, &o)
	if err != nil {
		return compress.Metrics{}, exit.Usage(err)
	}
	if !c.DryRun {
		p, named, err := c.Summarizer()
		if err != nil {
			return compress.Metrics{}, exit.Usage(err)
		}
		if named {
			m, err := build.OpenModel(ctx, h, p)
			if err != nil {
				return compress.Metrics{}, exit.Usage(err)
			}
			defer (&build.Closers{m.Close}).Log(h.Logger())
			o.Summarizer, o.Model = c.summarizer(m, p), m.Name
			id.Summarizer = "model:" + o.Model
		}
	}
	k, err := compress.New(build.Counter{T: tok}, o)
	if err != nil {
		return compress.Metrics{}, exit.Usage(err)
	}
	if c.DryRun {
		id.Summarizer = "none: a dry run, with extracts in the place of summaries"
		m, err := k.Look(ctx, compress.Job{Inputs: inputs, Sample: sample, Identity: id, Concurrency: c.Concurrency})
		return m, compressError(err)
	}
	work := compress.Job{Inputs: inputs, Sample: sample, Out: c.Into, Identity: id, Concurrency: c.Concurrency, Created: "hermes " + h.Version, Drain: h.Drain, Progress: c.progress()}
	m, err := k.Run(ctx, work)
	return m, compressError(err)
}

// compressError gives an error the exit code that it deserves.
func compressError(err error) error {
	var stop *compress.StopError
	var other *compress.OtherError
	var e *policy.Error
	switch {
	case errors.Is(err, compress.ErrDrained):
		return fmt.Errorf("%w: %w", context.Canceled, err)
	case errors.As(err, &other):
		return exit.Usage(err)
	case errors.As(err, &stop):
		if errors.As(err, &e) && e.Kind != policy.Budget && !errors.Is(err, errLater) {
			return exit.Usage(err)
		}
		return exit.Stopped(err)
	}
	return err
}

// progress tells how far the work is, every few seconds.
func (c job) progress() func(compress.Metrics) {
	if c.Progress == "none" {
		return nil
	}
	last := time.Now()
	return func(m compress.Metrics) {
		if time.Since(last) < 5*time.Second {
			return
		}
		last = time.Now()
		fmt.Fprintf(c.host.Err, "hermes: %d rows: under %d, compressed %d, over %d, kept %d, unreadable %d, fallbacks %d\n", m.Rows, m.Under, m.Compressed, m.Over, m.Kept, m.Unreadable, m.Fallbacks)
	}
}

// counter reads the tokenizer, and for exact inputs the template.
func (c job) counter(ctx context.Context, in compress.Inputs, id *compress.Identity, o *compress.Options) (tokenizer.Tokenizer, error) {
	if c.Tokenizer == "" && c.ModelFiles == "" {
		return nil, errors.New("no tokenizer: name that of the model which will read the data with --tokenizer FILE|DIR or --model-files")
	}
	f, hub := c.Exact(), build.ModelHub(c.host, c.Offline)
	if !in.Exact {
		if c.Template != "" || c.TemplateVars != "" {
			return nil, errors.New("--template, --template-kwargs: only Parquet of exact runs holds tokens that a template gave")
		}
		tok, err := build.OpenTokenizer(ctx, f, hub)
		if err != nil {
			return nil, err
		}
		id.Tokenizer = build.TokenizerDigest(tok)
		return tok, nil
	}
	if c.Tokenizer == settings.BuiltinTokenizer {
		f.Template = cmp.Or(f.Template, settings.BuiltinTemplate)
	}
	m, err := build.OpenExact(ctx, f, hub, time.Now())
	if err != nil {
		return nil, fmt.Errorf("the input holds exact tokens: %w", err)
	}
	id.Tokenizer, id.Template = m.TokenizerID, m.TemplateID
	o.Bridge = bridge{m.Tokenizer, m.Template}.tokens
	return m.Tokenizer, nil
}

// bridge renders what is between two answers and tokenizes it.
type bridge struct {
	tok  tokenizer.Tokenizer
	tmpl *chattemplate.Template
}

func (b bridge) tokens(history []trajectory.Message, last int32, tail []trajectory.Message, tools []trajectory.ToolSpec) ([]int32, error) {
	end, _ := b.tok.Token(trajectory.Token(last))
	if !slices.ContainsFunc(b.tok.Specials(), func(s tokenizer.Special) bool { return s.Special && s.Text == end }) {
		end = "" // the answer ended without a control token
	}
	pieces, err := b.tmpl.Bridge(history, end, tail, tools)
	if err != nil {
		return nil, err
	}
	if ids, ok, err := b.together(end, last, pieces); ok || err != nil {
		return ids, err
	}
	var out []int32
	for i := 0; i < len(pieces); {
		run := i
		var text strings.Builder
		for ; i < len(pieces) && pieces[i].Special == pieces[run].Special; i++ {
			text.WriteString(pieces[i].Text)
		}
		ids, err := b.tok.Encode(text.String(), tokenizer.Options{Special: pieces[run].Special})
		if err != nil {
			return nil, err
		}
		out = append(out, plain(ids)...)
	}
	return out, nil
}

// together tokenizes all pieces at once behind the token before them, since
// tokenizers look across the borders of control tokens. It is not ok where a message
// spells a control token: the pieces are then tokenized one by one.
func (b bridge) together(end string, last int32, pieces []chattemplate.Piece) (out []int32, ok bool, err error) {
	text, controls := end, 0
	for _, p := range pieces {
		text += p.Text
		if _, known := b.tok.ID(p.Text); p.Special && known {
			controls++
		}
	}
	ids, err := b.tok.Encode(text, tokenizer.Options{Special: true})
	if err != nil {
		return nil, false, err
	}
	if end != "" {
		if len(ids) == 0 || int32(ids[0]) != last {
			return nil, false, nil
		}
		ids = ids[1:]
	}
	special := map[trajectory.Token]bool{}
	for _, s := range b.tok.Specials() {
		special[s.ID] = s.Special
	}
	for _, id := range ids {
		if special[id] {
			controls--
		}
	}
	return plain(ids), controls == 0, nil
}

func plain(ids []trajectory.Token) []int32 {
	out := make([]int32, len(ids))
	for i, id := range ids {
		out[i] = int32(id)
	}
	return out
}

// errLater marks a refusal that came after answers: the work can be taken up.
var errLater = errors.New("after answers")

// summarizer has the model write summaries.
func (c job) summarizer(m *build.Model, p settings.Parts) *summarizer {
	s := &summarizer{p: m.Policy, o: p.Options(), tries: c.Retries + 1, timeout: c.Timeout, stopAfter: int64(c.StopAfter)}
	s.o.MaxTokens = cmp.Or(s.o.MaxTokens, 2*c.SummaryTokens)
	if s.o.Temperature == nil {
		warm := 0.3
		s.o.Temperature = &warm
	}
	return s
}

// summarizer asks a model. It is safe for concurrent use.
type summarizer struct {
	p         policy.Policy
	o         policy.Options
	tries     int
	timeout   time.Duration
	stopAfter int64
	answered  atomic.Bool
	failed    atomic.Int64 // in a row
}

// Summarize asks until there is a summary, or the tries or the time are over.
func (s *summarizer) Summarize(ctx context.Context, r compress.Request) (string, error) {
	within := ctx
	if s.timeout > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, s.timeout)
		defer cancel()
	}
	var err error
	chars := 0
	for try := 1; try <= s.tries && within.Err() == nil; try++ {
		var text string
		text, err = s.ask(within, r, chars, try)
		if err == nil {
			s.answered.Store(true)
			s.failed.Store(0)
			return text, nil
		}
		var e *policy.Error
		if !errors.As(err, &e) {
			continue
		}
		switch e.Kind {
		case policy.Budget, policy.Offline:
			return "", &compress.StopError{Err: err}
		case policy.Auth, policy.NoModel:
			if s.answered.Load() {
				err = fmt.Errorf("%w (%w)", err, errLater)
			}
			return "", &compress.StopError{Err: err}
		case policy.Overlong: // half as much each time
			if chars == 0 {
				for _, t := range r.Turns {
					chars += len(t.Text)
				}
			}
			chars = max(chars/2, 1000)
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err == nil {
		err = context.Cause(within)
	}
	if n := s.failed.Add(1); s.stopAfter > 0 && n >= s.stopAfter {
		return "", &compress.StopError{Err: fmt.Errorf("%d summaries failed in a row, the last: %w (%w)", n, err, errLater)}
	}
	return "", err
}

func (s *summarizer) ask(ctx context.Context, r compress.Request, chars, try int) (string, error) {
	o := s.o
	o.Key, o.Attempt = trajectory.NewKey("summary of row "+r.Key, 0, 0, 0), try
	o.Group = o.Key.String()
	sampler, err := s.p.Open(nil, o)
	if err != nil {
		return "", err
	}
	defer sampler.Close()
	turn, err := sampler.Next(ctx, trajectory.New(trajectory.ModeText, nil).Prefix(), compress.Prompt(r, chars), nil)
	if err != nil {
		return "", err
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	text := strings.TrimSpace(turn.Sampled.Message.Content())
	if text == "" {
		return "", errors.New("the model answered without a text")
	}
	return text, nil
}

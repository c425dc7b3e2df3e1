package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hermes/parsers/chattemplate"
	"hermes/parsers/tokenizer"
	"hermes/rollout/policy"
	"hermes/trajectory"
	"hermes/trajectory/compress"
)

// CompressFlags say how trajectories are made to fit.
type CompressFlags struct {
	TargetTokens  int           `name:"target-tokens" aliases:"target-max-tokens" default:"15250" range:"32:" help:"Tokens that a trajectory may have."`
	SummaryTokens int           `name:"summary-tokens" default:"750" range:"16:" help:"Tokens that a summary may have."`
	ProtectLast   int           `name:"protect-last" default:"4" range:"1:" help:"Last turns that stay as they are."`
	Summary       string        `enum:"model,extractive" default:"model" help:"Who writes summaries: model, or extractive (first words of each turn, no model)."`
	ModelRole     []string      `name:"model-role" sep:"none" help:"summary=MODEL[@URL]: the model that writes summaries (default: --model)." placeholder:"summary=MODEL[@URL]"`
	ModelFiles    string        `name:"model-files" help:"Tokenizer and chat template of the model that will read the data: a folder or hf:owner/name[@revision]." placeholder:"DIR|hf:NAME"`
	Tokenizer     string        `help:"Tokenizer that counts: a file, a folder, or builtin:words (default: of --model-files)." placeholder:"FILE|DIR"`
	Template      string        `help:"Chat template of exact runs, for the summary's tokens (default: of --model-files)." placeholder:"FILE|NAME"`
	TemplateVars  string        `name:"template-kwargs" help:"JSON object of template variables." placeholder:"JSON"`
	Retries       int           `default:"3" range:"0:" help:"Further tries of a summary that is empty or failed; then the extract takes its place."`
	Timeout       time.Duration `default:"300s" help:"Longest time for the summary of one trajectory."`
	SamplePercent float64       `name:"sample-percent" default:"100" help:"Take only this share of the rows, in percent, chosen by chance; the others are not in the output."`
	Seed          int64         `default:"42" help:"Seed of --sample-percent."`
	DryRun        bool          `name:"dry-run" help:"Count and tell what would be done; write nothing and ask no model."`
	Concurrency   int           `aliases:"in-flight" default:"50" range:"1:" help:"Trajectories at once."`
	StopAfter     int           `name:"stop-after-failures" default:"50" help:"Failed summaries in a row that stop the work, resumable; 0: none do."`
	Progress      string        `enum:"auto,plain,none" default:"auto" help:"auto, plain or none."`
	Offline       bool          `help:"Use only what the hub's cache holds."`
}

// Compress makes trajectories fit a budget of tokens.
type Compress struct {
	Inputs []string
	Out    string
	ModelFlags
	SamplingFlags
	BudgetFlags
	CompressFlags
}

// Run does the work and returns its books. The error, if any, is an *Error.
func (c Compress) Run(ctx context.Context, h Host) (compress.Metrics, error) {
	b := newParts(h, asked{PartsFlags: PartsFlags{ModelFlags: c.ModelFlags, SamplingFlags: c.SamplingFlags, BudgetFlags: c.BudgetFlags}, requests: c.Concurrency, offline: c.Offline})
	defer b.closeAll()
	inputs, err := compress.Find(c.Inputs)
	if err != nil {
		return compress.Metrics{}, usage(err)
	}
	if !(c.SamplePercent > 0 && c.SamplePercent <= 100) {
		return compress.Metrics{}, usage(fmt.Errorf("--sample-percent %g: want more than 0 and at most 100", c.SamplePercent))
	}
	sample := compress.Sample{}
	if c.SamplePercent < 100 {
		sample = compress.Sample{Percent: c.SamplePercent, Seed: c.Seed}
	}
	id := compress.Identity{Summarizer: "extractive"}
	o := compress.Options{Target: c.TargetTokens, Summary: c.SummaryTokens, Tail: c.ProtectLast}
	tok, err := c.counter(ctx, &b, inputs, &id, &o)
	if err != nil {
		return compress.Metrics{}, usage(err)
	}
	if !c.DryRun {
		if o.Summarizer, err = c.summarizer(ctx, &b); err != nil {
			return compress.Metrics{}, usage(err)
		}
	}
	if b.model != nil {
		o.Model = b.model.name
		id.Summarizer = "model:" + o.Model
	} else {
		o.Summarizer = nil
	}
	k, err := compress.New(counter{tok}, o)
	if err != nil {
		return compress.Metrics{}, usage(err)
	}
	if c.DryRun {
		id.Summarizer = "none: a dry run, with extracts in the place of summaries"
		m, err := k.Look(ctx, compress.Job{Inputs: inputs, Sample: sample, Identity: id, Concurrency: c.Concurrency})
		return m, compressError(err)
	}
	j := compress.Job{Inputs: inputs, Sample: sample, Out: c.Out, Identity: id, Concurrency: c.Concurrency, Created: "hermes " + h.Version, Drain: h.Drain, Progress: c.progress(h)}
	m, err := k.Run(ctx, j)
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
		return &Error{Code: codeUsage, Err: err}
	case errors.As(err, &stop):
		if errors.As(err, &e) && e.Kind != policy.Budget && !errors.Is(err, errLater) {
			return &Error{Code: codeUsage, Err: err}
		}
		return &Error{Code: codeStopped, Err: err}
	}
	return err
}

// progress tells how far the work is, every few seconds.
func (c Compress) progress(h Host) func(compress.Metrics) {
	if c.Progress == "none" {
		return nil
	}
	last := time.Now()
	return func(m compress.Metrics) {
		if time.Since(last) < 5*time.Second {
			return
		}
		last = time.Now()
		fmt.Fprintf(h.Err, "hermes: %d rows: under %d, compressed %d, over %d, kept %d, unreadable %d, fallbacks %d\n", m.Rows, m.Under, m.Compressed, m.Over, m.Kept, m.Unreadable, m.Fallbacks)
	}
}

// counter reads the tokenizer, and for exact inputs the template.
func (c Compress) counter(ctx context.Context, b *parts, in compress.Inputs, id *compress.Identity, o *compress.Options) (tokenizer.Tokenizer, error) {
	if c.Tokenizer == "" && c.ModelFiles == "" {
		return nil, errors.New("no tokenizer: name that of the model which will read the data with --tokenizer FILE|DIR or --model-files")
	}
	f := ExactFlags{Wire: "sglang", Exact: true, ModelFiles: c.ModelFiles, Tokenizer: c.Tokenizer, Template: c.Template, TemplateKwargs: c.TemplateVars, Dialect: "ours", History: "append"}
	if !in.Exact {
		if c.Template != "" || c.TemplateVars != "" {
			return nil, errors.New("--template, --template-kwargs: only Parquet of exact runs holds tokens that a template gave")
		}
		files, err := modelParts(ctx, f, b.modelHub())
		if err != nil {
			return nil, err
		}
		spec := cmp.Or(c.Tokenizer, files.Tokenizer)
		if spec == "" {
			return nil, fmt.Errorf("--model-files %s: no tokenizer in it", c.ModelFiles)
		}
		tok, err := LoadTokenizer(spec)
		if err != nil {
			return nil, fmt.Errorf("--tokenizer: %w", err)
		}
		id.Tokenizer = tokenizerDigest(tok)
		return tok, nil
	}
	if c.Tokenizer == builtinTokenizer {
		f.Template = cmp.Or(f.Template, builtinTemplate)
	}
	m, err := openExact(ctx, f, b.modelHub(), time.Now())
	if err != nil {
		return nil, fmt.Errorf("the input holds exact tokens: %w", err)
	}
	id.Tokenizer, id.Template = m.tokenizerID, m.templateID
	o.Bridge = bridge{m.tok, m.tmpl}.tokens
	return m.tok, nil
}

// counter counts tokens of plain text.
type counter struct{ t tokenizer.Tokenizer }

func (c counter) Count(text string) (int, error) {
	ids, err := c.t.Encode(text, tokenizer.Options{})
	return len(ids), err
}

// bridge renders what stands between two answers and tokenizes it.
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

// together tokenizes all pieces at once behind the token that stands before them, since
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

// summarizer opens the model that writes summaries.
func (c Compress) summarizer(ctx context.Context, b *parts) (compress.Summarizer, error) {
	named := c.Model != "" || len(c.ModelRole) > 0
	if c.Summary == "extractive" {
		if named {
			return nil, errors.New("--summary extractive asks no model: leave --model and --model-role out")
		}
		return nil, nil
	}
	if !named {
		return nil, errors.New("no model for the summaries: give --model NAME and --base-url URL, or --model-role summary=MODEL[@URL], or --summary extractive")
	}
	if len(c.ModelRole) > 1 {
		return nil, errors.New("--model-role: one model writes the summaries")
	}
	for _, text := range c.ModelRole {
		spec, err := policy.ParseRole(text)
		if err != nil {
			return nil, fmt.Errorf("--model-role: %w", err)
		}
		if spec.Role != policy.Summary {
			return nil, fmt.Errorf("--model-role %s: compress asks for summaries only: summary=MODEL[@URL]", text)
		}
		if spec.Base != "" && len(b.BaseURL) > 0 {
			return nil, fmt.Errorf("--model-role %s with --base-url: name the server once", text)
		}
		b.Model = spec.Model
		if spec.Base != "" {
			b.BaseURL = []string{spec.Base}
		}
	}
	if err := b.openModel(ctx); err != nil {
		return nil, err
	}
	s := &summarizer{p: b.model.policy, o: b.sampling(), tries: c.Retries + 1, timeout: c.Timeout, stopAfter: int64(c.StopAfter)}
	s.o.MaxTokens = cmp.Or(s.o.MaxTokens, 2*c.SummaryTokens)
	if s.o.Temperature == nil {
		warm := 0.3
		s.o.Temperature = &warm
	}
	return s, nil
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
		if text, err = s.ask(within, r, chars, try); err == nil {
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

// CountTokens returns what counts tokens of plain text with a tokenizer, see
// [LoadTokenizer].
func CountTokens(spec string) (func(string) (int, error), error) {
	tok, err := LoadTokenizer(spec)
	if err != nil {
		return nil, err
	}
	return counter{tok}.Count, nil
}

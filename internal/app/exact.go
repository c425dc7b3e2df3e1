package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"hermes/internal/hfhub"
	"hermes/parsers"
	"hermes/parsers/chattemplate"
	"hermes/parsers/modelfiles"
	"hermes/parsers/tokenizer"
	"hermes/rollout/journal"
	"hermes/rollout/policy"
	"hermes/rollout/policy/chat"
	"hermes/rollout/policy/exact"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
	"hermes/rollout/rundir"
	"hermes/trajectory"
)

// ExactFlags roll out with the exact tokens.
type ExactFlags struct {
	Exact          bool   `help:"Record the exact tokens and log-probs; send tokens, never text that was tokenized again."`
	Wire           string `enum:"chat,sglang,vllm,vllm-completions,llamacpp" default:"chat" help:"What the server is asked: chat, or with --exact sglang, vllm, vllm-completions, llamacpp."`
	ModelFiles     string `name:"model-files" help:"The model's tokenizer and chat template: a folder or hf:owner/name[@revision]." placeholder:"DIR|hf:NAME"`
	Tokenizer      string `help:"Tokenizer file or folder (default: of --model-files)." placeholder:"FILE|DIR"`
	Template       string `help:"Chat template: a Jinja file, or a name among the model files' (default: the model's own)." placeholder:"FILE|NAME"`
	TemplateKwargs string `name:"template-kwargs" help:"JSON object of template variables, such as {\"enable_thinking\": false}." placeholder:"JSON"`
	Family         string `help:"How the model writes its calls ('hermes model parse --list', or a .json file with a response template; default: as the template says; in text mode, where calls that the server left in the text are looked for, that of any family)." placeholder:"NAME"`
	Dialect        string `enum:"ours,vllm,sglang,upstream" default:"ours" help:"Whose reading of calls counts: ours, vllm, sglang, upstream."`
	History        string `enum:"append,template" default:"append" help:"Earlier thinking that the template would drop: append (it stays), or template (the trace forks)."`
	VersionFrom    string `name:"version-from" enum:",server,none" default:"" help:"Who tells the version of the weights: server, none (default: the server, where it does)."`
	MaxStaleness   int    `name:"max-staleness" help:"Versions of the weights that the tokens of one rollout may lie apart (default: any)."`
	CacheSalt      string `name:"cache-salt" help:"Keep prefix caches of the server apart by this text, such as the version of the weights." placeholder:"TEXT"`
	Capture        string `help:"Also keep routed_experts, topk=K (comma-separated)." placeholder:"LIST"`
	LogProbs       string `name:"logprobs" enum:",raw,processed" default:"" help:"Of which distribution the server's log-probs are: raw or processed (default: as the server's kind does by default)."`
}

// exactModel is what --exact was given, read.
type exactModel struct {
	flags  ExactFlags
	form   string // the wire form in use
	now    time.Time
	tok    tokenizer.Tokenizer
	tmpl   *chattemplate.Template
	family parsers.Family
	ends   []trajectory.Token    // of a turn, as the model's files name them
	tools  []trajectory.ToolSpec // of the run, as far as they are known when its model is opened
	length int                   // of the context, as the model's files say; 0: unknown
	vocab  int                   // rows of its output, padding included; 0: unknown

	tokenizerID, templateID string // SHA-256 of what was read
	capture                 servers.Capture
	dialect                 parsers.Dialect
}

// check refuses flags that make no sense without --exact or together.
func (f ExactFlags) check() error {
	if _, err := f.unread(); err != nil {
		return err
	}
	if !f.Exact {
		for _, x := range []struct{ name, value, none string }{{"--wire", f.Wire, "chat"}, {"--tokenizer", f.Tokenizer, ""}, {"--template", f.Template, ""},
			{"--template-kwargs", f.TemplateKwargs, ""}, {"--model-files", f.ModelFiles, ""}, {"--capture", f.Capture, ""},
			{"--version-from", f.VersionFrom, ""}, {"--cache-salt", f.CacheSalt, ""}, {"--logprobs", f.LogProbs, ""}} {
			if x.value != x.none && x.value != "" {
				return fmt.Errorf("%s %s is for rollouts with exact tokens: add --exact", x.name, x.value)
			}
		}
		if f.MaxStaleness != 0 {
			return errors.New("--max-staleness is for rollouts with exact tokens: add --exact")
		}
		return nil
	}
	switch {
	case f.MaxStaleness < 0:
		return fmt.Errorf("--max-staleness %d: want 0 or more", f.MaxStaleness)
	case f.Wire == "chat" && (f.Capture != "" || f.MaxStaleness > 0 || f.VersionFrom == "server"):
		return errors.New("--wire chat tells neither versions of the weights nor what --capture asks for: choose sglang, vllm or llamacpp")
	}
	return nil
}

// unread finds the calls that a server leaves in an answer's text: those of --family, or of
// any family.
func (f ExactFlags) unread() (chat.Unread, error) {
	if f.Family == "" {
		return chat.Unread{}, nil
	}
	family, err := namedFamily(f.Family)
	if err != nil {
		return chat.Unread{}, fmt.Errorf("--family: %w", err)
	}
	return chat.Unread{Family: family}, nil
}

// scripted gives the embedded model the parts that need no file.
func (f *ExactFlags) scripted() {
	if f.Tokenizer == "" && f.ModelFiles == "" {
		f.Tokenizer = builtinTokenizer
		f.Template = cmp.Or(f.Template, builtinTemplate)
	}
}

// probs is of which distribution the log-probs are.
func (m *exactModel) probs() string {
	if m.flags.LogProbs != "" {
		return m.flags.LogProbs
	}
	if m.form == "sglang" {
		return "processed"
	}
	return "raw"
}

// openExact reads tokenizer and template. now is the clock of the template.
func openExact(ctx context.Context, f ExactFlags, hub hfhub.Options, now time.Time) (*exactModel, error) {
	m := &exactModel{flags: f, form: f.Wire, now: now}
	var err error
	if m.capture, err = servers.ParseCapture(f.Capture); err != nil {
		return nil, fmt.Errorf("--capture: %w", err)
	}
	if m.dialect, err = parsers.ParseDialect(f.Dialect); err != nil {
		return nil, fmt.Errorf("--dialect: %w", err)
	}
	if f.Wire == "chat" {
		return m, nil // the server has all of it
	}
	files, err := modelParts(ctx, f, hub)
	if err != nil {
		return nil, err
	}
	spec := cmp.Or(f.Tokenizer, files.Tokenizer)
	if spec == "" {
		return nil, errors.New("--exact: name the model's tokenizer with --tokenizer or --model-files")
	}
	if m.tok, err = LoadTokenizer(spec); err != nil {
		return nil, fmt.Errorf("--tokenizer: %w", err)
	}
	text, err := templateText(f.Template, files)
	if err != nil {
		return nil, fmt.Errorf("--template: %w", err)
	}
	m.length, m.vocab = files.Context, files.Vocab
	for _, id := range files.EndIDs {
		m.ends = append(m.ends, trajectory.Token(id))
	}
	o := chattemplate.Options{Source: text, BOS: files.BOS, EOS: files.EOS, Now: now, History: chattemplate.History(f.History)}
	if f.TemplateKwargs != "" {
		if err := json.Unmarshal([]byte(f.TemplateKwargs), &o.Variables); err != nil {
			return nil, fmt.Errorf("--template-kwargs %q: want a JSON object: %w", f.TemplateKwargs, err)
		}
	}
	for _, s := range m.tok.Specials() {
		o.Special = append(o.Special, s.Text)
	}
	if f.Family != "" {
		if m.family, err = namedFamily(f.Family); err != nil {
			return nil, fmt.Errorf("--family: %w", err)
		}
		if _, err := parsers.Standard().Get(m.family.Name); err == nil {
			o.Family = m.family.Name
		}
	}
	if m.tmpl, err = chattemplate.New(o); err != nil {
		return nil, fmt.Errorf("--template: %w", err)
	}
	if f.Family == "" {
		if m.family, err = familyOf(m.tmpl, files); err != nil {
			return nil, fmt.Errorf("--model-files: %w", err)
		}
	}
	m.templateID = digest(text + "\x00" + files.BOS + "\x00" + files.EOS + "\x00" + f.TemplateKwargs)
	m.tokenizerID = tokenizerDigest(m.tok)
	return m, nil
}

// familyOf is the family that the chat template shows, or else that of the model's response
// template.
func familyOf(tmpl *chattemplate.Template, files *modelfiles.Files) (parsers.Family, error) {
	if f := tmpl.Family(); f.Name != parsers.Plain.Name || len(files.Response) == 0 {
		return f, nil
	}
	return parsers.FromResponseTemplate(files.Response)
}

// namedFamily is the built-in family of that name, or the one that a file describes: a
// response template, or the tokenizer_config.json that holds it.
func namedFamily(name string) (parsers.Family, error) {
	if !strings.HasSuffix(name, ".json") {
		return parsers.Standard().Get(name)
	}
	source, err := os.ReadFile(name)
	if err != nil {
		return parsers.Family{}, err
	}
	return parsers.FromResponseTemplate(source)
}

// tokenizerDigest identifies a vocabulary.
func tokenizerDigest(t tokenizer.Tokenizer) string {
	h := sha256.New()
	for _, s := range t.Specials() {
		fmt.Fprintf(h, "%d %q %v\n", s.ID, s.Text, s.Special)
	}
	for id := range t.Size() {
		text, _ := t.Token(trajectory.Token(id))
		fmt.Fprintf(h, "%q\n", text)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// policy makes the policy of one model; forms are tried in turn, the first that the
// server has counts.
func (m *exactModel) policy(w *wire.Client, model string, context int, b *parts, budget *policy.Spending, price *policy.Price) (policy.Policy, error) {
	if m.form == "chat" {
		unread, err := m.flags.unread()
		if err != nil {
			return nil, err
		}
		return chat.NewIDs(w, chat.Options{Model: model, Calls: unread, ByGroup: b.Affinity == "group", Budget: budget, Price: price,
			Extra: json.RawMessage(b.ExtraBody), MaxTokens: b.MaxTokens, Context: context})
	}
	gen, err := servers.New(w, m.form, servers.Options{Model: model, ByGroup: b.Affinity == "group", Extra: json.RawMessage(b.ExtraBody),
		Salt: m.flags.CacheSalt, Capture: m.capture, Budget: budget})
	if err != nil {
		return nil, err
	}
	return exact.New(exact.Parts{Generator: gen, Renderer: m.tmpl, Tokenizer: m.tok, Family: m.family, Dialect: m.dialect, Vocab: m.vocab, Ends: m.ends, Tools: m.tools,
		Model: model, Context: context, MaxTokens: b.MaxTokens, Identity: m.templateID + m.tokenizerID, Extra: json.RawMessage(b.ExtraBody),
		Capture: m.capture, Budget: budget, Price: price, VersionFrom: exact.VersionFrom(m.flags.VersionFrom), MaxStaleness: m.flags.MaxStaleness,
		Log: slog.New(slog.DiscardHandler)})
}

// exact opens one model with exact tokens: template, tokenizer and parser are proved, then
// the server is asked for one token.
func (b *parts) exact(ctx context.Context, s served) (policy.Policy, error) {
	w, err := b.wire(ctx, s)
	if err != nil {
		return nil, err
	}
	b.later(w.Close)
	b.known(w)
	m := b.model.exact
	if m.tools, err = b.likelyTools(ctx); err != nil {
		return nil, err
	}
	name, length, price := s.name, m.length, s.price
	if b.Cassette == "" {
		found, err := servers.Probe(ctx, w, name)
		if err != nil {
			return nil, err
		}
		name, length = found.Model, cmp.Or(found.Context, m.length)
		if price == nil {
			price = b.model.prices[found.Model]
		}
		b.follow(ctx, w, found.Profile)
	}
	p, err := m.policy(w, name, length, b, s.budget, price)
	if err != nil {
		return nil, err
	}
	if b.Cassette == "" {
		err = m.ask(ctx, p)
		if m.form == "vllm" && servers.NoEndpoint(err) {
			m.form = "vllm-completions" // a vLLM older than /inference/v1/generate, or one that keeps it closed
			fmt.Fprintf(b.host.Err, "POST /inference/v1/generate is not open (%v): asking POST /v1/completions\n", err)
			if p, err = m.policy(w, name, length, b, s.budget, price); err == nil {
				err = m.ask(ctx, p)
			}
		}
		if servers.NoEndpoint(err) {
			return nil, fmt.Errorf("--exact: the server cannot be asked for tokens: %w; %s", err, servers.Endpoint(m.form))
		}
		if err != nil {
			return nil, fmt.Errorf("--exact: the server cannot be asked for tokens: %w", err)
		}
	}
	if x, ok := p.(interface{ Proof() exact.Proof }); ok {
		b.model.proofs = append(b.model.proofs, x.Proof())
		fmt.Fprintf(b.host.Err, "exact tokens over %s: %s; log-probs are %s\n", m.form, x.Proof(), m.probs())
	} else {
		fmt.Fprintf(b.host.Err, "exact tokens over chat: the server renders and tokenizes; log-probs are %s\n", m.probs())
	}
	return p, nil
}

// named is the distribution that every exact request names, whether its user did or not:
// what the log-probs belong to.
func (s *SamplingFlags) named() rundir.Fields {
	number := func(v *float64, none string) string {
		if v == nil {
			return none
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	k := "all"
	if s.TopK != nil && *s.TopK > 0 {
		k = strconv.Itoa(*s.TopK)
	}
	return rundir.Fields{{Name: "temperature", Value: number(s.Temperature, "1")}, {Name: "top-p", Value: number(s.TopP, "1")}, {Name: "top-k", Value: k}, {Name: "min-p", Value: number(s.MinP, "0")}}
}

// ask asks for one token. A chat server renders by itself and may write a call where it is
// offered tools: it is offered them only where its template wants them.
func (m *exactModel) ask(ctx context.Context, p policy.Policy) error {
	if m.form != "chat" {
		return exact.Probe(ctx, p, m.tools)
	}
	err := exact.Probe(ctx, p, nil)
	var e *policy.Error
	if len(m.tools) > 0 && errors.As(err, &e) && e.Kind == policy.Rejected {
		return exact.Probe(ctx, p, m.tools)
	}
	return err
}

// identity are the fields of an exact run in which two starts must agree.
func (m *exactModel) identity() rundir.Fields {
	return rundir.Fields{
		{Name: "wire", Value: m.form}, {Name: "tokenizer", Value: m.tokenizerID}, {Name: "template", Value: m.templateID}, {Name: "family", Value: m.family.Name},
		{Name: "dialect", Value: m.dialect.String()}, {Name: "history", Value: m.flags.History}, {Name: "template-now", Value: m.now.Format(time.RFC3339)},
		{Name: "capture", Value: m.capture.String()}, {Name: "version-from", Value: m.flags.VersionFrom}, {Name: "max-staleness", Value: strconv.Itoa(m.flags.MaxStaleness)},
		{Name: "logprobs", Value: m.probs()},
	}
}

// templateNow is the clock of a run's template: that of its first start.
func templateNow(dir string) time.Time {
	now := time.Now().UTC().Truncate(time.Second)
	if dir == "" {
		return now
	}
	m, err := rundir.Read(journal.OS{}, dir)
	if err != nil {
		return now // a new run
	}
	text, _ := m.Identity.Get("template-now")
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t
	}
	return now
}

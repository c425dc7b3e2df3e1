package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"hermes/internal/hfhub"
	"hermes/internal/settings"
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

// Exact is what --exact names, read: tokenizer, template, family.
type Exact struct {
	flags     settings.ExactFlags
	Form      string // the wire form in use
	now       time.Time
	Tokenizer tokenizer.Tokenizer // nil: the server has it
	Template  *chattemplate.Template
	family    parsers.Family
	ends      []trajectory.Token    // of a turn, as the model's files name them
	tools     []trajectory.ToolSpec // of the run, as far as they are known when its model is opened
	length    int                   // of the context, as the model's files say; 0: unknown
	vocab     int                   // rows of its output, padding included; 0: unknown

	TokenizerID, TemplateID string // SHA-256 of what was read
	capture                 servers.Capture
	dialect                 parsers.Dialect
}

// Probs is of which distribution the log-probs are.
func (m *Exact) Probs() string {
	if m.flags.LogProbs != "" {
		return m.flags.LogProbs
	}
	if m.Form == "sglang" {
		return "processed"
	}
	return "raw"
}

// OpenExact reads tokenizer and template. now is the clock of the template.
func OpenExact(ctx context.Context, f settings.ExactFlags, hub hfhub.Options, now time.Time) (*Exact, error) {
	m := &Exact{flags: f, Form: f.Wire, now: now}
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
	if m.Tokenizer, err = tokenizerOf(f, files); err != nil {
		return nil, err
	}
	text, err := TemplateText(f.Template, files)
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
	for _, s := range m.Tokenizer.Specials() {
		o.Special = append(o.Special, s.Text)
	}
	if f.Family != "" {
		if m.family, err = settings.Family(f.Family); err != nil {
			return nil, fmt.Errorf("--family: %w", err)
		}
		if _, err := parsers.Standard().Get(m.family.Name); err == nil {
			o.Family = m.family.Name
		}
	}
	if m.Template, err = chattemplate.New(o); err != nil {
		return nil, fmt.Errorf("--template: %w", err)
	}
	if f.Family == "" {
		if m.family, err = familyOf(m.Template, files); err != nil {
			return nil, fmt.Errorf("--model-files: %w", err)
		}
	}
	m.TemplateID = settings.Digest(text + "\x00" + files.BOS + "\x00" + files.EOS + "\x00" + f.TemplateKwargs)
	m.TokenizerID = TokenizerDigest(m.Tokenizer)
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

// Policy makes the policy of one model; forms are tried in turn, the first that the
// server has counts.
func (m *Exact) Policy(w *wire.Client, b settings.Parts, model string, context int, budget *policy.Spending, price *policy.Price) (policy.Policy, error) {
	if m.Form == "chat" {
		unread, err := m.flags.Unread()
		if err != nil {
			return nil, err
		}
		return chat.NewIDs(w, chat.Options{Model: model, Calls: unread, ByGroup: b.Affinity == "group", Budget: budget, Price: price,
			Extra: json.RawMessage(b.ExtraBody), MaxTokens: b.MaxTokens, Context: context})
	}
	gen, err := servers.New(w, m.Form, servers.Options{Model: model, ByGroup: b.Affinity == "group", Extra: json.RawMessage(b.ExtraBody),
		Salt: m.flags.CacheSalt, Capture: m.capture, Budget: budget})
	if err != nil {
		return nil, err
	}
	return exact.New(exact.Parts{Generator: gen, Renderer: m.Template, Tokenizer: m.Tokenizer, Family: m.family, Dialect: m.dialect, Vocab: m.vocab, Ends: m.ends, Tools: m.tools,
		Model: model, Context: context, MaxTokens: b.MaxTokens, Identity: m.TemplateID + m.TokenizerID, Extra: json.RawMessage(b.ExtraBody),
		Capture: m.capture, Budget: budget, Price: price, VersionFrom: exact.VersionFrom(m.flags.VersionFrom), MaxStaleness: m.flags.MaxStaleness,
		Log: slog.New(slog.DiscardHandler)})
}

// ask asks for one token. A chat server renders by itself and may write a call where it is
// offered tools: it is offered them only where its template wants them.
func (m *Exact) ask(ctx context.Context, p policy.Policy) error {
	if m.Form != "chat" {
		return exact.Probe(ctx, p, m.tools)
	}
	err := exact.Probe(ctx, p, nil)
	var e *policy.Error
	if len(m.tools) > 0 && errors.As(err, &e) && e.Kind == policy.Rejected {
		return exact.Probe(ctx, p, m.tools)
	}
	return err
}

// Identity are the fields of an exact run in which two starts must agree.
func (m *Exact) Identity() rundir.Fields {
	return rundir.Fields{
		{Name: "wire", Value: m.Form}, {Name: "tokenizer", Value: m.TokenizerID}, {Name: "template", Value: m.TemplateID}, {Name: "family", Value: m.family.Name},
		{Name: "dialect", Value: m.dialect.String()}, {Name: "history", Value: m.flags.History}, {Name: "template-now", Value: m.now.Format(time.RFC3339)},
		{Name: "capture", Value: m.capture.String()}, {Name: "version-from", Value: m.flags.VersionFrom}, {Name: "max-staleness", Value: strconv.Itoa(m.flags.MaxStaleness)},
		{Name: "logprobs", Value: m.Probs()},
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

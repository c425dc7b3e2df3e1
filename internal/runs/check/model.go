package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hermes/internal/build"
	"hermes/internal/hfhub"
	"hermes/internal/jinja"
	"hermes/internal/modelcheck"
	"hermes/internal/settings"
	"hermes/parsers"
	"hermes/parsers/modelfiles"
	"hermes/parsers/tokenizer"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
)

// ModelCheck is a check of a model's parts and its server.
type ModelCheck struct {
	settings.ModelCheck
	Key string
	Hub hfhub.Options
	Now time.Time
}

// CheckedModel is what was found. Report is nil where no server was asked.
type CheckedModel struct {
	Parts  []string           `json:"parts"` // sentences about the parts
	Report *modelcheck.Report `json:"server,omitempty"`
	Lines  []string           `json:"run_file"` // lines of a run file
}

// Run loads the parts and asks the server. The result is as complete as it goes also where
// there is an error.
func (m ModelCheck) Run(ctx context.Context) (*CheckedModel, error) {
	out := &CheckedModel{Parts: []string{}, Lines: []string{}}
	if m.BaseURL == "" && m.ModelFiles == "" && m.Template == "" && m.Tokenizer == "" {
		return out, errors.New("nothing to check: give --base-url and --model, or --model-files, --tokenizer, --template")
	}
	o := modelcheck.Options{Base: m.BaseURL, Model: m.Model, Key: m.Key, Timeout: m.Timeout, Now: m.Now}
	if err := m.load(ctx, &o, out); err != nil || m.BaseURL == "" {
		return out, err
	}
	w, err := wire.New(wire.Options{Bases: []string{m.BaseURL}, Keys: keys(m.Key), KeyNames: keys(m.APIKeyEnv), Retries: -1, LimitedRetries: -1})
	if err != nil {
		return out, err
	}
	defer w.Close()
	m.Model = cmp.Or(m.Model, servers.Auto)
	found, err := servers.Probe(ctx, w, m.Model)
	if err != nil {
		return out, err
	}
	o.Base, o.Model = found.Base, found.Model
	if found.Context > 0 {
		out.Parts = append(out.Parts, fmt.Sprintf("context: %d tokens, says the server", found.Context))
	}
	out.Report, err = modelcheck.Run(ctx, o)
	if err == nil {
		out.Lines = m.lines(out.Report, o)
	}
	return out, err
}

func keys(key string) []string {
	if key == "" {
		return nil
	}
	return []string{key}
}

// load opens template, tokenizer and family and says what they are.
func (m ModelCheck) load(ctx context.Context, o *modelcheck.Options, out *CheckedModel) error {
	say := func(format string, a ...any) { out.Parts = append(out.Parts, fmt.Sprintf(format, a...)) }
	files := &modelfiles.Files{}
	if m.Family != "" { // before anything is fetched
		f, err := settings.Family(m.Family)
		if err != nil {
			return fmt.Errorf("--family: %w", err)
		}
		o.Family = f
	}
	if m.Kwargs != "" {
		if err := json.Unmarshal([]byte(m.Kwargs), &o.Vars); err != nil {
			return fmt.Errorf("--template-kwargs %q: want a JSON object: %w", m.Kwargs, err)
		}
	}
	if m.ModelFiles != "" {
		var err error
		files, err = modelfiles.Open(ctx, m.ModelFiles, m.Hub)
		if err != nil {
			return fmt.Errorf("--model-files: %w", err)
		}
		say("model files: %s in %s", m.ModelFiles, files.Dir)
		if files.Context > 0 {
			say("context: %d positions, says the configuration", files.Context)
		}
	}
	o.BOS, o.EOS = files.BOS, files.EOS
	if err := m.loadTokenizer(files, o, say); err != nil {
		return err
	}
	if m.Template == "" && len(files.Templates()) == 0 {
		return nil
	}
	source, err := build.TemplateText(m.Template, files)
	if err != nil {
		return fmt.Errorf("--template: %w", err)
	}
	traits, err := files.Detect(source, o.Vars)
	if err != nil {
		return fmt.Errorf("template %s: %w", m.templateName(), err)
	}
	o.Template, err = jinja.Parse(source, jinja.Options{})
	if err != nil {
		return fmt.Errorf("template %s: %w", m.templateName(), err)
	}
	said := traits.Lines()
	switch {
	case m.Family != "":
		said[0] = "family: " + o.Family.Name + ", as asked"
	case traits.Family != "":
		o.Family, err = parsers.Standard().Get(traits.Family)
	case len(files.Response) > 0:
		o.Family, err = parsers.FromResponseTemplate(files.Response)
		said[0] = "family: " + o.Family.Name + " (tokenizer_config.json has one)"
	}
	out.Parts = append(out.Parts, said...)
	o.Thinking, o.Stops = traits.Think == modelfiles.ThinkOpen, traits.Stops
	return err
}

func (m ModelCheck) loadTokenizer(files *modelfiles.Files, o *modelcheck.Options, say func(string, ...any)) error {
	path := m.Tokenizer
	path = cmp.Or(path, files.Tokenizer)
	if path == "" || path == "server" {
		return nil
	}
	t, err := tokenizer.Load(path)
	if err != nil {
		return fmt.Errorf("--tokenizer: %w", err)
	}
	o.Tokenizer = t
	say("tokenizer: %s, %d ids, %d added tokens", path, t.Size(), len(t.Specials()))
	return nil
}

func (m ModelCheck) templateName() string {
	if m.Template != "" {
		return m.Template
	}
	return "of " + m.ModelFiles
}

// lines are what a run file says to use the model as it was checked.
func (m ModelCheck) lines(r *modelcheck.Report, o modelcheck.Options) []string {
	out := []string{"model: " + quoteYAML(r.Model), "base-url: " + quoteYAML(r.Base)}
	if m.Key != "" && m.APIKeyEnv != settings.DefaultKeyEnv {
		out = append(out, "api-key-env: "+quoteYAML(m.APIKeyEnv))
	}
	if !r.Exact() || o.Family.New == nil || r.Wire == "chat" {
		return out
	}
	out = append(out, "exact: true", "wire: "+r.Wire, "family: "+quoteYAML(o.Family.Name))
	for _, l := range []struct{ key, value string }{{"model-files", m.ModelFiles}, {"tokenizer", m.Tokenizer}, {"template", m.Template}, {"template-kwargs", m.Kwargs}} {
		if l.value != "" {
			out = append(out, l.key+": "+quoteYAML(l.value))
		}
	}
	return out
}

// quoteYAML writes a text so that YAML reads it back as that text: JSON is YAML.
func quoteYAML(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_./") == "" && s != "" {
		return s
	}
	raw, err := json.Marshal(s)
	if err != nil { // a string always encodes
		panic(err)
	}
	return string(raw)
}

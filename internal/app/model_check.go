package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"hermes/internal/hfhub"
	"hermes/internal/jinja"
	"hermes/internal/modelcheck"
	"hermes/parsers"
	"hermes/parsers/modelfiles"
	"hermes/parsers/tokenizer"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
)

// ModelCheck is what `hermes model check` is asked for.
type ModelCheck struct {
	BaseURL    string
	Model      string // empty or auto: the only one that the server offers
	Key        string
	KeyEnv     string // the variable that Key is from, for the run file
	ModelFiles string // hf:owner/name[@revision] or a folder
	Tokenizer  string // file or folder; empty: the model files', else the server's
	Template   string // file, or a name among the model files'; empty: the model files' own
	Kwargs     string // JSON object: variables of the template
	Family     string // empty: what the template tells
	Timeout    time.Duration
	Hub        hfhub.Options
	Now        time.Time
}

// CheckedModel is what was found. Report is nil where no server was asked.
type CheckedModel struct {
	Parts  []string           `json:"parts"` // the parts, said aloud
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
	w, err := wire.New(wire.Options{Bases: []string{m.BaseURL}, Keys: keys(m.Key), KeyNames: keys(m.KeyEnv), Retries: -1, LimitedRetries: -1})
	if err != nil {
		return out, err
	}
	defer w.Close()
	if m.Model == "" {
		m.Model = servers.Auto
	}
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
		f, err := namedFamily(m.Family)
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
		if files, err = modelfiles.Open(ctx, m.ModelFiles, m.Hub); err != nil {
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
	source, err := m.source(files)
	if err != nil || source == "" {
		return err
	}
	traits, err := files.Detect(source, o.Vars)
	if err != nil {
		return fmt.Errorf("template %s: %w", m.templateName(), err)
	}
	if o.Template, err = jinja.Parse(source, jinja.Options{}); err != nil {
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
	if path == "" {
		path = files.Tokenizer
	}
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

// maxTemplate bounds a template's file, in bytes.
const maxTemplate = 4 << 20

// source finds the template's text; "" where there is none.
func (m ModelCheck) source(files *modelfiles.Files) (string, error) {
	if m.Template != "" {
		info, err := os.Stat(m.Template)
		switch {
		case errors.Is(err, fs.ErrNotExist) && m.ModelFiles != "":
			return files.Template(m.Template, true)
		case err != nil:
			return "", fmt.Errorf("--template: %w", err)
		case info.Size() > maxTemplate || !info.Mode().IsRegular():
			return "", fmt.Errorf("--template %s: not a file of at most %d bytes", m.Template, maxTemplate)
		}
		text, err := os.ReadFile(m.Template)
		return string(text), err
	}
	if len(files.Templates()) == 0 {
		return "", nil
	}
	return files.Template("", true)
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
	if m.Key != "" && m.KeyEnv != defaultKeyEnv {
		out = append(out, "api-key-env: "+quoteYAML(m.KeyEnv))
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

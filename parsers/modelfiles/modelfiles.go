// Package modelfiles brings the parts of a model that speak its language to this machine:
// tokenizer, chat template, generation configuration; never weights.
//
// A model is named hf:OWNER/NAME[@REVISION], which is looked for on a Hugging Face hub
// through the cache that Python's huggingface_hub keeps too, or by a folder that holds the
// same files. [Files.Detect] reads from the template which parser family the model needs,
// what ends its turns and whether its prompt opens a think block.
package modelfiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"hermes/internal/hfhub"
)

// Bounds of what is fetched or read, in bytes.
const (
	maxTokenizer = 256 << 20
	maxSmall     = 16 << 20
)

// Files are the parts of one model. They do not change and are safe for concurrent use.
type Files struct {
	Source    string          // as it was asked for
	Commit    string          // on the hub; empty for a folder
	Dir       string          // where the files lie
	Tokenizer string          // the tokenizer's file; empty: the model has none that hermes knows
	BOS, EOS  string          // spellings from tokenizer_config.json; empty: none named
	Response  json.RawMessage // response_template of tokenizer_config.json, see [parsers.FromResponseTemplate]; empty: none
	EndIDs    []int64         // of all tokens that end a turn, as generation_config.json and config.json name them
	Vocab     int             // rows of the model's output, as config.json names them, padding included; 0: unknown
	Context   int             // positions that config.json or tokenizer_config.json names; 0: unknown

	templates map[string]string // "default" and others
}

// Spec is a model on a hub.
type Spec struct {
	Repo     string // owner/name
	Revision string // branch, tag or commit
}

// IsHub tells whether a name means a hub's repository rather than a folder.
func IsHub(name string) bool { return strings.HasPrefix(name, "hf:") }

// Parse reads hf:owner/name[@revision]. A slash inside a revision is written %2F.
func Parse(name string) (Spec, error) {
	repo, revision, has := strings.Cut(strings.TrimPrefix(name, "hf:"), "@")
	s := Spec{Repo: repo, Revision: strings.ReplaceAll(revision, "%2F", "/")}
	if !has {
		s.Revision = hfhub.Main
	}
	owner, base, ok := strings.Cut(repo, "/")
	switch {
	case !IsHub(name):
		return Spec{}, fmt.Errorf("model files %q: no hf: in front", name)
	case !ok || !hfhub.IsName(owner) || !hfhub.IsName(base):
		return Spec{}, fmt.Errorf("model files %q: %q is no repository (want hf:owner/name[@revision])", name, repo)
	case !hfhub.IsRevision(s.Revision):
		return Spec{}, fmt.Errorf("model files %q: %q is no revision (want hf:owner/name[@revision])", name, revision)
	}
	return s, nil
}

// tokenizerFiles in the order of preference; the first that is there is fetched.
var tokenizerFiles = []string{"tokenizer.json", "tokenizer.model", "tiktoken.model", "qwen.tiktoken"}

// smallFiles are fetched where they exist.
var smallFiles = []string{
	"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json", "config.json",
	"chat_template.jinja", "chat_template.json",
}

// wanted tells which of a repository's files are needed.
func wanted(paths []string) []string {
	var out []string
	for _, p := range paths {
		if slices.Contains(smallFiles, p) || path.Dir(p) == "additional_chat_templates" && path.Ext(p) == ".jinja" {
			out = append(out, p)
		}
	}
	for _, p := range tokenizerFiles {
		if slices.Contains(paths, p) {
			return append(out, p)
		}
	}
	for _, p := range paths {
		if path.Ext(p) == ".tiktoken" && path.Dir(p) == "." {
			return append(out, p)
		}
	}
	return out
}

// Open finds the parts of the model that name means: hf:owner/name[@revision], or a
// folder. Only what [wanted] lists is downloaded. A model without tokenizer and template
// is an error; without one of both it is not.
func Open(ctx context.Context, name string, o hfhub.Options) (*Files, error) {
	f := &Files{Source: name, Dir: name}
	if IsHub(name) {
		if err := f.fetch(ctx, o); err != nil {
			return nil, fmt.Errorf("model files %s: %w", name, err)
		}
	}
	if err := f.read(); err != nil {
		return nil, fmt.Errorf("model files %s: %w", name, err)
	}
	return f, nil
}

func (f *Files) fetch(ctx context.Context, o hfhub.Options) error {
	spec, err := Parse(f.Source)
	if err != nil {
		return err
	}
	repo, err := hfhub.Open(hfhub.Models, spec.Repo, o)
	if err != nil {
		return err
	}
	s, err := repo.At(ctx, spec.Revision)
	if err != nil {
		return err
	}
	list := wanted(s.Paths())
	if len(list) == 0 {
		return errors.New("the repository has neither tokenizer nor template")
	}
	for _, p := range list {
		limit := int64(maxSmall)
		if slices.Contains(tokenizerFiles, p) || path.Ext(p) == ".tiktoken" {
			limit = maxTokenizer
		}
		if size, _ := s.Size(p); size > limit {
			return fmt.Errorf("%s has %d bytes, more than the %d that such a file may have", p, size, limit)
		}
		local, err := s.File(ctx, p)
		if err != nil {
			return err
		}
		f.Dir = strings.TrimSuffix(local, string(filepath.Separator)+filepath.FromSlash(p))
	}
	f.Commit = s.Commit
	return nil
}

// read takes what the files in f.Dir say.
func (f *Files) read() error {
	info, err := os.Stat(f.Dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder (want hf:owner/name[@revision] or a folder)", f.Dir)
	}
	for _, name := range tokenizerFiles {
		if _, err := os.Stat(filepath.Join(f.Dir, name)); err == nil {
			f.Tokenizer = filepath.Join(f.Dir, name)
			break
		}
	}
	if more, err := filepath.Glob(filepath.Join(f.Dir, "*.tiktoken")); f.Tokenizer == "" && err == nil && len(more) > 0 {
		f.Tokenizer = more[0]
	}
	if err := f.readConfigs(); err != nil {
		return err
	}
	if err := f.readTemplates(); err != nil {
		return err
	}
	if f.Tokenizer == "" && len(f.templates) == 0 {
		return fmt.Errorf("neither a tokenizer (%s) nor a template (chat_template.jinja, tokenizer_config.json) there", strings.Join(tokenizerFiles, ", "))
	}
	return nil
}

// tokenizerConfig is what is read of tokenizer_config.json.
type tokenizerConfig struct {
	Template json.RawMessage `json:"chat_template"`
	BOS      spelling        `json:"bos_token"`
	EOS      spelling        `json:"eos_token"`
	Length   float64         `json:"model_max_length"` // a huge number where it is unknown
	Response json.RawMessage `json:"response_template"`
}

// spelling is a token as text, or as {"content": text, …}; null is none.
type spelling string

func (s *spelling) UnmarshalJSON(raw []byte) error {
	var text *string
	if json.Unmarshal(raw, &text) == nil {
		if text != nil {
			*s = spelling(*text)
		}
		return nil
	}
	var token struct{ Content string }
	err := json.Unmarshal(raw, &token)
	*s = spelling(token.Content)
	return err
}

// ids is one id or a list of them; null is none.
type ids []int64

func (l *ids) UnmarshalJSON(raw []byte) error {
	var one *int64
	if json.Unmarshal(raw, &one) == nil {
		if one != nil {
			*l = ids{*one}
		}
		return nil
	}
	return json.Unmarshal(raw, (*[]int64)(l))
}

func (f *Files) readConfigs() error {
	var generation struct {
		End ids `json:"eos_token_id"`
	}
	var model struct {
		End       ids `json:"eos_token_id"`
		Positions int `json:"max_position_embeddings"`
		Vocab     int `json:"vocab_size"`
		Text      struct {
			End       ids `json:"eos_token_id"`
			Positions int `json:"max_position_embeddings"`
			Vocab     int `json:"vocab_size"`
		} `json:"text_config"`
	}
	var tok tokenizerConfig
	for name, to := range map[string]any{"generation_config.json": &generation, "config.json": &model, "tokenizer_config.json": &tok} {
		if err := f.json(name, to); err != nil {
			return err
		}
	}
	f.BOS, f.EOS = string(tok.BOS), string(tok.EOS)
	if string(tok.Response) != "null" {
		f.Response = tok.Response
	}
	for _, id := range slices.Concat(generation.End, model.End, model.Text.End) {
		if !slices.Contains(f.EndIDs, id) {
			f.EndIDs = append(f.EndIDs, id)
		}
	}
	const believable = 1 << 30
	f.Vocab = max(model.Vocab, model.Text.Vocab)
	f.Context = max(model.Positions, model.Text.Positions)
	if f.Context == 0 && tok.Length > 0 && tok.Length < believable {
		f.Context = int(tok.Length)
	}
	return nil
}

// readTemplates reads the templates from where the ecosystem keeps them; a file of their
// own wins over tokenizer_config.json.
func (f *Files) readTemplates() error {
	f.templates = map[string]string{}
	for _, name := range []string{"tokenizer_config.json", "chat_template.json"} {
		var c struct {
			Template json.RawMessage `json:"chat_template"`
		}
		if err := f.json(name, &c); err != nil {
			return err
		}
		if err := f.addTemplates(c.Template); err != nil {
			return fmt.Errorf("%s: chat_template: %w", name, err)
		}
	}
	more, err := filepath.Glob(filepath.Join(f.Dir, "additional_chat_templates", "*.jinja"))
	if err != nil {
		return err
	}
	for _, name := range append(more, filepath.Join(f.Dir, "chat_template.jinja")) {
		text, err := readSmall(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		key := strings.TrimSuffix(filepath.Base(name), ".jinja")
		if key == "chat_template" {
			key = "default"
		}
		f.templates[key] = string(text)
	}
	return nil
}

// addTemplates takes a template, or the older list of {name, template}.
func (f *Files) addTemplates(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		f.templates["default"] = one
		return nil
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("neither text nor a list of {name, template}: %w", err)
	}
	for _, t := range list {
		f.templates[t.Name] = t.Template
	}
	return nil
}

// Templates lists the names of the templates, sorted.
func (f *Files) Templates() []string { return slices.Sorted(maps.Keys(f.templates)) }

// Template returns the source of a template by name. The empty name is the default template;
// with tools it is the template for tools, if there is one.
func (f *Files) Template(name string, tools bool) (string, error) {
	if name != "" {
		text, ok := f.templates[name]
		if !ok {
			return "", fmt.Errorf("%s has no template %q (have %s)", f.Source, name, strings.Join(f.Templates(), ", "))
		}
		return text, nil
	}
	if text, ok := f.templates["tool_use"]; tools && ok {
		return text, nil
	}
	if text, ok := f.templates["default"]; ok {
		return text, nil
	}
	if list := f.Templates(); len(list) == 1 {
		return f.templates[list[0]], nil
	}
	return "", fmt.Errorf("%s has no default chat template (have %q): give --template", f.Source, f.Templates())
}

func (f *Files) json(name string, to any) error {
	text, err := readSmall(filepath.Join(f.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func readSmall(name string) ([]byte, error) {
	r, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxSmall+1))
	if err == nil && len(text) > maxSmall {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxSmall)
	}
	return text, err
}

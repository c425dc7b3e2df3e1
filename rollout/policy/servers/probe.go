package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/rollout/policy"
	"hermes/rollout/policy/wire"
)

// Auto is the model name that means the only model of a server.
const Auto = "auto"

// Found is what a server said about itself.
type Found struct {
	Base    string
	Model   string   // the name to use; empty: not decided
	Models  []string // what it offers; empty: it does not say
	Context int      // tokens of Model; 0: unknown
	Images  bool     // Model is said to see images
	Blind   bool     // Model is said to take other things only
	Profile Profile
}

// listed is one entry of /models, with what servers add to it.
type listed struct {
	ID       string `json:"id"`
	Owner    string `json:"owned_by"`
	MaxLen   int    `json:"max_model_len"`  // vLLM, SGLang
	Context  int    `json:"context_length"` // OpenRouter and others
	Provider struct {
		Context int `json:"context_length"`
	} `json:"top_provider"`
	Meta struct {
		Context int `json:"n_ctx"`
		Train   int `json:"n_ctx_train"` // llama.cpp
	} `json:"meta"`
	Architecture struct {
		Input []string `json:"input_modalities"`
	} `json:"architecture"`
}

func (l listed) context() int {
	for _, n := range []int{l.MaxLen, l.Provider.Context, l.Context, l.Meta.Context, l.Meta.Train} {
		if n > 0 {
			return n
		}
	}
	return 0
}

// Probe asks the first server of w which models it offers, before anything is spent.
// A wrong key is an *Error of kind Auth, an unknown model one of kind NoModel that lists
// what there is. [Auto] picks the only model. A server that has no list is trusted.
func Probe(ctx context.Context, w *wire.Client, model string) (Found, error) {
	base := w.Bases()[0]
	f := Found{Base: base, Model: model, Profile: Guess(base)}
	if f.Profile.Name == "openrouter" { // its list is public: the key is asked for itself
		if _, err := w.Get(ctx, "/key"); err != nil {
			return f, fmt.Errorf("probe: %w", err)
		}
	}
	raw, err := w.Get(ctx, "/models")
	if place := elsewhere(ctx, w, base, raw, err); place != "" {
		return f, fmt.Errorf("probe: %s has no list of models, but %s has one: write --base-url %s", base, place, place)
	}
	if e, ok := errors.AsType[*policy.Error](err); ok && (e.Status == 404 || e.Status == 405 || e.Status == 501) && model != Auto && model != "" {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("probe: %w", err)
	}
	var list struct {
		Data []listed `json:"data"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return f, &policy.Error{Kind: policy.Malformed, Err: fmt.Errorf("probe: %s/models is no list of models: %w", base, err)}
	}
	return f, f.choose(list.Data)
}

// elsewhere is the base URL that was meant where the one that was given answers with no
// list of models and another on the same server does: it was written without its /v1, or
// with a path that the server does not have. It asks only then. Empty: there is none.
func elsewhere(ctx context.Context, w *wire.Client, base string, raw []byte, err error) string {
	var e *policy.Error
	gone := errors.As(err, &e) && slices.Contains([]int{401, 403, 404, 405, 501}, e.Status)
	if u, bad := url.Parse(base); bad != nil || strings.HasSuffix(u.Path, "/v1") || !gone && (err != nil || isList(raw)) {
		return ""
	}
	if raw, err := w.Get(ctx, "/v1/models"); err != nil || !isList(raw) {
		return ""
	}
	return base + "/v1"
}

// isList tells a list of models from the page of another service.
func isList(raw []byte) bool {
	var list struct {
		Data []listed `json:"data"`
	}
	return json.Unmarshal(raw, &list) == nil && list.Data != nil
}

// choose fills in what the list says about the model.
func (f *Found) choose(list []listed) error {
	for _, l := range list {
		f.Models = append(f.Models, l.ID)
	}
	if len(list) > 0 && f.Profile.Name == "generic" {
		if p, ok := profileOwned(list[0].Owner); ok {
			f.Profile = p
		}
	}
	if f.Model == Auto || f.Model == "" {
		if len(list) != 1 {
			return &policy.Error{Kind: policy.NoModel, Err: fmt.Errorf("%s offers %d models, so that --model auto cannot choose: %s", f.Base, len(list), some(f.Models))}
		}
		f.Model = list[0].ID
	}
	i := slices.Index(f.Models, f.Model)
	if i < 0 && !strings.Contains(f.Model, ":") {
		i = slices.Index(f.Models, f.Model+":latest") // Ollama's tags
	}
	switch {
	case i >= 0:
		f.Context = list[i].context()
		f.Images = slices.Contains(list[i].Architecture.Input, "image")
		f.Blind = len(list[i].Architecture.Input) > 0 && !f.Images
	case len(list) > 0 && !f.lenient():
		return &policy.Error{Kind: policy.NoModel, Status: 404, Err: fmt.Errorf("%s has no model %q; it offers %s", f.Base, f.Model, some(f.Models))}
	}
	return nil
}

// lenient: OpenRouter takes variants of a name (:free, :nitro) that it does not list,
// llama.cpp any name.
func (f *Found) lenient() bool {
	if f.Profile.Name == "llamacpp" {
		return true
	}
	name, _, ok := strings.Cut(f.Model, ":")
	return ok && f.Profile.Name == "openrouter" && slices.Contains(f.Models, name)
}

func some(names []string) string {
	const most = 20
	names = slices.Clone(names)
	slices.Sort(names)
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// NoEndpoint reports whether err says that a server lacks the endpoint, or keeps it closed:
// another one may be tried.
func NoEndpoint(err error) bool {
	var e *policy.Error
	if !errors.As(err, &e) || e.Kind != policy.Rejected {
		return false
	}
	return e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented || e.Status == http.StatusForbidden
}

// Endpoint says which endpoint a wire form asks, and what to do where it is missing.
func Endpoint(form string) string {
	switch form {
	case SGLang:
		return "--wire sglang asks POST /generate of SGLang, beside /v1; for other servers choose --wire vllm, llamacpp or chat"
	case VLLM, VLLMCompletions:
		return "--wire vllm asks POST /inference/v1/generate (start it with vllm serve --enable-scale-out) or POST /v1/completions of vLLM; for other servers choose --wire sglang, llamacpp or chat"
	case LlamaCpp:
		return "--wire llamacpp asks POST /completion of llama-server, beside /v1; for other servers choose --wire sglang, vllm or chat"
	}
	return "--wire chat asks POST /v1/chat/completions with return_token_ids: start vLLM 0.10.2 or later, or SGLang"
}

// LocalBases are the addresses at which model servers listen by default: vLLM, SGLang,
// llama.cpp, Ollama, LM Studio.
func LocalBases() []string {
	return []string{
		"http://127.0.0.1:8000/v1", "http://127.0.0.1:30000/v1", "http://127.0.0.1:8080/v1",
		"http://127.0.0.1:11434/v1", "http://127.0.0.1:1234/v1",
	}
}

// Discover asks each of bases for its models, all at once, and returns those that
// answered, in the order of bases. o is for header and transport: no key is sent.
func Discover(ctx context.Context, bases []string, o wire.Options) ([]Found, error) {
	found := make([]*Found, len(bases))
	errs := make([]error, len(bases))
	var wg sync.WaitGroup
	for i, base := range bases {
		wg.Go(func() { found[i], errs[i] = discover(ctx, base, o) })
	}
	wg.Wait()
	var list []Found
	for _, f := range found {
		if f != nil {
			list = append(list, *f)
		}
	}
	if len(list) == 0 {
		return nil, &policy.Error{Kind: policy.Unavailable, Err: fmt.Errorf("no model server found at %s: start one or say --base-url", strings.Join(bases, ", "))}
	}
	return list, errors.Join(errs...)
}

// discover returns nil where no model server answers. An error is a base that is no address.
func discover(ctx context.Context, base string, o wire.Options) (*Found, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	o.Bases, o.Keys = []string{base}, nil
	w, err := wire.New(o)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	f, err := Probe(ctx, w, Auto)
	if err != nil && len(f.Models) == 0 {
		return nil, nil
	}
	if err != nil {
		f.Model = ""
	}
	return &f, nil
}

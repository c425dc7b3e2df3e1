package modelfiles_test

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hermes/internal/hfhub"
	"hermes/internal/jinja"
	"hermes/parsers/modelfiles"
)

const commit = "89abcdef0123456789abcdef0123456789abcdef"

// model is a repository as the hub has them: weights, and what speaks the language.
func model() map[string]string {
	return map[string]string{
		"model-00001-of-00001.safetensors":         strings.Repeat("w", 100_000),
		"README.md":                                "a model",
		"tokenizer.json":                           `{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}`,
		"tokenizer.model":                          "older",
		"tokenizer_config.json":                    `{"bos_token": null, "eos_token": {"content": "<|im_end|>", "lstrip": false}, "chat_template": "from the config", "model_max_length": 1e30, "response_template": {"fields": {}}}`,
		"chat_template.jinja":                      chatml,
		"additional_chat_templates/tool_use.jinja": chatml + "{# tools #}",
		"generation_config.json":                   `{"eos_token_id": [2, 7]}`,
		"config.json":                              `{"eos_token_id": 2, "text_config": {"max_position_embeddings": 4096, "vocab_size": 320}}`,
		"original/tokenizer.model":                 "not this one",
		"onnx/chat_template.jinja":                 "nor this one",
	}
}

const chatml = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
	"{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}{% endif %}" +
	"{# <tool_call>{}</tool_call> #}"

// hub speaks the hub's API for one model and notes which files it gave.
type hub struct {
	*httptest.Server
	mu    sync.Mutex
	given []string
}

func newHub(t *testing.T, files map[string]string) *hub {
	h := &hub{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/models/org/net/revision/{rev}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.Header().Set("X-Error-Message", "Access to model org/net is restricted")
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if rev := r.PathValue("rev"); rev != "main" && rev != "v1" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"sha": commit})
	})
	mux.HandleFunc("GET /api/models/org/net/tree/"+commit, func(w http.ResponseWriter, r *http.Request) {
		var all []map[string]any
		for path, text := range files {
			git := sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(text), text)))
			e := map[string]any{"type": "file", "path": path, "size": len(text), "oid": hex.EncodeToString(git[:])}
			if len(text) > 1000 {
				sum := sha256.Sum256([]byte(text))
				e["lfs"] = map[string]any{"oid": hex.EncodeToString(sum[:]), "size": len(text)}
			}
			all = append(all, e)
		}
		json.NewEncoder(w).Encode(all)
	})
	mux.HandleFunc("GET /org/net/resolve/"+commit+"/{path...}", func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.given = append(h.given, r.PathValue("path"))
		h.mu.Unlock()
		fmt.Fprint(w, files[r.PathValue("path")])
	})
	h.Server = httptest.NewServer(mux)
	t.Cleanup(h.Close)
	return h
}

func TestOpenFetchesPartsOnly(t *testing.T) {
	h, cache := newHub(t, model()), t.TempDir()
	o := hfhub.Options{Endpoint: h.URL, Token: "secret", Cache: cache}
	f, err := modelfiles.Open(t.Context(), "hf:org/net@v1", o)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(h.given)
	want := []string{
		"additional_chat_templates/tool_use.jinja", "chat_template.jinja", "config.json", "generation_config.json",
		"tokenizer.json", "tokenizer_config.json",
	}
	if !slices.Equal(h.given, want) {
		t.Errorf("fetched %v, want %v", h.given, want)
	}
	if f.Commit != commit || f.EOS != "<|im_end|>" || f.BOS != "" || !slices.Equal(f.EndIDs, []int64{2, 7}) || f.Context != 4096 || f.Vocab != 320 ||
		string(f.Response) != `{"fields": {}}` {
		t.Errorf("%+v", f)
	}
	if got := filepath.Join(cache, "models--org--net", "snapshots", commit); f.Dir != got || f.Tokenizer != filepath.Join(got, "tokenizer.json") {
		t.Errorf("lies in %s, %s; want %s", f.Dir, f.Tokenizer, got)
	}
	if text, err := f.Template("", false); err != nil || text != chatml {
		t.Errorf("template %q, %v", text, err)
	}
	if text, err := f.Template("", true); err != nil || !strings.HasSuffix(text, "{# tools #}") {
		t.Errorf("template for tools %q, %v", text, err)
	}
	if _, err := f.Template("rag", false); err == nil || !strings.Contains(err.Error(), "have default, tool_use") {
		t.Errorf("unknown template: %v", err)
	}
	h.Close()
	o.Offline = true
	if again, err := modelfiles.Open(t.Context(), "hf:org/net@v1", o); err != nil || again.Tokenizer != f.Tokenizer {
		t.Errorf("offline: %v", err)
	}
	if _, err := modelfiles.Open(t.Context(), "hf:org/net", o); !errors.Is(err, hfhub.ErrOffline) {
		t.Errorf("offline, another revision: %v", err)
	}
}

func TestOpenErrors(t *testing.T) {
	h := newHub(t, map[string]string{"model.safetensors": "w", "README.md": "x"})
	o := hfhub.Options{Endpoint: h.URL, Token: "secret", Cache: t.TempDir()}
	empty, broken := t.TempDir(), folder(t, map[string]string{"tokenizer_config.json": "{", "tokenizer.json": "{}"})
	for name, want := range map[string]string{
		"hf:org/net":      "neither tokenizer nor template",
		"hf:org/net@nope": "404",
		"hf:org":          "want hf:owner/name",
		"hf:org/../net":   "no repository",
		"hf:org/net@":     "no revision",
		"hf:org/net@../x": "no revision",
		"no/such/folder":  "no such file",
		empty:             "neither a tokenizer",
		broken:            "tokenizer_config.json",
	} {
		if f, err := modelfiles.Open(t.Context(), name, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", name, f, err, want)
		}
	}
	o.Token = "wrong"
	if _, err := modelfiles.Open(t.Context(), "hf:org/net", o); err == nil || !strings.Contains(err.Error(), "restricted") ||
		strings.Contains(err.Error(), "wrong") {
		t.Errorf("wrong token: %v", err)
	}
}

func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFolderWithTheOlderList(t *testing.T) {
	f, err := modelfiles.Open(t.Context(), folder(t, map[string]string{
		"qwen.tiktoken": "YQ== 0",
		"tokenizer_config.json": `{"model_max_length": 512, "eos_token": "</s>",
		"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]}`,
		"config.json": `{"eos_token_id": 2}`,
	}), hfhub.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Templates(), []string{"default", "tool_use"}) || filepath.Base(f.Tokenizer) != "qwen.tiktoken" || f.Context != 512 ||
		!slices.Equal(f.EndIDs, []int64{2}) {
		t.Errorf("%+v, templates %v", f, f.Templates())
	}
}

func TestDetect(t *testing.T) {
	f := &modelfiles.Files{EOS: "<|endoftext|>"}
	got, err := f.Detect(chatml, nil)
	if err != nil || got.Family != "hermes" || got.Think != modelfiles.ThinkOpen || got.Tag != "<think>" ||
		!slices.Equal(got.Stops, []string{"<|im_end|>", "<|endoftext|>"}) {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = f.Detect(chatml, map[string]any{"enable_thinking": false})
	if err != nil || got.Think != modelfiles.ThinkClosed {
		t.Errorf("thinking off: %+v, %v", got, err)
	}
	got, err = f.Detect("{{ messages[0].content }} [/INST]</think>", nil)
	if err != nil || got.Think != modelfiles.ThinkClosed || got.Family != "" {
		t.Errorf("closed alone: %+v, %v", got, err)
	}
	got, err = f.Detect("{% if not tools %}{{ raise_exception('tools only') }}{% endif %}{{ messages[0].content }}", nil)
	if err != nil || got.Think != modelfiles.ThinkNone {
		t.Errorf("tools only: %+v, %v", got, err)
	}
	_, err = f.Detect("one\n{% if %}", nil)
	var bad *jinja.Error
	if !errors.As(err, &bad) || bad.Class != jinja.ClassSyntax || bad.Line != 2 {
		t.Errorf("syntax error: %v", err)
	}
}

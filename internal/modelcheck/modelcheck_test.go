package modelcheck_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"hermes/internal/fakellm"
	"hermes/internal/jinja"
	"hermes/internal/modelcheck"
	"hermes/parsers"
	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

// template renders what the fake server renders.
const template = `{%- if tools %}<|im_start|>system
<tools>
{% for t in tools %}{{ t | tojson(separators=(',', ':')) }}{% endfor %}{{ '\n' }}</tools><|im_end|>
{% endif %}{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response>{% else %}<|im_start|>{{ m.role }}
{% if m.reasoning_content and keep is not defined %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson(separators=(',', ':')) }}}
</tool_call>{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// bytesTokenizer is the fake's tokenizer as a file: one id a byte, 256 ends a message.
func bytesTokenizer(t *testing.T) tokenizer.Tokenizer {
	t.Helper()
	vocab := map[string]int{}
	for b := range 256 {
		vocab[tokenizer.ByteSpelling(byte(b))] = b
	}
	raw, err := json.Marshal(map[string]any{"added_tokens": []any{map[string]any{"id": 256, "content": "<|im_end|>", "special": true, "normalized": false}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}, "decoder": map[string]any{"type": "ByteLevel"},
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{}}})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func parse(t *testing.T, source string) *jinja.Template {
	t.Helper()
	tmpl, err := jinja.Parse(source, jinja.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// server is the fake; change, if not nil, may change its answers or refuse by false.
func server(t *testing.T, change func(path string, answer map[string]any) bool) string {
	t.Helper()
	fake, err := fakellm.New(fakellm.Options{Models: []string{"tiny"}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(fake)
	t.Cleanup(s.Close)
	if change == nil {
		return s.URL + "/v1"
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.ModifyResponse = func(r *http.Response) error {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		var answer map[string]any
		if json.Unmarshal(raw, &answer) == nil {
			if !change(r.Request.URL.Path, answer) {
				r.StatusCode = http.StatusNotFound
			}
			raw, err = json.Marshal(answer)
			if err != nil {
				return err
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
		r.Header.Del("Content-Length")
		return nil
	}
	p := httptest.NewServer(proxy)
	t.Cleanup(p.Close)
	return p.URL + "/v1"
}

func run(t *testing.T, base string, change func(*modelcheck.Options)) (*modelcheck.Report, error) {
	t.Helper()
	o := modelcheck.Options{Base: base, Model: "tiny", Tokenizer: bytesTokenizer(t), Template: parse(t, template), Family: parsers.Hermes}
	if change != nil {
		change(&o)
	}
	return modelcheck.Run(t.Context(), o)
}

// result finds a step by the end of its name.
func result(r *modelcheck.Report, name string) modelcheck.Step {
	for _, s := range r.Proof {
		if strings.HasSuffix(s.Name, name) {
			return s
		}
	}
	return modelcheck.Step{}
}

func TestProof(t *testing.T) {
	r, err := run(t, server(t, nil), nil)
	if err != nil || !r.Exact() || r.Wire != "vllm" {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, name := range []string{
		"plain: prompt", "plain: answer", "plain: /generate", "plain: next turn", "with a tool: prompt", "with a tool: answer",
		"with a tool: next turn",
	} {
		if s := result(r, name); s.Result != modelcheck.Proved {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestDifferences(t *testing.T) {
	for name, c := range map[string]struct {
		option func(*modelcheck.Options)
		answer func(string, map[string]any) bool
		step   string
		note   string
	}{
		"another template": {option: func(o *modelcheck.Options) {
			o.Template = parse(t, strings.ReplaceAll(template, "</tools>", "</tools>\n\n"))
		},
			step: "with a tool: prompt", note: "they part at token"},
		"another parser": {
			option: func(o *modelcheck.Options) { o.Family = parsers.Qwen3Coder },
			step:   "with a tool: answer",
			note:   "0 here, 1 there",
		},
		"the template forgets reasoning": {
			option: func(o *modelcheck.Options) { o.Vars = map[string]any{"keep": false} },
			step:   "with a tool: next turn",
			note:   "they part at token",
		},
		"ids outside the vocabulary": {answer: func(path string, a map[string]any) bool {
			if path == "/generate" {
				a["output_ids"] = []trajectory.Token{999}
			}
			return true
		}, step: "plain: /generate", note: "outside the vocabulary"},
		"another content": {answer: func(path string, a map[string]any) bool {
			if path == "/v1/chat/completions" {
				m := a["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
				if m["tool_calls"] == nil {
					m["content"] = "something else"
				}
			}
			return true
		}, step: "plain: answer", note: "something else"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := run(t, server(t, c.answer), c.option)
			if s := result(r, c.step); !errors.Is(err, modelcheck.ErrDiffers) || s.Result != modelcheck.Differs ||
				!strings.Contains(s.Note, c.note) || r.Exact() {
				t.Errorf("%+v, %v, want a difference with %q", s, err, c.note)
			}
		})
	}
}

// A server that accepts a call of a tool that was not offered still shows that the family
// reads it.
func TestUnofferedTool(t *testing.T) {
	renamed := false
	base := server(t, func(path string, a map[string]any) bool {
		if path != "/v1/chat/completions" {
			return true
		}
		c := a["choices"].([]any)[0].(map[string]any)
		calls, _ := c["message"].(map[string]any)["tool_calls"].([]any)
		for _, call := range calls {
			f := call.(map[string]any)["function"].(map[string]any)
			name := f["name"].(string)
			f["name"] = "X" + name[1:]
			ids := c["token_ids"].([]any) // bytes
			for i := range ids {
				if i+len(name) <= len(ids) && spell(ids[i:i+len(name)]) == name {
					ids[i], renamed = float64('X'), true
				}
			}
		}
		return true
	})
	r, err := run(t, base, nil)
	if s := result(r, "with a tool: answer"); !renamed || s.Result != modelcheck.Proved {
		t.Errorf("renamed %v: %+v, %v", renamed, s, err)
	}
}

// spell is the text of ids that are bytes.
func spell(ids []any) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteByte(byte(id.(float64)))
	}
	return b.String()
}

// plainServer leaves out what only servers for training give.
func plainServer(path string, a map[string]any) bool {
	switch path {
	case "/v1/chat/completions", "/v1/completions":
		delete(a, "prompt_token_ids")
		for _, c := range a["choices"].([]any) {
			delete(c.(map[string]any), "token_ids")
			delete(c.(map[string]any), "prompt_token_ids")
		}
		return true
	}
	return strings.HasPrefix(path, "/v1/")
}

func TestServerWithoutIDs(t *testing.T) {
	base := server(t, plainServer)
	r, err := run(t, base, nil)
	if !errors.Is(err, modelcheck.ErrNoIDs) || !strings.Contains(err.Error(), "start vLLM") || r.Wire != "chat" {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = run(t, base, func(o *modelcheck.Options) { o.Template = nil })
	if err != nil || len(r.Proof) != 0 || r.Exact() {
		t.Errorf("without a template nothing is proved: %+v, %v", r, err)
	}
	if _, err = run(t, base, func(o *modelcheck.Options) { o.Tokenizer = nil }); err == nil || !strings.Contains(err.Error(), "no --tokenizer") {
		t.Errorf("no tokenizer anywhere: %v", err)
	}
}

// TestSGLang: ids come from /generate alone.
func TestSGLang(t *testing.T) {
	r, err := run(t, server(t, func(path string, a map[string]any) bool {
		return path == "/generate" || path == "/tokenize" || path == "/detokenize" || path == "/v1/chat/completions" && plainServer(path, a)
	}), nil)
	if err != nil || r.Wire != "sglang" || result(r, "plain: /generate").Result != modelcheck.Proved {
		t.Errorf("%+v, %v", r, err)
	}
	if s := result(r, "plain: prompt"); s.Result != modelcheck.Skipped {
		t.Errorf("%+v", s)
	}
}

func TestBadServers(t *testing.T) {
	none := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(none.Close)
	if _, err := run(t, none.URL+"/v1", nil); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("not there: %v", err)
	}
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"choices": []}`) }))
	t.Cleanup(odd.Close)
	if _, err := run(t, odd.URL+"/v1", nil); err == nil || !strings.Contains(err.Error(), "no choices") {
		t.Errorf("no choices: %v", err)
	}
	if _, err := modelcheck.Run(t.Context(), modelcheck.Options{}); err == nil {
		t.Error("no address was taken")
	}
}

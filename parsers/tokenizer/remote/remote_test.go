package remote_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"hermes/internal/fakellm"
	"hermes/parsers/tokenizer"
	"hermes/parsers/tokenizer/remote"
	"hermes/parsers/tokenizer/tokenizertest"
	"hermes/parsers/tokenizer/words"
	"hermes/trajectory"
)

func TestConformanceAgainstTheFake(t *testing.T) {
	fake, err := fakellm.New(fakellm.Options{Models: []string{"m"}, Key: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(fake)
	t.Cleanup(s.Close)
	tok, err := remote.New(t.Context(), remote.Options{Base: s.URL + "/v1", Model: "m", Key: "secret", Specials: []string{"<|im_end|>"}})
	if err != nil || tok.Form() != remote.VLLM {
		t.Fatalf("%v, %v", tok, err)
	}
	tokenizertest.Run(t, tok, tokenizertest.Traits{Special: "<|im_end|>", Always: true, Foreign: 1 << 30, Loose: true})
	if _, err := remote.New(t.Context(), remote.Options{Base: s.URL, Key: "wrong"}); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("wrong key: %v", err)
	}
}

// server speaks one form over a tokenizer of words, as the real servers do.
func server(t *testing.T, form remote.Form, tok tokenizer.Tokenizer) string {
	type request struct {
		Prompt, Content *string
		Tokens          []trajectory.Token
		AddSpecial      bool  `json:"add_special_tokens"`
		Parse           bool  `json:"parse_special"`
		Skip            *bool `json:"skip_special_tokens"`
	}
	fail := func(w http.ResponseWriter, status int, text string) {
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": text}})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, r *http.Request) {
		var in request
		json.NewDecoder(r.Body).Decode(&in)
		text, special := in.Prompt, true
		if form == remote.LlamaCPP {
			text, special = in.Content, in.Parse
		}
		if text == nil {
			fail(w, 400, "field required")
			return
		}
		ids, _ := tok.Encode(*text, tokenizer.Options{Special: special})
		json.NewEncoder(w).Encode(map[string]any{"tokens": ids, "count": len(ids)})
	})
	mux.HandleFunc("POST /detokenize", func(w http.ResponseWriter, r *http.Request) {
		var in request
		json.NewDecoder(r.Body).Decode(&in)
		text, err := tok.Decode(in.Tokens)
		if err != nil {
			fail(w, 400, err.Error())
			return
		}
		if form == remote.SGLang && (in.Skip == nil || *in.Skip) {
			text = strings.ReplaceAll(text, "<|end|>", "")
		}
		key := map[remote.Form]string{remote.VLLM: "prompt", remote.SGLang: "text", remote.LlamaCPP: "content"}[form]
		json.NewEncoder(w).Encode(map[string]string{key: text})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestConformanceOfAllForms(t *testing.T) {
	local, err := words.New([]string{"Hello", " world", "é"}, []string{"<|end|>"})
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []remote.Form{remote.VLLM, remote.SGLang, remote.LlamaCPP} {
		t.Run(string(form), func(t *testing.T) {
			tok, err := remote.New(t.Context(), remote.Options{Base: server(t, form, local), Specials: []string{"<|end|>"}})
			if err != nil || tok.Form() != form {
				t.Fatalf("found %v, %v", tok, err)
			}
			tokenizertest.Run(t, tok, tokenizertest.Traits{Special: "<|end|>", Always: form != remote.LlamaCPP, Foreign: 100_000, Like: local})
			text := tokenizer.Options{Text: map[string]bool{" world": true}} // no server can be asked for this
			if ids, err := tok.Encode("Hello world", text); !errors.Is(err, tokenizer.ErrUnsupported) {
				t.Errorf("an added token that is to stay text: %v, %v", ids, err)
			}
			if _, err := tok.Encode("Hello", text); err != nil {
				t.Errorf("a text without that token: %v", err)
			}
		})
	}
}

func TestNoTokenizer(t *testing.T) {
	none := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(none.Close)
	if _, err := remote.New(t.Context(), remote.Options{Base: none.URL}); !errors.Is(err, remote.ErrNone) {
		t.Errorf("a server without: %v", err)
	}
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(`{"tokens": [1], "prompt": "other", "text": "other", "content": "other"}`))
	}))
	t.Cleanup(odd.Close)
	if _, err := remote.New(t.Context(), remote.Options{Base: odd.URL}); err == nil || !strings.Contains(err.Error(), `came back as "other"`) {
		t.Errorf("a server that decodes otherwise: %v", err)
	}
	if _, err := remote.New(t.Context(), remote.Options{Base: odd.URL, Form: "tgi"}); err == nil || !strings.Contains(err.Error(), "have vllm") {
		t.Errorf("unknown form: %v", err)
	}
	big := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(slices.Repeat([]byte(" "), 4096)) }))
	t.Cleanup(big.Close)
	if _, err := remote.New(t.Context(), remote.Options{Base: big.URL, MaxBody: 100}); err == nil || !strings.Contains(err.Error(), "more than 100 bytes") {
		t.Errorf("endless answer: %v", err)
	}
}

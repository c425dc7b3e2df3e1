// Package remote is the tokenizer of a model server, asked over HTTP: vLLM's and SGLang's
// /tokenize and /detokenize, llama.cpp's. It serves where no tokenizer file is at hand, and
// as the check that ours agrees with the server's. A text costs a request: rollouts by the
// thousand want the file.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

// Form is the wire form of a server.
type Form string

// The forms. The paths are those of the server's root, beside /v1.
const (
	VLLM     Form = "vllm"     // {model, prompt, add_special_tokens} → {tokens}; {model, tokens} → {prompt}
	SGLang   Form = "sglang"   // the same, but → {text}, and skip_special_tokens
	LlamaCPP Form = "llamacpp" // {content, add_special, parse_special} → {tokens}; {tokens} → {content}
)

// Options say which server. Base is required.
type Options struct {
	Base     string        // http://host:port, with or without /v1
	Model    string        // sent along; servers of one model need none
	Key      string        // bearer token
	Form     Form          // empty: found by asking
	Specials []string      // spellings of special tokens, see [Tokenizer.Encode]
	Timeout  time.Duration // of one request; 0 means 1 min
	MaxBody  int64         // bytes of an answer; 0 means 64 MiB
	Client   *http.Client  // nil means http.DefaultClient
}

// Tokenizer is a server's tokenizer. It implements [tokenizer.Coder] and is safe for
// concurrent use.
type Tokenizer struct{ o Options }

// ErrNone says that the server has no tokenizer to ask.
var ErrNone = errors.New("the server has no /tokenize (vLLM, SGLang and llama.cpp have one)")

// New finds the server's form with a probe and checks that a text comes back.
func New(ctx context.Context, o Options) (*Tokenizer, error) {
	if o.Base == "" {
		return nil, errors.New("remote tokenizer: no address")
	}
	o.Base = strings.TrimSuffix(strings.TrimRight(o.Base, "/"), "/v1")
	o.Timeout, o.MaxBody, o.Client = cmp.Or(o.Timeout, time.Minute), cmp.Or(o.MaxBody, 64<<20), cmp.Or(o.Client, http.DefaultClient)
	forms := []Form{VLLM, SGLang, LlamaCPP}
	if o.Form != "" {
		forms = []Form{o.Form}
	}
	var why error
	for _, f := range forms {
		t := &Tokenizer{o: o}
		t.o.Form = f
		why = t.probe(ctx)
		if why == nil {
			return t, nil
		}
		var s *StatusError
		if errors.As(why, &s) && (s.Status == http.StatusNotFound || s.Status == http.StatusMethodNotAllowed || s.Status == http.StatusNotImplemented) {
			return nil, fmt.Errorf("remote tokenizer %s: %w", o.Base, ErrNone)
		}
	}
	return nil, fmt.Errorf("remote tokenizer %s: %w", o.Base, why)
}

const probeText = "Hello, wörld"

func (t *Tokenizer) probe(ctx context.Context) error {
	switch t.o.Form {
	case VLLM, SGLang, LlamaCPP:
	default:
		return fmt.Errorf("form %q (have %s, %s, %s)", t.o.Form, VLLM, SGLang, LlamaCPP)
	}
	ids, err := t.encode(ctx, probeText, tokenizer.Options{})
	if err != nil {
		return err
	}
	text, err := t.decode(ctx, ids, false)
	if err == nil && strings.TrimLeft(text, " ") != probeText {
		err = fmt.Errorf("%q came back as %q", probeText, text)
	}
	return err
}

// Form is the form that the server speaks.
func (t *Tokenizer) Form() Form { return t.o.Form }

// Encode asks the server. vLLM and SGLang recognise special tokens in every text: with
// Special false a text that spells one of Options.Specials is [tokenizer.ErrUnsupported].
func (t *Tokenizer) Encode(text string, o tokenizer.Options) ([]trajectory.Token, error) {
	return t.encode(context.Background(), text, o)
}

func (t *Tokenizer) encode(ctx context.Context, text string, o tokenizer.Options) ([]trajectory.Token, error) {
	if s := o.Spelled(text); s != "" {
		return nil, fmt.Errorf("encode a text that spells %q, which is to stay text: %w", s, tokenizer.ErrUnsupported)
	}
	if !o.Special && t.o.Form != LlamaCPP {
		for _, s := range t.o.Specials {
			if strings.Contains(text, s) {
				return nil, fmt.Errorf("encode a text that spells %s: a server of form %s takes it for the token: %w", s, t.o.Form, tokenizer.ErrUnsupported)
			}
		}
	}
	body := map[string]any{"model": t.o.Model, "prompt": text, "add_special_tokens": o.Add}
	if t.o.Form == LlamaCPP {
		body = map[string]any{"content": text, "add_special": o.Add, "parse_special": o.Special}
	}
	var out struct{ Tokens *[]trajectory.Token }
	if err := t.post(ctx, "/tokenize", body, &out); err != nil {
		return nil, fmt.Errorf("encode text of %d bytes: %w", len(text), err)
	}
	if out.Tokens == nil {
		return nil, fmt.Errorf("encode text of %d bytes: the server's answer has no tokens", len(text))
	}
	return *out.Tokens, nil
}

// Decode asks the server; special tokens stay as text.
func (t *Tokenizer) Decode(ids []trajectory.Token) (string, error) {
	return t.decode(context.Background(), ids, false)
}

func (t *Tokenizer) decode(ctx context.Context, ids []trajectory.Token, skip bool) (string, error) {
	if len(ids) == 0 {
		return "", nil
	}
	body := map[string]any{"model": t.o.Model, "tokens": ids}
	if t.o.Form == SGLang {
		body["skip_special_tokens"] = skip
	}
	var out struct{ Prompt, Text, Content *string }
	err := t.post(ctx, "/detokenize", body, &out)
	var s *StatusError
	if errors.As(err, &s) && s.Status == http.StatusBadRequest {
		err = fmt.Errorf("%w: %w", tokenizer.ErrUnknownID, err)
	}
	if err != nil {
		return "", fmt.Errorf("decode %d ids: %w", len(ids), err)
	}
	text := map[Form]*string{VLLM: out.Prompt, SGLang: out.Text, LlamaCPP: out.Content}[t.o.Form]
	if text == nil {
		return "", fmt.Errorf("decode %d ids: no text in the answer of form %s", len(ids), t.o.Form)
	}
	return *text, nil
}

// Stream implements [tokenizer.Coder]: a request or two a token. SkipSpecial leaves out
// the tokens whose text is one of Options.Specials.
func (t *Tokenizer) Stream(o tokenizer.StreamOptions) *tokenizer.Stream {
	return tokenizer.NewStream(func(ids []trajectory.Token) (string, error) {
		text, err := t.decode(context.Background(), ids, o.SkipSpecial)
		if o.SkipSpecial {
			for _, s := range t.o.Specials {
				text = strings.ReplaceAll(text, s, "")
			}
		}
		return text, err
	})
}

// StatusError is an answer that is no success.
type StatusError struct {
	Path   string
	Status int
	Text   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s: %d %s", e.Path, e.Status, e.Text) }

func (t *Tokenizer) post(ctx context.Context, path string, body, to any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.o.Base+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if t.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+t.o.Key)
	}
	resp, err := t.o.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, t.o.MaxBody+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case int64(len(answer)) > t.o.MaxBody:
		return fmt.Errorf("%s: an answer of more than %d bytes", path, t.o.MaxBody)
	case resp.StatusCode != http.StatusOK:
		return &StatusError{Path: path, Status: resp.StatusCode, Text: strings.TrimSpace(string(answer[:min(len(answer), 300)]))}
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

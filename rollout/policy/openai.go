package policy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"hermes/rollout/policy/wire"
)

// callKey finds the present attempt in a request's context.
type callKey struct{}

// call is one attempt at a stream: how it is sent, and whether the answer is one document
// all the same.
type call struct {
	d     wire.Doer
	plain bool
}

// doer is go-openai's HTTP client for streams. The body that go-openai encodes is a
// neutral stub: the wire replaces it by ours, which is never encoded twice. An answer in
// one document is kept raw, because go-openai's types lose reasoning details, costs and
// odd arguments.
type doer struct{}

// Do sends the request through the attempt in its context.
func (doer) Do(req *http.Request) (*http.Response, error) {
	c, ok := req.Context().Value(callKey{}).(*call)
	if !ok {
		return nil, errors.New("a model request without an attempt")
	}
	resp, err := c.d.Do(req)
	if err != nil {
		return resp, err
	}
	body := bufio.NewReader(resp.Body)
	first, err := body.Peek(1) // a server without streams, or a stored answer, is one document
	if resp.Body = (&stream{body, resp.Body}); err != nil || first[0] != '{' {
		return resp, nil
	}
	c.plain = true
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err != nil { // the attempt keeps what is read
		return nil, err
	}
	resp.Body = io.NopCloser(strings.NewReader("{}\n"))
	return resp, nil
}

// stream is a buffered body.
type stream struct {
	io.Reader
	io.Closer
}

// newOpenAI returns a client that is shared by all attempts.
func newOpenAI() *openai.Client {
	return openai.NewClientWithConfig(openai.ClientConfig{
		BaseURL: "http://model", HTTPClient: doer{}, EmptyMessagesLimit: 1 << 30, // comment lines keep a stream alive
	})
}

// ask sends one request and feeds a with the answer, whole or in pieces.
func ask(ctx context.Context, client *openai.Client, d wire.Doer, stream bool, a *answer) error {
	if stream {
		return askStream(ctx, client, d, a)
	}
	return askWhole(ctx, d, a)
}

// askStream reads the answer in pieces, as go-openai cuts them.
func askStream(ctx context.Context, client *openai.Client, d wire.Doer, a *answer) error {
	c := &call{d: d}
	ctx = context.WithValue(ctx, callKey{}, c)
	stub := openai.ChatCompletionRequest{Model: "model"} // its real name would be judged by go-openai
	s, err := client.CreateChatCompletionStream(ctx, stub)
	if err != nil {
		return err
	}
	defer s.Close()
	if c.plain {
		return a.whole(d.Raw())
	}
	for {
		raw, err := s.RecvRaw()
		if err == nil {
			err = a.read(raw)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return cmp.Or(told(d), err)
		}
	}
	a.end()
	if broken(d.Raw()) {
		return malformed("the stream ended in the middle of a line")
	}
	if a.finish != "" {
		return nil
	}
	return cmp.Or(told(d), error(malformed("the stream ended after %d pieces without a finish_reason", a.pieces)))
}

// askWhole asks for an answer in one document: there is nothing in it for go-openai to
// do, whose types would lose a part of it.
func askWhole(ctx context.Context, d wire.Doer, a *answer) error {
	raw, err := d.Whole(ctx)
	if err != nil {
		return err
	}
	return a.whole(raw)
}

// broken reports whether a stream ends within a line that is not its end mark: its last
// event, often the usage, is lost.
func broken(raw []byte) bool {
	line := raw[bytes.LastIndexByte(raw, '\n')+1:]
	return len(bytes.TrimSpace(line)) > 0 && !bytes.HasSuffix(bytes.TrimSpace(line), []byte("[DONE]"))
}

// told looks for an error in the raw stream: go-openai passes on only a part of it.
func told(d wire.Doer) error {
	for data, err := range wire.Events(bytes.NewReader(d.Raw()), len(d.Raw())+1) {
		var e struct{ Error json.RawMessage }
		if err != nil {
			return nil
		}
		if json.Unmarshal(data, &e) == nil && present(e.Error) {
			return wire.Classify(http.StatusOK, nil, data, time.Time{})
		}
	}
	return nil
}

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"hermes/internal/build"
	"hermes/internal/fakellm"
	"hermes/internal/settings"
	"hermes/parsers/tokenizer"
)

// floor sends as many plain requests of the same size with net/http alone, over as many
// connections, and reads the answers: what no engine on net/http can be below.
func (b Bench) floor(ctx context.Context) error {
	url, body, err := b.request()
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: b.InFlight}}
	defer client.CloseIdleConnections()
	return inParallel(b.InFlight, b.Rollouts*b.Turns, func() error { return post(ctx, client, url, body) })
}

// request is the one in the middle of a rollout, and where it goes.
func (b Bench) request() (url string, body []byte, err error) {
	script, err := json.Marshal([]any{map[string]any{"content": speech(0, answerBytes)}})
	if err != nil {
		return "", nil, err
	}
	ask := map[string]any{"model": "fake", "hermes_script": json.RawMessage(script)}
	content := strings.Repeat(build.BenchText, b.Context/len(build.BenchText))
	if b.Shape != "serve" {
		ask["messages"] = []any{map[string]any{"role": "user", "content": content}}
		body, err = json.Marshal(ask)
		return b.Base + "/chat/completions", body, err
	}
	tok, err := build.LoadTokenizer(settings.BenchTokenizer)
	if err != nil {
		return "", nil, err
	}
	m := fakellm.ChatML
	ask["input_ids"], err = tok.Encode(m.User+content+m.End+"\n"+m.Assistant, tokenizer.Options{Special: true})
	if err != nil {
		return "", nil, err
	}
	ask["return_logprob"], ask["sampling_params"] = true, map[string]any{"max_new_tokens": 1000}
	body, err = json.Marshal(ask)
	return strings.TrimSuffix(b.Base, "/v1") + "/generate", body, err
}

func post(ctx context.Context, c *http.Client, url string, body []byte) error {
	resp, err := send(ctx, c, http.MethodPost, url, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Choices   []json.RawMessage
		OutputIDs json.RawMessage `json:"output_ids"`
	}
	raw, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err == nil && len(answer.Choices) == 0 && len(answer.OutputIDs) == 0 {
		err = fmt.Errorf("%s: no answer in %.200s", resp.Status, raw)
	}
	return err
}

// send sends a body of JSON. The caller closes the answer's body.
func send(ctx context.Context, c *http.Client, method, url string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.Do(req)
}

// inParallel calls do n times, with workers at once. It ends at the first error.
func inParallel(workers, n int, do func() error) error {
	work := make(chan struct{}, n)
	for range n {
		work <- struct{}{}
	}
	close(work)
	errs := make(chan error, workers)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range work {
				if err := do(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

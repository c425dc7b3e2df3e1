package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// floor sends as many plain requests of the same size with net/http alone, over as many
// connections, and reads the answers: what no engine on net/http can be below.
func (b Bench) floor(ctx context.Context) error {
	script, err := json.Marshal([]any{map[string]any{"content": speech(0, answerBytes)}})
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"model": "fake", "hermes_script": json.RawMessage(script),
		"messages": []any{map[string]any{"role": "user", "content": strings.Repeat(words, b.Context/len(words))}}})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: b.InFlight}}
	defer client.CloseIdleConnections()
	work := make(chan struct{})
	errs := make(chan error, b.InFlight)
	var all sync.WaitGroup
	for range b.InFlight {
		all.Go(func() {
			for range work {
				if err := post(ctx, client, b.Base+"/chat/completions", body); err != nil {
					errs <- err
					for range work { // let the sender end
					}
					return
				}
			}
		})
	}
	for range b.Rollouts * b.Turns {
		work <- struct{}{}
	}
	close(work)
	all.Wait()
	close(errs)
	return <-errs
}

func post(ctx context.Context, c *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct{ Choices []json.RawMessage }
	raw, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err == nil && len(answer.Choices) == 0 {
		err = fmt.Errorf("%s: no answer in %.200s", resp.Status, raw)
	}
	return err
}

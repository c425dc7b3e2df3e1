package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// bare sends requests of size bytes with net/http alone, 64 at a time, and reads the streams
// that come: the floor of the shape batch, and the load that the model server can bear. It
// returns answers a second, and processor time of an answer in µs.
func (b Bench) bare(ctx context.Context, size int) (rate, cost float64, err error) {
	body, err := b.streamed(size)
	if err != nil {
		return 0, 0, err
	}
	n := min(b.Rollouts*b.Turns, bareRequests)
	start, cpu := time.Now(), processor()
	workers := min(n, bareInFlight)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	defer client.CloseIdleConnections()
	err = inParallel(workers, n, func() error { return postStream(ctx, client, b.Typed.Free+"/chat/completions", body) })
	return float64(n) / time.Since(start).Seconds(), micros(processor()-cpu) / float64(n), err
}

const (
	bareRequests = 5_000 // of a round
	bareInFlight = 64    // the default of --concurrency
)

// streamed is the body of a request of size bytes whose answer is streamed.
func (b Bench) streamed(size int) ([]byte, error) {
	script, err := json.Marshal([]any{map[string]any{"content": speech(0, answerBytes), "calls": []any{todoCall("turn", "turn 1", true)}}})
	if err != nil {
		return nil, err
	}
	ask := map[string]any{"model": "fake", "hermes_script": json.RawMessage(script), "stream": true, "stream_options": map[string]any{"include_usage": true}}
	ask["messages"] = []any{map[string]any{"role": "user", "content": ""}}
	empty, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	ask["messages"] = []any{map[string]any{"role": "user", "content": speech(0, max(size-len(empty), 4))}}
	return json.Marshal(ask)
}

// postStream sends a request and reads the events of its answer to their end. Of the events
// no more is decoded than the text that they bring.
func postStream(ctx context.Context, c *http.Client, url string, body []byte) error {
	resp, err := send(ctx, c, http.MethodPost, url, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, done := 0, false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() && !done {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		done = string(data) == "[DONE]"
		if done {
			continue
		}
		var piece struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal(data, &piece); err != nil {
			return err
		}
		for _, c := range piece.Choices {
			text += len(c.Delta.Content)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if !done || text == 0 {
		return fmt.Errorf("%s: a stream of %d bytes of text (whole: %v)", resp.Status, text, done)
	}
	return nil
}

package modelcheck

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"hermes/trajectory"
)

// maxAnswer bounds one answer of the server, in bytes.
const maxAnswer = 64 << 20

// statusError is an answer that is no success.
type statusError struct {
	path   string
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %d %s", e.path, e.status, e.text) }

// post sends body to an address below the server's root and decodes the answer into to;
// where to is a *[]byte it gets the answer as it is.
func (c *check) post(ctx context.Context, path string, body, to any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.root+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Close = true // servers close idle connections in mid-question, and a POST is not sent again
	req.Header.Set("Content-Type", "application/json")
	if c.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.Key)
	}
	resp, err := c.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case len(answer) > maxAnswer:
		return fmt.Errorf("%s: an answer of more than %d bytes", path, maxAnswer)
	case resp.StatusCode != http.StatusOK:
		return &statusError{path, resp.StatusCode, sentence(answer)}
	}
	if plain, ok := to.(*[]byte); ok {
		*plain = answer
		return nil
	}
	if err := json.Unmarshal(answer, to); err != nil {
		return fmt.Errorf("%s: the answer is not what such a server gives: %w", path, err)
	}
	return nil
}

// sentence is what a server says about an error: the message of its JSON, else the beginning.
func sentence(raw []byte) string {
	var e struct {
		Message string
		Error   struct{ Message string }
	}
	if json.Unmarshal(raw, &e) == nil && cmp.Or(e.Error.Message, e.Message) != "" {
		raw = []byte(cmp.Or(e.Error.Message, e.Message))
	}
	return strings.TrimSpace(string(raw[:min(len(raw), 300)]))
}

// answer is what is read of a chat completion.
type answer struct {
	Prompt  []trajectory.Token `json:"prompt_token_ids"`
	Choices []choice
	Usage   struct {
		Prompt int `json:"prompt_tokens"`
	}
}

type choice struct {
	Message struct {
		Content   string
		Reasoning string `json:"reasoning_content"`
		Thought   string `json:"reasoning"`
		Calls     []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	Text     string
	Finish   string             `json:"finish_reason"`
	IDs      []trajectory.Token `json:"token_ids"`
	Prompt   []trajectory.Token `json:"prompt_token_ids"` // where the answer itself has none
	Logprobs struct{ Content []json.RawMessage }
}

// prompt returns the ids of the rendered prompt wherever the server puts them.
func (a *answer) prompt() []trajectory.Token {
	if a.Prompt == nil && len(a.Choices) > 0 {
		return a.Choices[0].Prompt
	}
	return a.Prompt
}

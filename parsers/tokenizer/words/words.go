// Package words is a small tokenizer for tests: a token is a byte or one of a list of
// words. It has special tokens and splits text where a word ends, and needs no file.
package words

import (
	"encoding/json"
	"fmt"

	"hermes/parsers/tokenizer"
)

// New builds a tokenizer whose ids 0 to 255 are bytes, followed by the specials in order
// and then the words. A word may appear once; a word is found only where no special is.
func New(specials, words []string) (tokenizer.Tokenizer, error) {
	vocab, added := map[string]int{}, []any{}
	for b := range 256 {
		vocab[tokenizer.ByteSpelling(byte(b))] = b
	}
	for i, s := range append(append([]string(nil), specials...), words...) {
		added = append(added, map[string]any{"id": 256 + i, "content": s, "special": i < len(specials), "normalized": i >= len(specials)})
	}
	b, err := json.Marshal(map[string]any{
		"added_tokens":  added,
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false},
		"decoder":       map[string]any{"type": "ByteLevel"},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []string{}},
	})
	if err != nil {
		return nil, fmt.Errorf("build words: %w", err)
	}
	t, err := tokenizer.FromJSON(b)
	if err != nil {
		return nil, fmt.Errorf("build words: %w", err)
	}
	return t, nil
}

package hf_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"hermes/parsers/tokenizer"
	"hermes/parsers/tokenizer/hf"
	"hermes/parsers/tokenizer/tokenizertest"
)

type obj = map[string]any

// file is a byte-level tokenizer.json with a few merges and one special token.
func file(t testing.TB, pattern string) []byte {
	t.Helper()
	vocab, merges := obj{}, [][2]string{}
	for b := range 256 {
		vocab[tokenizer.ByteSpelling(byte(b))] = b
	}
	for _, w := range []string{"Hello", " world", " the", "ing", "世界"} {
		left := tokenizer.ByteSpelling(w[0])
		for i := 1; i < len(w); i++ {
			right := tokenizer.ByteSpelling(w[i])
			if _, ok := vocab[left+right]; !ok {
				vocab[left+right] = len(vocab)
				merges = append(merges, [2]string{left, right})
			}
			left += right
		}
	}
	raw, err := json.Marshal(obj{"version": "1.0", "added_tokens": []obj{{"id": len(vocab), "content": "<|end|>", "special": true, "normalized": false,
		"single_word": false, "lstrip": false, "rstrip": false}},
		"truncation": obj{"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
		"pre_tokenizer": obj{
			"type": "Sequence",
			"pretokenizers": []obj{{"type": "Split", "pattern": obj{"Regex": pattern}, "behavior": "Isolated", "invert": false},
				{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}},
		},
		"decoder": obj{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
		"model":   obj{"type": "BPE", "vocab": vocab, "merges": merges}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestConformance(t *testing.T) {
	if _, err := hf.FromJSON(file(t, tokenizer.Qwen)); !hf.Available {
		if !errors.Is(err, hf.ErrAbsent) {
			t.Errorf("without the library: %v", err)
		}
		t.Skip(err)
	}
	for name, pattern := range map[string]string{"qwen": tokenizer.Qwen, "llama3": tokenizer.Cl100k, "o200k": tokenizer.O200k} {
		t.Run(name, func(t *testing.T) {
			raw := file(t, pattern)
			pure, err := tokenizer.FromJSON(raw)
			if err != nil {
				t.Fatal(err)
			}
			tok, err := hf.FromJSON(raw)
			if err != nil {
				t.Fatal(err)
			}
			tokenizertest.Run(t, tok, tokenizertest.Traits{Special: "<|end|>", NoNUL: true, Foreign: 1 << 30, Like: pure})
		})
	}
}

// TestUnigram: what the pure Go reader refuses, the library reads.
func TestUnigram(t *testing.T) {
	if !hf.Available {
		t.Skip(hf.ErrAbsent)
	}
	raw := []byte(`{"version": "1.0", "added_tokens": [], "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [["<unk>", 0], ["a", -1], ["b", -1], ["ab", -0.5]]}}`)
	if _, err := tokenizer.FromJSON(raw); !errors.Is(err, tokenizer.ErrUnsupported) {
		t.Errorf("pure Go: %v", err)
	}
	tok, err := hf.FromJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := tok.Encode("abb", tokenizer.Options{}); err != nil || fmt.Sprint(ids) != "[3 2]" {
		t.Errorf("%v, %v", ids, err)
	}
	for _, bad := range []string{"", "{", `{"model": 1}`, `{"model": {"type": "None", "vocab": {}}}`} {
		if _, err := hf.FromJSON([]byte(bad)); !errors.Is(err, tokenizer.ErrMalformed) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := hf.Load("no/such/file"); err == nil {
		t.Error("a missing file was read")
	}
}

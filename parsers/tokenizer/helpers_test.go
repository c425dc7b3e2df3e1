package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"hermes/parsers/tokenizer"
)

type obj = map[string]any

const llama3 = tokenizer.Cl100k

var nasty = []string{"", " ", "Hello, world!  It's 2024; we'LL see.\n\n", "naïve café\u0301 straße", "你好，世界 日本語カタカナ", "🙂👨‍👩‍👧🇩🇪👍🏽",
	"def f(x):\n\t\treturn x  # ok\r\n", "\x00\x7f\u00a0\u2003\u200b\ufeff", "1234567 3.14 Ⅷ½", strings.Repeat(" ", 40) + "x", "<|end|>a<|end|>",
	strings.Repeat("e\u0301\u0316", 30), "▁▁ ▁x", "\U0001d400\U00016d40\u0897"}

// byteLevel is a tokenizer.json whose merges come from joining the words of corpus from the left.
func byteLevel(pattern string, corpus []string, extra obj) []byte {
	vocab, merges := map[string]int{}, [][2]string{}
	for b := range 256 {
		vocab[tokenizer.ByteSpelling(byte(b))] = b
	}
	for _, w := range corpus {
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
	pre := []obj{{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": pattern == ""}}
	if pattern != "" {
		pre = append([]obj{{"type": "Split", "pattern": obj{"Regex": pattern}, "behavior": "Isolated", "invert": false}}, pre...)
	}
	file := obj{
		"version":       "1.0",
		"pre_tokenizer": obj{"type": "Sequence", "pretokenizers": pre},
		"decoder":       obj{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
		"model":         obj{"type": "BPE", "vocab": vocab, "merges": merges},
	}
	maps.Copy(file, extra)
	b, err := json.Marshal(file)
	if err != nil {
		panic(err)
	}
	return b
}

// corpusWords are made-up words, most of them short, with a space in front of most.
func corpusWords(n int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[string]bool{}
	for len(seen) < n {
		var b strings.Builder
		if r.IntN(4) > 0 {
			b.WriteByte(' ')
		}
		for range 2 + r.IntN(6) {
			b.WriteString([]string{"e", "t", "a", "o", "in", "s", "r", "th", "ion", "ing", "m", "é", "世"}[r.IntN(13)])
		}
		seen[b.String()] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

func from(t testing.TB, b []byte) tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.FromJSON(b)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func special(id int, text string, flags ...string) obj {
	o := obj{"id": id, "content": text, "special": true, "normalized": false}
	for _, f := range flags {
		o[strings.TrimPrefix(f, "!")] = !strings.HasPrefix(f, "!")
	}
	return o
}

func kinds(t testing.TB) map[string]tokenizer.Tokenizer {
	words := corpusWords(300)
	out := map[string]tokenizer.Tokenizer{}
	for name, p := range map[string]string{"gpt2": "", "llama3": llama3, "qwen": tokenizer.Qwen, "o200k": tokenizer.O200k, "kimi": tokenizer.Kimi} {
		size := len(vocabOf(t, byteLevel(p, words, nil)))
		out[name] = from(t, byteLevel(p, words, obj{"added_tokens": []obj{special(size, "<|end|>")}}))
	}
	out["fallback"] = from(t, fallback())
	return out
}

func vocabOf(t testing.TB, b []byte) map[string]int {
	var f struct {
		Model struct{ Vocab map[string]int }
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	return f.Model.Vocab
}

// fallback is a tokenizer in the way of Llama 2.
func fallback() []byte {
	vocab := map[string]int{"<unk>": 0, "<s>": 1, "</s>": 2}
	for b := range 256 {
		vocab[fmt.Sprintf("<0x%02X>", b)] = 3 + b
	}
	for _, s := range []string{"▁", "h", "e", "l", "o", "he", "ll", "hell", "hello", "▁hello", "▁▁"} {
		vocab[s] = len(vocab)
	}
	b, _ := json.Marshal(obj{
		"added_tokens": []obj{special(1, "<s>"), special(2, "</s>")},
		"normalizer": obj{
			"type":        "Sequence",
			"normalizers": []obj{{"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": obj{"String": " "}, "content": "▁"}},
		},
		"post_processor": obj{
			"type":           "TemplateProcessing",
			"single":         []obj{{"SpecialToken": obj{"id": "<s>", "type_id": 0}}, {"Sequence": obj{"id": "A", "type_id": 0}}},
			"special_tokens": obj{"<s>": obj{"id": "<s>", "ids": []int{1}, "tokens": []string{"<s>"}}},
		},
		"decoder": obj{
			"type": "Sequence",
			"decoders": []obj{{"type": "Replace", "pattern": obj{"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
				{"type": "Strip", "content": " ", "start": 1, "stop": 0}},
		},
		"model": obj{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": vocab,
			"merges": []string{"h e", "l l", "he ll", "hell o", "▁ hello", "▁ ▁"}}})
	return b
}

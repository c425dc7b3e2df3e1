package words_test

import (
	"testing"

	"hermes/parsers/tokenizer/tokenizertest"
	"hermes/parsers/tokenizer/words"
)

func TestConformance(t *testing.T) {
	tok, err := words.New([]string{"Hello", " world", "ll", "世界"}, []string{"<|end|>", "<|call|>"})
	if err != nil {
		t.Fatal(err)
	}
	tokenizertest.Run(t, tok, tokenizertest.Traits{Special: "<|end|>", Foreign: 100_000})
}

func TestNewRefuses(t *testing.T) {
	for _, list := range [][]string{{"a"}, {""}, {"ab", "ab"}} {
		if _, err := words.New(list, nil); err == nil {
			t.Errorf("%q was taken", list)
		}
	}
}

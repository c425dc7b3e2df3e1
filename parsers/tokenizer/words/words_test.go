package words_test

import (
	"slices"
	"testing"

	"hermes/parsers/tokenizer"
	"hermes/parsers/tokenizer/words"
	"hermes/trajectory"
)

func TestWords(t *testing.T) {
	w, err := words.New([]string{"<|end|>"}, []string{"hello", " world"})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := w.Encode("hello world!<|end|>", tokenizer.Options{Special: true})
	if want := []trajectory.Token{257, 258, '!', 256}; err != nil || !slices.Equal(ids, want) {
		t.Fatalf("%v, %v; want %v", ids, err, want)
	}
	if ids, _ := w.Encode("<|end|>", tokenizer.Options{}); len(ids) != 7 {
		t.Errorf("a special token's spelling in text became %v", ids)
	}
	if text, err := w.Decode(ids); err != nil || text != "hello world!<|end|>" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := words.New([]string{"a"}, []string{"b", "b"}); err == nil {
		t.Error("a word twice was accepted")
	}
}

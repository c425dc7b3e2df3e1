package tokenizer_test

import (
	"testing"

	"hermes/parsers/tokenizer"
	"hermes/parsers/tokenizer/tokenizertest"
	"hermes/trajectory"
)

func TestConformance(t *testing.T) {
	for name, tok := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			tr := tokenizertest.Traits{Special: "<|end|>", Foreign: 1 << 30}
			if name == "fallback" {
				// It normalizes blanks and has no word for ▁ as a letter.
				tr.Special, tr.Lossy = "</s>", true
			}
			tokenizertest.Run(t, tok, tr)
		})
	}
}

// TestWindow: a stream over a whole decoder gives what the built-in one gives.
func TestWindow(t *testing.T) {
	for name, tok := range kinds(t) {
		for _, text := range append(nasty, tokenizertest.Texts()...) {
			ids, err := tok.Encode(text, tokenizer.Options{Special: true})
			if err != nil {
				t.Fatal(err)
			}
			calls := 0
			s, got := tokenizer.NewStream(func(ids []trajectory.Token) (string, error) {
				calls += len(ids)
				return tok.Decode(ids)
			}), ""
			for _, id := range ids {
				part, err := s.Push(id)
				if err != nil {
					t.Fatalf("%s: %q: %v", name, text, err)
				}
				got += part
			}
			want, err := tok.Decode(ids)
			got += s.Finish()
			if err != nil || got != want {
				t.Errorf("%s: %q, want %q (%v)", name, got, want, err)
			}
			if most := 64 * (len(ids) + 1); calls > most && len(ids) > 1000 {
				t.Errorf("%s: %d tokens decoded for %d", name, calls, len(ids))
			}
		}
	}
}

// Package tokenizertest is the contract of a tokenizer as a suite of tests: the pure Go
// one, a server's, the bound library and the one for tests all run it.
package tokenizertest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

// Traits say what a tokenizer may leave out. The zero value is the whole contract for a
// tokenizer that loses nothing.
type Traits struct {
	Special string           // the spelling of a special token; empty: it has none
	Lossy   bool             // decoding does not give every text back
	NoNUL   bool             // texts with a NUL byte are refused
	Always  bool             // special tokens are always recognised: Options.Special false is refused where one is spelled
	Foreign trajectory.Token // an id outside the vocabulary
	Loose   bool             // such an id is no error
	Like    tokenizer.Coder  // one whose ids must be the same; may be nil
	Texts   []string         // further texts
}

// Texts are what the suite encodes: scripts, marks, blanks, control characters, emoji.
func Texts() []string {
	return []string{"", " ", "Hello, world!  It's 2024; we'LL see.\n\n", "naïve café\u0301 straße", "你好，世界 日本語カタカナ", "🙂👨‍👩‍👧🇩🇪👍🏽",
		"def f(x):\n\t\treturn x  # ok\r\n", "a\x00b\x7f\u00a0\u2003\u200b\ufeff", "1234567 3.14 Ⅷ½", strings.Repeat(" ", 40) + "x",
		strings.Repeat("e\u0301\u0316", 30), "▁▁ ▁x", "\U0001d400\U00016d40\u0897", "مرحبا بالعالم שלום", "नमस्ते दुनिया", strings.Repeat("long text ", 200)}
}

// Run checks a tokenizer against the contract.
func Run(t *testing.T, tok tokenizer.Coder, tr Traits) {
	texts := slices.Concat(Texts(), tr.Texts)
	if tr.NoNUL {
		t.Run("NUL is refused, not cut", func(t *testing.T) {
			if ids, err := tok.Encode("a\x00b", tokenizer.Options{}); !errors.Is(err, tokenizer.ErrUnsupported) {
				t.Errorf("%v, %v", ids, err)
			}
		})
		texts = slices.DeleteFunc(texts, func(s string) bool { return strings.Contains(s, "\x00") })
	}
	t.Run("round trip", func(t *testing.T) { roundTrip(t, tok, tr, texts) })
	t.Run("stream", func(t *testing.T) { stream(t, tok, texts) })
	t.Run("concurrent", func(t *testing.T) { concurrent(t, tok, texts) })
	t.Run("special", func(t *testing.T) { special(t, tok, tr) })
	t.Run("unknown id", func(t *testing.T) {
		if _, err := tok.Decode([]trajectory.Token{tr.Foreign}); !tr.Loose && !errors.Is(err, tokenizer.ErrUnknownID) {
			t.Errorf("id %d: %v", tr.Foreign, err)
		}
	})
	if whole, ok := tok.(tokenizer.Tokenizer); ok {
		t.Run("vocabulary", func(t *testing.T) { vocabulary(t, whole, tr, texts) })
	}
	if tr.Like != nil {
		t.Run("same ids", func(t *testing.T) { same(t, tok, tr, texts) })
	}
}

func encode(t *testing.T, tok tokenizer.Coder, text string, o tokenizer.Options) []trajectory.Token {
	t.Helper()
	ids, err := tok.Encode(text, o)
	if err != nil {
		t.Fatalf("encode %.100q: %v", text, err)
	}
	return ids
}

func decode(t *testing.T, tok tokenizer.Coder, ids []trajectory.Token) string {
	t.Helper()
	text, err := tok.Decode(ids)
	if err != nil {
		t.Fatalf("decode %v: %v", ids, err)
	}
	return text
}

func roundTrip(t *testing.T, tok tokenizer.Coder, tr Traits, texts []string) {
	for _, text := range texts {
		ids := encode(t, tok, text, tokenizer.Options{})
		if text == "" && len(ids) != 0 {
			t.Errorf("no text gives %v", ids)
		}
		if got := decode(t, tok, ids); !tr.Lossy && got != text {
			t.Errorf("%q came back as %q (%v)", text, got, ids)
		}
		with := encode(t, tok, text, tokenizer.Options{Add: true})
		if !contains(with, ids) {
			t.Errorf("%q: with Add %v, which does not hold %v", text, with, ids)
		}
	}
}

func contains(all, part []trajectory.Token) bool {
	for i := 0; i+len(part) <= len(all); i++ {
		if slices.Equal(all[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

func stream(t *testing.T, tok tokenizer.Coder, texts []string) {
	for _, text := range texts {
		ids := encode(t, tok, text, tokenizer.Options{})
		s, got := tok.Stream(tokenizer.StreamOptions{}), ""
		for _, id := range ids {
			part, err := s.Push(id)
			if err != nil {
				t.Fatalf("%q, id %d: %v", text, id, err)
			}
			if !utf8.ValidString(part) || strings.Contains(part, "\uFFFD") && !strings.Contains(text, "\uFFFD") {
				t.Errorf("%q: half a character, %q", text, part)
			}
			got += part
		}
		got += s.Finish()
		if got != decode(t, tok, ids) {
			t.Errorf("streamed %q, whole %q", got, decode(t, tok, ids))
		}
	}
}

func concurrent(t *testing.T, tok tokenizer.Coder, texts []string) {
	want := make([][]trajectory.Token, len(texts))
	for i, text := range texts {
		want[i] = encode(t, tok, text, tokenizer.Options{})
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i, text := range texts {
				if ids, err := tok.Encode(text, tokenizer.Options{}); err != nil || !slices.Equal(ids, want[i]) {
					t.Errorf("%.60q: %v, %v", text, ids, err)
				}
			}
		})
	}
	wg.Wait()
}

func special(t *testing.T, tok tokenizer.Coder, tr Traits) {
	if tr.Special == "" {
		t.Skip("this tokenizer has no special tokens")
	}
	text := "a" + tr.Special + "b"
	a, b := encode(t, tok, "a", tokenizer.Options{}), encode(t, tok, "b", tokenizer.Options{})
	as := encode(t, tok, text, tokenizer.Options{Special: true})
	if !tr.Lossy && len(as) != len(a)+len(b)+1 {
		t.Errorf("%q as a token: %v", text, as)
	}
	plain, err := tok.Encode(text, tokenizer.Options{})
	if tr.Always {
		if !errors.Is(err, tokenizer.ErrUnsupported) {
			t.Errorf("%q as text: %v, %v", text, plain, err)
		}
	} else if err != nil || slices.Equal(plain, as) || !tr.Lossy && decode(t, tok, plain) != text {
		t.Errorf("%q as text: %v, %v", text, plain, err)
	}
	if got := decode(t, tok, as); !strings.Contains(got, tr.Special) {
		t.Errorf("decoding lost the special token: %q", got)
	}
	s, got := tok.Stream(tokenizer.StreamOptions{SkipSpecial: true}), ""
	for _, id := range as {
		part, err := s.Push(id)
		if err != nil {
			t.Fatal(err)
		}
		got += part
	}
	got += s.Finish()
	if strings.Contains(got, tr.Special) {
		t.Errorf("skipped special tokens are still there: %q", got)
	}
}

func vocabulary(t *testing.T, tok tokenizer.Tokenizer, tr Traits, texts []string) {
	for _, text := range texts {
		for _, id := range encode(t, tok, text, tokenizer.Options{}) {
			spelling, ok := tok.Token(id)
			if back, there := tok.ID(spelling); !ok || !there || back != id || int(id) >= tok.Size() {
				t.Fatalf("id %d of %d is %q (%v), which is id %d (%v)", id, tok.Size(), spelling, ok, back, there)
			}
		}
	}
	found := tr.Special == ""
	for _, s := range tok.Specials() {
		spelling, ok := tok.Token(s.ID)
		if !ok || spelling != s.Text {
			t.Errorf("special %+v is %q (%v)", s, spelling, ok)
		}
		found = found || s.Text == tr.Special && s.Special
	}
	if !found {
		t.Errorf("%q is not listed: %+v", tr.Special, tok.Specials())
	}
	if _, ok := tok.Token(-1); ok {
		t.Error("id -1 has a spelling")
	}
	if _, ok := tok.Token(trajectory.Token(tok.Size())); ok {
		t.Errorf("id %d has a spelling", tok.Size())
	}
}

func same(t *testing.T, tok tokenizer.Coder, tr Traits, texts []string) {
	for _, text := range texts {
		for _, o := range []tokenizer.Options{{}, {Add: true}, {Special: true}, {Special: true, Add: true}} {
			got, err := tok.Encode(text, o)
			if errors.Is(err, tokenizer.ErrUnsupported) {
				continue
			}
			want, err2 := tr.Like.Encode(text, o)
			if err != nil || err2 != nil || !slices.Equal(got, want) {
				t.Errorf("%.80q %+v: %v (%v), want %v (%v)", text, o, got, err, want, err2)
			}
		}
	}
}

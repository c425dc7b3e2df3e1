package tokenizer_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

// A file is refused, or what it reads works: ids are in the vocabulary and decode.
func FuzzLoad(f *testing.F) {
	f.Add(byteLevel(llama3, []string{"hello"}, obj{"added_tokens": []obj{special(260, "<e>", "lstrip")}}))
	f.Add(fallback())
	f.Add([]byte("\n\x0a\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02\n\x08\n\x03\xe2\x96\x81\x15\x00\x00\x00\x00\x12\x02\x18\x02"))
	f.Add([]byte("IQ== 0\nIg== 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, load := range []func([]byte) (tokenizer.Tokenizer, error){tokenizer.FromJSON, tokenizer.FromSentencePiece,
			func(b []byte) (tokenizer.Tokenizer, error) {
				return tokenizer.FromTiktoken(b, tokenizer.TiktokenOptions{Pattern: llama3})
			}} {
			tok, err := load(b)
			if err != nil {
				continue
			}
			ids, err := tok.Encode("Hello  wörld<e>!\n 12345 \xff", tokenizer.Options{Special: true, Add: true})
			if err != nil {
				continue
			}
			for _, id := range ids {
				if int(id) >= tok.Size() || id < 0 {
					t.Fatalf("id %d of %d", id, tok.Size())
				}
			}
			if _, err := tok.Decode(ids); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Byte-level tokenizers give back every text; a stream gives the same as the whole.
func FuzzRoundTrip(f *testing.F) {
	all := kinds(f)
	for _, s := range nasty {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, tok := range all {
			ids, err := tok.Encode(text, tokenizer.Options{})
			if err != nil {
				t.Fatal(err)
			}
			back, err := tok.Decode(ids)
			if err != nil || utf8.ValidString(text) && name != "fallback" && back != text {
				t.Fatalf("%s: %q became %q, %v", name, text, back, err)
			}
			if got := stream(t, tok, ids); got != back {
				t.Fatalf("%s: stream %q, whole %q", name, got, back)
			}
		}
	})
}

// Any ids decode in parts as they do whole.
func FuzzStream(f *testing.F) {
	all := kinds(f)
	f.Add([]byte("\xf0\x9f\x99\x82\xe4\xbd\x00\x01\x02"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, tok := range all {
			var ids []trajectory.Token
			for _, b := range raw {
				ids = append(ids, trajectory.Token(int(b)*7%tok.Size()))
			}
			whole, err := tok.Decode(ids)
			if err != nil {
				continue
			}
			if got := stream(t, tok, ids); got != whole || !utf8.ValidString(got) {
				t.Fatalf("%s %v: stream %q, whole %q", name, ids, got, whole)
			}
		}
	})
}

func stream(t *testing.T, tok tokenizer.Tokenizer, ids []trajectory.Token) string {
	var b strings.Builder
	s := tok.Stream(tokenizer.StreamOptions{})
	for _, id := range ids {
		part, err := s.Push(id)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(part)
	}
	return b.String() + s.Finish()
}

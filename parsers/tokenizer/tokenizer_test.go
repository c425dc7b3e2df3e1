package tokenizer_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

func TestRoundTripAndStream(t *testing.T) {
	for name, tok := range kinds(t) {
		for _, text := range nasty {
			ids, err := tok.Encode(text, tokenizer.Options{Special: true})
			if err != nil {
				t.Fatalf("%s %q: %v", name, text, err)
			}
			back, err := tok.Decode(ids)
			if want := strings.ReplaceAll(text, "▁", " "); err != nil || back != text && !(name == "fallback" && back == want) {
				t.Errorf("%s %q came back as %q, %v", name, text, back, err)
			}
			streamed(t, name, tok, ids, back)
		}
	}
}

// streamed cuts a stream behind every token: no part is half a character, all parts are the whole.
func streamed(t *testing.T, name string, tok tokenizer.Tokenizer, ids []trajectory.Token, want string) {
	t.Helper()
	for cut := range len(ids) + 1 {
		s, got := tok.Stream(tokenizer.StreamOptions{}), ""
		for _, id := range ids[:cut] {
			part, err := s.Push(id)
			if err != nil || !utf8.ValidString(part) || strings.ContainsRune(part, utf8.RuneError) {
				t.Fatalf("%s: part %q, %v", name, part, err)
			}
			got += part
			if !strings.HasPrefix(want, got) {
				t.Fatalf("%s: %q is no beginning of %q", name, got, want)
			}
		}
		got += s.Finish()
		if cut == len(ids) && got != want {
			t.Fatalf("%s: stream %q, whole %q", name, got, want)
		}
	}
}

func TestStreamBytes(t *testing.T) {
	tok := from(t, byteLevel("", nil, nil))
	s := tok.Stream(tokenizer.StreamOptions{})
	var parts []string
	for _, b := range []byte("é🙂\xf0\x9fx\xe4\xbd") {
		p, err := s.Push(trajectory.Token(b))
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	parts = append(parts, s.Finish())
	if want := []string{"", "é", "", "", "", "🙂", "", "", "\uFFFDx", "", "", "\uFFFD"}; !slices.Equal(parts, want) {
		t.Errorf("%q, want %q", parts, want)
	}
	if _, err := tok.Decode([]trajectory.Token{65, 99999}); !errors.Is(err, tokenizer.ErrUnknownID) || !strings.Contains(err.Error(), "99999") {
		t.Errorf("id outside: %v", err)
	}
	if _, err := tok.Decode([]trajectory.Token{-1}); !errors.Is(err, tokenizer.ErrUnknownID) {
		t.Errorf("negative id: %v", err)
	}
}

// The ids follow from the file by hand; TestOracle compares the same kind with the reference.
func TestFallbackVectors(t *testing.T) {
	tok := from(t, fallback())
	for text, want := range map[string]string{
		"hello": "▁hello", " hello": "▁ ▁hello", "hé": "▁ h <0xC3> <0xA9>", "a<s>hello": "▁ <0x61> <s> ▁hello",
	} {
		ids, err := tok.Encode(text, tokenizer.Options{Special: true})
		got := strings.Join(spellings(tok, ids), " ")
		if err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
	if ids, _ := tok.Encode("", tokenizer.Options{Add: true}); !slices.Equal(ids, []trajectory.Token{1}) {
		t.Errorf("template: %v", ids)
	}
}

func TestAddedFlags(t *testing.T) {
	added := []obj{special(256, "<l>", "lstrip"), special(257, "<r>", "rstrip"), special(258, "word", "single_word", "!special"),
		special(259, "<|a|>"), special(260, "<|a"), special(261, "ABC", "normalized", "!special")}
	tok := from(t, byteLevel("", nil, obj{"added_tokens": added, "normalizer": obj{"type": "Lowercase"}}))
	for _, tt := range []struct{ text, want string }{
		{"x \n<l> y", "x <l> Ġ y"}, {"x <r> \ty", "x Ġ <r> y"}, {"words word", "w o r d s Ġ word"}, {"<|a|><|a>", "<|a|> <|a >"},
		{"abc AbC", "ABC Ġ ABC"},
	} {
		ids, err := tok.Encode(tt.text, tokenizer.Options{Special: true})
		if got := strings.Join(spellings(tok, ids), " "); err != nil || got != tt.want {
			t.Errorf("%q: %s, %v; want %s", tt.text, got, err, tt.want)
		}
	}
	ids, _ := tok.Encode("<l>word", tokenizer.Options{})
	if got := strings.Join(spellings(tok, ids), " "); got != "< l > word" {
		t.Errorf("without Special: %s", got)
	}
	ids, err := tok.Encode("word abc", tokenizer.Options{Text: map[string]bool{"word": true, "ABC": true, "<l>": true}})
	if got := strings.Join(spellings(tok, ids), " "); err != nil || got != "w o r d Ġ a b c" {
		t.Errorf("words that are to stay text: %s, %v", got, err)
	}
	if id, ok := tok.ID("<|a|>"); !ok || id != 259 || tok.Size() != 262 || len(tok.Specials()) != 6 {
		t.Errorf("look-ups: %d %v %d", id, ok, tok.Size())
	}
}

func TestLongWordIsNotQuadratic(t *testing.T) {
	tok := from(t, byteLevel(llama3, []string{"aaaaaaaaaaaaaaaa", "abababab"}, nil))
	for _, unit := range []string{"a", "ab", "世", " ", "\n", "!"} {
		text := strings.Repeat(unit, 1<<20/len(unit))
		ids, err := tok.Encode(text, tokenizer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if back, err := tok.Decode(ids); err != nil || back != text {
			t.Fatalf("%q: %v", unit, err)
		}
	}
}

func TestManyReaders(t *testing.T) {
	tok := kinds(t)["llama3"]
	want, _ := tok.Encode(strings.Join(nasty, " "), tokenizer.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got, err := tok.Encode(strings.Join(nasty, " "), tokenizer.Options{}); err != nil || !slices.Equal(got, want) {
					t.Errorf("differs: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestRefusals(t *testing.T) {
	with := func(key string, v any) []byte { return byteLevel("", nil, obj{key: v}) }
	blow := func(n int) obj {
		return obj{"type": "Replace", "pattern": obj{"String": "a"}, "content": strings.Repeat("a", n)}
	}
	for name, tt := range map[string]struct {
		file []byte
		says string
		is   error
	}{
		"WordPiece":    {with("model", obj{"type": "WordPiece", "vocab": obj{"a": 0}}), `"WordPiece"`, tokenizer.ErrUnsupported},
		"Unigram":      {with("model", obj{"type": "Unigram", "vocab": []any{}}), `"Unigram"`, tokenizer.ErrUnsupported},
		"WordLevel":    {with("model", obj{"type": "WordLevel", "vocab": obj{"a": 0}}), `"WordLevel"`, tokenizer.ErrUnsupported},
		"normalizer":   {with("normalizer", obj{"type": "Precompiled"}), `"Precompiled"`, tokenizer.ErrUnsupported},
		"pretokenizer": {with("pre_tokenizer", obj{"type": "BertPreTokenizer"}), `"BertPreTokenizer"`, tokenizer.ErrUnsupported},
		"decoder":      {with("decoder", obj{"type": "CTC"}), `"CTC"`, tokenizer.ErrUnsupported},
		"post":         {with("post_processor", obj{"type": "Other"}), `"Other"`, tokenizer.ErrUnsupported},
		"regex":        {byteLevel(`(a)\1`, nil, nil), `\1`, tokenizer.ErrUnsupported},
		"property":     {byteLevel(`\p{Emoji}`, nil, nil), `Emoji`, tokenizer.ErrUnsupported},
		"dropout":      {with("model", obj{"type": "BPE", "dropout": 0.1, "vocab": obj{"a": 0}, "merges": []any{}}), "dropout", tokenizer.ErrUnsupported},
		"merge":        {with("model", obj{"type": "BPE", "vocab": obj{"a": 0}, "merges": []string{"a b"}}), "merge 0", tokenizer.ErrMalformed},
		"huge id":      {with("model", obj{"type": "BPE", "vocab": obj{"a": 4000000}, "merges": []string{}}), "ids up to", tokenizer.ErrMalformed},
		"double id":    {with("model", obj{"type": "BPE", "vocab": obj{"a": 0, "b": 0}, "merges": []string{}}), "both", tokenizer.ErrMalformed},
		"added id":     {with("added_tokens", []obj{special(3, "<x>")}), "id 3", tokenizer.ErrMalformed},
		"cut off":      {byteLevel("", nil, nil)[:500], "", tokenizer.ErrMalformed},
		"growth":       {with("normalizer", obj{"type": "Sequence", "normalizers": []obj{blow(9), blow(9)}}), "more than 64 bytes", tokenizer.ErrUnsupported},
		"regex growth": {
			with("normalizer", obj{"type": "Replace", "pattern": obj{"Regex": ""}, "content": strings.Repeat("a", 99)}),
			"more than 64 bytes",
			tokenizer.ErrUnsupported,
		},
		"prepending": {with("normalizer", obj{"type": "Prepend", "prepend": strings.Repeat("a", 99)}), "more than 64 bytes", tokenizer.ErrUnsupported},
		"decoded":    {with("decoder", obj{"type": "Sequence", "decoders": []obj{blow(9), blow(9)}}), "more than 64 bytes", tokenizer.ErrUnsupported},
		"deep":       {[]byte(`{"version":` + strings.Repeat("[", 1e6)), "deep", tokenizer.ErrMalformed},
	} {
		_, err := tokenizer.FromJSON(tt.file)
		if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTiktoken(t *testing.T) {
	var b bytes.Buffer
	for i := range 256 {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	for i, w := range []string{"ab", "bc", "abc", " x"} {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(w)), 256+i)
	}
	tok, err := tokenizer.FromTiktoken(b.Bytes(), tokenizer.TiktokenOptions{
		Pattern:  llama3,
		Specials: []tokenizer.Special{{ID: 300, Text: "<e>", Special: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tok.Encode("abc abcb x<e>", tokenizer.Options{Special: true})
	if want := []trajectory.Token{258, 32, 258, 98, 259, 300}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("%v, %v; want %v", ids, err, want)
	}
	file := filepath.Join(t.TempDir(), "x.tiktoken")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tokenizer.Load(file); !errors.Is(err, tokenizer.ErrUnsupported) || !strings.Contains(err.Error(), "260 ranks") {
		t.Errorf("unknown ranks: %v", err)
	}
	if _, err := tokenizer.Load(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
		t.Errorf("empty directory: %v", err)
	}
}

func TestServeLines(t *testing.T) {
	tok := from(t, byteLevel("", nil, obj{"added_tokens": []obj{special(256, "<e>")}}))
	in := `{"id":1,"text":"aé<e>","special":true}` + "\n\n" + `{"id":"b","text":"<e>"}` + "\nnonsense\n" + `{"id":2,"ids":[97,256]}` + "\n" +
		`{"id":3,"ids":[97,256],"special":false}` + "\n" + `{"id":4,"ids":[999]}` + "\n" + `{"id":5}` + "\n" + `{"id":6,"text":""}`
	var out strings.Builder
	if err := tokenizer.ServeLines(tok, strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"id":1,"ids":[97,195,169,256]}`, `{"id":"b","ids":[60,101,62]}`, `{"id":null,"error":`, `{"id":2,"text":"a<e>"}`, `{"id":3,"text":"a"}`,
		`{"id":4,"error":`, `{"id":5,"error":`, `{"id":6,"ids":[]}`}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("line %d of\n%s\nwant %q", i, out.String(), want)
		}
	}
}

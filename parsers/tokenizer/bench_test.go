package tokenizer_test

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"hermes/parsers/tokenizer"
)

// prose is text of made-up words, numbers and punctuation with the usual skew.
func prose(size int) string {
	r, words := rand.New(rand.NewPCG(3, 4)), corpusWords(4000)
	var b strings.Builder
	for b.Len() < size {
		switch k := r.IntN(20); {
		case k == 0:
			b.WriteString(", ")
		case k == 1:
			b.WriteString(".\n\n")
		case k == 2:
			b.WriteString(" 2024")
		default:
			b.WriteString(words[int(float64(len(words))*r.Float64()*r.Float64()*r.Float64())])
		}
	}
	return b.String()
}

func BenchmarkEncode(b *testing.B) {
	text, words := prose(1<<20), corpusWords(4000)
	files := map[string][]byte{"fallback": fallback()}
	for name, p := range map[string]string{"gpt2": "", "llama3": llama3, "qwen": tokenizer.Qwen, "o200k": tokenizer.O200k, "kimi": tokenizer.Kimi,
		"unknown": `\w+(?=\s)|[^\s\w]|\w+| ?\s`} {
		files[name] = byteLevel(p, words, nil)
	}
	files["qwen-nfc"] = byteLevel(tokenizer.Qwen, words, obj{"normalizer": obj{"type": "NFC"}})
	files["deepseek3"] = byteLevel("", words, obj{"pre_tokenizer": obj{"type": "Sequence", "pretokenizers": []obj{
		{"type": "Split", "pattern": obj{"Regex": `\p{N}{1,3}`}, "behavior": "Isolated"}, {"type": "Split", "pattern": obj{"Regex": `[一-龥぀-ゟ゠-ヿ]+`}, "behavior": "Isolated"},
		{"type": "Split", "pattern": obj{"Regex": `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`}, "behavior": "Isolated"},
		{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}}}})
	for name, file := range files {
		b.Run(name, func(b *testing.B) {
			tok, n := from(b, file), 0
			b.ReportAllocs()
			for b.Loop() {
				ids, err := tok.Encode(text, tokenizer.Options{})
				if err != nil {
					b.Fatal(err)
				}
				n += len(ids)
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := from(b, byteLevel(llama3, corpusWords(4000), nil))
	ids, _ := tok.Encode(prose(1<<18), tokenizer.Options{})
	n := 0
	for b.Loop() {
		if _, err := tok.Decode(ids); err != nil {
			b.Fatal(err)
		}
		n += len(ids)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mtokens/s")
}

func BenchmarkLoad128k(b *testing.B) {
	file := byteLevel(llama3, corpusWords(75_000), nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tok := from(b, file)
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		from(b, file)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	b.ReportMetric(float64(tok.Size()), "ids")
	b.ReportMetric(float64(len(file))/1e6, "fileMB")
}

package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

// cpu is the time that this process has spent on processors, the collector's
// included: what a text costs, however busy the machine is.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// metaspaced is a vocabulary of words with ▁ for the space, cut at it or not.
func metaspaced(words []string, cut bool) []byte {
	vocab, merges := map[string]int{"<unk>": 0}, [][2]string{}
	add := func(s string) bool {
		_, ok := vocab[s]
		if !ok {
			vocab[s] = len(vocab)
		}
		return !ok
	}
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b))
	}
	for _, w := range words {
		chars := strings.Split(strings.ReplaceAll(w, " ", "▁"), "")
		for i, left := 0, ""; i < len(chars); i++ {
			add(chars[i])
			if i > 0 && add(left+chars[i]) {
				merges = append(merges, [2]string{left, chars[i]})
			}
			left += chars[i]
		}
	}
	b, _ := json.Marshal(obj{"pre_tokenizer": obj{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": cut},
		"model": obj{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": vocab, "merges": merges}})
	return b
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
		{"type": "Split", "pattern": obj{"Regex": `\p{N}{1,3}`}, "behavior": "Isolated"},
		{"type": "Split", "pattern": obj{"Regex": `[一-龥぀-ゟ゠-ヿ]+`}, "behavior": "Isolated"},
		{
			"type":     "Split",
			"pattern":  obj{"Regex": `[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_` + "`" + `{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
			"behavior": "Isolated",
		},
		{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}}}})
	files["falcon"] = byteLevel("", words,
		obj{"pre_tokenizer": obj{"type": "Sequence", "pretokenizers": []obj{{"type": "Punctuation", "behavior": "Contiguous"},
			{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}, {"type": "Digits", "individual_digits": false},
			{"type": "Split", "pattern": obj{"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated"}}}})
	files["metaspace"] = metaspaced(words, true)
	files["metaspace-uncut"] = metaspaced(words, false)
	for name, file := range files {
		b.Run(name, func(b *testing.B) {
			tok, n := from(b, file), 0
			b.ReportAllocs()
			start := cpu(b)
			for b.Loop() {
				ids, err := tok.Encode(text, tokenizer.Options{})
				if err != nil {
					b.Fatal(err)
				}
				n += len(ids)
			}
			b.ReportMetric(float64(n)/(cpu(b)-start).Seconds()/1e6, "Mtokens/cpu-s")
		})
	}
}

// BenchmarkEncode64 encodes on 64 goroutines that share one tokenizer.
func BenchmarkEncode64(b *testing.B) {
	tok, text := from(b, byteLevel(llama3, corpusWords(4000), nil)), prose(1<<16)
	var n atomic.Int64
	b.SetParallelism(max(1, 64/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ids, err := tok.Encode(text, tokenizer.Options{})
			if err != nil {
				b.Error(err)
				return
			}
			n.Add(int64(len(ids)))
		}
	})
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds()/1e6, "Mtokens/s")
}

// measure is the reference library on the same file and text: tokens a second of one core.
const measure = `
import os, sys, time
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer
t, text = Tokenizer.from_file(sys.argv[1]), open(sys.argv[2], encoding="utf-8", newline="").read()
t.encode(text)
n, start = 0, time.process_time()
while time.process_time() - start < 1:
    n += len(t.encode(text).ids)
print(n / (time.process_time() - start) / 1e6)
`

// BenchmarkAgainstLibrary prints the ratio to Hugging Face's library, where ORACLE_PYTHON
// names a Python that has it.
func BenchmarkAgainstLibrary(b *testing.B) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" {
		b.Skip("ORACLE_PYTHON names no Python that has the tokenizers package")
	}
	dir := b.TempDir()
	raw := byteLevel(llama3, corpusWords(4000), nil)
	text := prose(1 << 18)
	file, prose := filepath.Join(dir, "tokenizer.json"), filepath.Join(dir, "text")
	for name, content := range map[string][]byte{file: raw, prose: []byte(text)} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	out, err := exec.Command(python, "-c", measure, file, prose).CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	theirs, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatal(err)
	}
	tok, n := from(b, raw), 0
	start := cpu(b)
	for b.Loop() {
		ids, err := tok.Encode(text, tokenizer.Options{})
		if err != nil {
			b.Fatal(err)
		}
		n += len(ids)
	}
	ours := float64(n) / (cpu(b) - start).Seconds() / 1e6 // theirs is processor time too
	b.ReportMetric(ours, "Mtokens/cpu-s")
	b.ReportMetric(theirs, "theirs")
	b.ReportMetric(ours/theirs, "ratio")
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
	start := cpu(b)
	for b.Loop() {
		from(b, file)
	}
	b.ReportMetric((cpu(b)-start).Seconds()/float64(b.N), "cpu-s/load")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
	b.ReportMetric(float64(tok.Size()), "ids")
	b.ReportMetric(float64(len(file))/1e6, "fileMB")
}

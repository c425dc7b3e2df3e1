package servers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"hermes/trajectory"
)

// sglangText is an answer of n tokens as SGLang writes it.
func sglangText(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var ids, probs []string
	for range n {
		id := r.IntN(150_000)
		ids, probs = append(ids, fmt.Sprint(id)), append(probs, fmt.Sprintf("[%v,%d,null]", -r.ExpFloat64(), id))
	}
	return `{"text":"ok \"so\" \u00e9\n","output_ids":[` + strings.Join(ids,
		",") + `],"meta_info":{"id":"a","finish_reason":{"type":"stop","matched":2},"prompt_tokens":3,` +
		`"completion_tokens":2,"cached_tokens":0,"input_token_logprobs":[],"output_token_logprobs":[` + strings.Join(probs,
		",") + `],"weight_version":"7","e2e_latency":1.25e-1}}`
}

// FuzzScanSGLang: what is read in one walk is what the library reads, and as strictly.
func FuzzScanSGLang(f *testing.F) {
	f.Add(sglangText(3))
	f.Add(strings.Replace(sglangText(3), `"weight_version"`, `"weight_versions":[{"version":"7","start":0,"end":3}],"weight_version"`, 1))
	for _, s := range []string{
		`{}`, `{"output_ids":null}`, `{"output_ids":[]}`, `{"output_ids":[01]}`, `{"output_ids":[1],"OUTPUT_IDS":[2]}`,
		`{"output_ids":[1],"output_ids":[2]}`,
		`{"output_id\u0073":[1]}`, `{"meta_info":{"prompt_tokens":1.0}}`, `{"meta_info":{"prompt_tokens":null}}`, `{"meta_info":null}`, `{"output_ids":[2147483648]}`, `{"output_ids":[-1]}`,
		`{"meta_info":{"output_token_logprobs":[[null,1,"\ud800"],[-1e-7,2],[-1E400,3,null,null],[1e-400,4]]}}`, `{"meta_info":{"output_token_logprobs":[]}}`, `{"meta_info":{"output_token_logprobs":null}}`,
		`{"meta_info":{"output_token_logprobs":[[-0.1234567:9,1]]}}`, `{"meta_info":{"output_token_logprobs":[[-0.12345678:,1]]}}`, `{"meta_info":{"output_token_logprobs":[[-0.123456789012345/7,1]]}}`,
		`{"meta_info":{"output_token_logprobs":[[-.5,1,null]]}}`, `{"meta_info":{"output_token_logprobs":[[-0.5,1,null,]]}}`, `{"meta_info":{"output_token_logprobs":[[-0.5 1]]}}`,
		`{"meta_info":{"finish_reason":{"type":"abort"},"weight_version":{"a":[true,false,1e5]}}}`, `{"x":"` + "\x01" + `"}`, `{"x":"\x"}`, `{"x":{"a":1,}}`, `{"x":[1,]}`, `{"x":tru}`, `{"x":-}`, `{"x":1.}`,
		`{"x":1e}`, `{"a":1}{`, ` { "output_ids" : [ 1 , 2 ] } `, `{"weight_verſion":1}`, `{"x":` + strings.Repeat("[",
			70) + strings.Repeat("]", 70) + `}`, `{"x":{"\u12g4":1}}`, `{"x":{1:1}}`, "{\"x\":\"\xff\"}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := scanSGLang([]byte(text))
		if !ok {
			return
		}
		var want sglangAnswer
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q was read, the library says: %v", text, err)
		}
		if a, b := show(got), show(want); a != b {
			t.Fatalf("%q: %s, the library reads %s", text, a, b)
		}
	})
}

// FuzzScanChatProbs: what is read in one walk is what the library reads, and as strictly.
func FuzzScanChatProbs(f *testing.F) {
	for _, s := range []string{
		`[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[]},{"token_id":7,"token":"token_id:7","logprob":null,"rank":1}]`,
		`[]`, `null`, `[null]`, `[{}]`, `{}`, `[{},]`,
		`[{"token":null,"token_id":null,"top_logprobs":null}]`, `[{"token":7}]`, `[{"token":"token_id:x"}]`, `[{"token":"token_id:-1"}]`, `[{"Token":"token_id:1"}]`, `[{"token_id":1,"token_id":2}]`,
		`[{"token_id":1.5}]`, `[{"token_id":-1}]`, `[{"logprob":-1e400}]`, `[{"logprob":-1e-7}]`, `[{"logprob":"x"}]`, `[{"logprob":-9999.0}]`, `[{"top_logprobs":[{"token":"a"}]}]`, `[{"top_logprobs":{}}]`, ` [ { "logprob" : -1 } ] `,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := scanChatProbs([]byte(text))
		if !ok {
			return
		}
		var want []chatProb
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q was read, the library says: %v", text, err)
		}
		if len(got)+len(want) > 0 && !reflect.DeepEqual([]chatProb(got), want) {
			t.Fatalf("%q: %+v, the library reads %+v", text, got, want)
		}
	})
}

// show tells all of an answer: NaN, which is not equal to itself, too.
func show(a sglangAnswer) string {
	prompt := "nil"
	if a.Meta.Prompt != nil {
		prompt = fmt.Sprint(*a.Meta.Prompt)
	}
	a.Meta.Prompt = nil
	return fmt.Sprintf("%#v %s", a, prompt)
}

// TestScanReadsUsualAnswers: the usual answers are not left to the library.
func TestScanReadsUsualAnswers(t *testing.T) {
	if _, ok := scanSGLang([]byte(sglangText(50))); !ok {
		t.Error("SGLang's own answer was left to the library")
	}
	for _, list := range []string{
		`[{"token":"token_id:7","logprob":-0.5,"bytes":null,"top_logprobs":[]}]`,
		`[{"token_id":7,"logprob":null,"rank":1,"top_logprobs":null}]`,
		`[{"token":"\u00e9","logprob":-1.5e-9,"bytes":[195,169]}]`,
	} {
		if _, ok := scanChatProbs([]byte(list)); !ok {
			t.Errorf("%s was left to the library", list)
		}
	}
}

func BenchmarkReadSGLang(b *testing.B) {
	raw := []byte(sglangText(200))
	b.Run("scan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := scanSGLang(raw); !ok {
				b.Fatal("not read")
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var a sglangAnswer
			if err := json.Unmarshal(raw, &a); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// FuzzAlign: llama.cpp reports log-probs of some tokens, in order. A token gets a log-prob
// exactly where every way to match the reported ones gives it the same.
func FuzzAlign(f *testing.F) {
	f.Add([]byte{1, 2, 3}, []byte{1, 3})
	f.Add([]byte{1, 2, 2, 3}, []byte{1, 2, 3})
	f.Add([]byte{9, 9, 9}, []byte{9, 9, 9})
	f.Add([]byte{1, 2}, []byte{2, 1})
	f.Fuzz(func(t *testing.T, ids, probed []byte) {
		ids, probed = ids[:min(len(ids), 9)], probed[:min(len(probed), 9)]
		if len(probed) == 0 || len(ids) == 0 {
			return
		}
		var a llamacppAnswer
		for _, id := range ids {
			a.IDs = append(a.IDs, trajectory.Token(id%4))
		}
		for k, id := range probed {
			lp := -float32(k + 1)
			a.LogProbs = append(a.LogProbs, llamacppProb{ID: trajectory.Token(id % 4), LogProb: &lp})
		}
		ways := 0
		may := make([]map[int]bool, len(ids)) // which entries a token has in some way; -1: none
		for i := range may {
			may[i] = map[int]bool{}
		}
		for set := range 1 << len(ids) {
			k, fits := 0, true
			for i, id := range a.IDs {
				if set>>i&1 == 1 {
					fits = fits && k < len(probed) && a.LogProbs[k].ID == id
					if !fits {
						break
					}
					k++
				}
			}
			if !fits || k != len(probed) {
				continue
			}
			ways++
			k = 0
			for i := range a.IDs {
				if set>>i&1 == 1 {
					may[i][k] = true
					k++
				} else {
					may[i][-1] = true
				}
			}
		}
		c := Completion{Tokens: a.IDs}
		if err := a.align(&c, Capture{}); (err == nil) != (ways > 0) {
			t.Fatalf("%v %v: %v, and there are %d ways", a.IDs, probed, err, ways)
		}
		if ways == 0 {
			return
		}
		for i := range a.IDs {
			want := float32(0)
			if len(may[i]) == 1 && !may[i][-1] {
				for k := range may[i] {
					want = -float32(k + 1)
				}
			}
			masked := false
			for _, r := range c.Masked {
				masked = masked || i >= r.From && i < r.To
			}
			if c.LogProbs[i] != want || masked != (want == 0) {
				t.Fatalf("%v of %v: token %d has %v, masked %v; want %v", probed, a.IDs, i, c.LogProbs[i], masked, want)
			}
		}
	})
}

func BenchmarkReadLlamacpp(b *testing.B) {
	raw := llamacppText(200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readLlamacpp(raw, Capture{}); err != nil {
			b.Fatal(err)
		}
	}
}

// llamacppText is an answer of n tokens as llama.cpp writes it.
func llamacppText(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var ids, probs []string
	for range n {
		id := r.IntN(150_000)
		ids = append(ids, fmt.Sprint(id))
		probs = append(probs,
			fmt.Sprintf(`{"id":%d,"token":"word","bytes":[119,111],"logprob":%v,"top_logprobs":[{"id":%d,"token":"word","bytes":[119,111],"logprob":-0.5}]}`,
				id, -r.ExpFloat64(), id))
	}
	return []byte(`{"index":0,"content":"ok","tokens":[` + strings.Join(ids,
		",") + `],"stop":true,"stop_type":"limit","truncated":false,"tokens_cached":0,"tokens_evaluated":3,"completion_probabilities":[` + strings.Join(probs,
		",") + `]}`)
}

func BenchmarkReadVLLM(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var ids, probs []string
	for range 200 {
		id := r.IntN(150_000)
		ids = append(ids, fmt.Sprint(id))
		probs = append(probs, fmt.Sprintf(`{"token_id":%d,"logprob":%v,"rank":1,"top_logprobs":[]}`, id, -r.ExpFloat64()))
	}
	raw := []byte(`{"request_id":"x","choices":[{"index":0,"logprobs":{"content":[` + strings.Join(probs,
		",") + `]},"finish_reason":"stop","token_ids":[` + strings.Join(ids, ",") + `]}],"prompt_logprobs":null}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readInference(raw, Capture{}); err != nil {
			b.Fatal(err)
		}
	}
}

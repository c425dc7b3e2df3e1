package policy

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// sglangText is an answer of n tokens as SGLang writes it.
func sglangText(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var ids, probs []string
	for range n {
		id := r.IntN(150_000)
		ids, probs = append(ids, fmt.Sprint(id)), append(probs, fmt.Sprintf("[%v,%d,null]", -r.ExpFloat64(), id))
	}
	return `{"text":"ok \"so\" \u00e9\n","output_ids":[` + strings.Join(ids, ",") + `],"meta_info":{"id":"a","finish_reason":{"type":"stop","matched":2},"prompt_tokens":3,` +
		`"completion_tokens":2,"cached_tokens":0,"input_token_logprobs":[],"output_token_logprobs":[` + strings.Join(probs, ",") + `],"weight_version":"7","e2e_latency":1.25e-1}}`
}

// FuzzScanSGLang: what is read in one walk is what the library reads, and as strictly.
func FuzzScanSGLang(f *testing.F) {
	f.Add(sglangText(3))
	for _, s := range []string{`{}`, `{"output_ids":null}`, `{"output_ids":[]}`, `{"output_ids":[01]}`, `{"output_ids":[1],"OUTPUT_IDS":[2]}`, `{"output_ids":[1],"output_ids":[2]}`,
		`{"output_id\u0073":[1]}`, `{"meta_info":{"prompt_tokens":1.0}}`, `{"meta_info":{"prompt_tokens":null}}`, `{"meta_info":null}`, `{"output_ids":[2147483648]}`, `{"output_ids":[-1]}`,
		`{"meta_info":{"output_token_logprobs":[[null,1,"\ud800"],[-1e-7,2],[-1E400,3,null,null],[1e-400,4]]}}`, `{"meta_info":{"output_token_logprobs":[]}}`, `{"meta_info":{"output_token_logprobs":null}}`,
		`{"meta_info":{"output_token_logprobs":[[-.5,1,null]]}}`, `{"meta_info":{"output_token_logprobs":[[-0.5,1,null,]]}}`, `{"meta_info":{"output_token_logprobs":[[-0.5 1]]}}`,
		`{"meta_info":{"finish_reason":{"type":"abort"},"weight_version":{"a":[true,false,1e5]}}}`, `{"x":"` + "\x01" + `"}`, `{"x":"\x"}`, `{"x":{"a":1,}}`, `{"x":[1,]}`, `{"x":tru}`, `{"x":-}`, `{"x":1.}`,
		`{"x":1e}`, `{"a":1}{`, ` { "output_ids" : [ 1 , 2 ] } `, `{"weight_verſion":1}`, `{"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, `{"x":{"\u12g4":1}}`, `{"x":{1:1}}`, "{\"x\":\"\xff\"}"} {
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

package encode_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"hermes/internal/atropos/encode"
	"hermes/trajectory"
)

// TestAppendJSON holds our writer against the library's, on groups of every shape.
func TestAppendJSON(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	logprob := func() encode.Logprob {
		switch rng.IntN(4) {
		case 0:
			return encode.NotSampled
		case 1:
			return encode.Logprob([]float32{
				0, float32(math.Copysign(0, -1)), -1e-6, -9.99e-7, -1e-7, -1e-12, -1.5e21, 1e21, -3.4e38, -1e-45, -0.1,
			}[rng.IntN(11)])
		}
		return encode.Logprob(-float32(rng.ExpFloat64()))
	}
	for range 300 {
		var g encode.ScoredDataGroup
		if rng.IntN(10) > 0 {
			g.Tokens = [][]trajectory.Token{}
			g.Masks = [][]trajectory.Token{}
			g.InferenceLogprobs = [][]encode.Logprob{}
		}
		for range rng.IntN(4) {
			var ids, masks []trajectory.Token
			var probs []encode.Logprob
			for range rng.IntN(40) {
				ids, masks, probs = append(ids,
					trajectory.Token(rng.IntN(200_000))), append(masks, trajectory.Token(rng.IntN(300)-200)), append(probs, logprob())
			}
			for range rng.IntN(3) { // runs of a context, and what lies between
				for range rng.IntN(40) {
					masks, probs = append(masks, encode.Ignored), append(probs, encode.NotSampled)
				}
				if rng.IntN(2) == 0 {
					masks, probs = append(masks, 7), append(probs, -0.5)
				}
			}
			g.Tokens, g.Masks, g.InferenceLogprobs = append(g.Tokens, ids), append(g.Masks, masks), append(g.InferenceLogprobs, probs)
			g.Scores = append(g.Scores, rng.NormFloat64())
			g.Overrides = append(g.Overrides, map[string]any{"raw_score": rng.Float64(), "b": "<&>\u2028"})
		}
		if rng.IntN(2) == 0 {
			id := rng.IntN(9)
			g.EnvID = &id
			g.GroupOverrides = map[string]any{"group_size": 3, "a": nil}
			g.Images = []string{"x"}
			g.Messages, g.GenerationParams = [][]any{{map[string]any{"role": "user", "content": "é \"<b>\""}}}, map[string]any{"top_p": 0.5}
			g.Advantages, g.RefLogprobs = [][]float64{{0.5, 0}}, [][]float64{nil, {-1e-9}}
			g.DistillTokenIDs, g.DistillLogprobs = [][][]int{{{1}, {}}}, [][][]float64{{{-1}, nil}}
		}
		want, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.AppendJSON([]byte("before"))
		if err != nil || string(got) != "before"+string(want) {
			t.Fatalf("%v\ngot  %s\nwant %s", err, got, want)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		g := encode.ScoredDataGroup{InferenceLogprobs: [][]encode.Logprob{{encode.Logprob(bad)}}}
		if _, err := g.AppendJSON(nil); err == nil || !strings.Contains(err.Error(), "unsupported value") {
			t.Errorf("%v: %v", bad, err)
		}
		g = encode.ScoredDataGroup{Scores: []float64{bad}}
		if _, err := g.AppendJSON(nil); err == nil {
			t.Errorf("a score of %v is written", bad)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	var g encode.ScoredDataGroup
	for range 8 {
		var ids, masks []trajectory.Token
		var probs []encode.Logprob
		for i := range 7000 {
			id := trajectory.Token(100_000 + i)
			mask := trajectory.Token(encode.Ignored)
			prob := encode.Logprob(encode.NotSampled)
			if i%350 >= 280 { // an answer behind what a turn adds
				mask, prob = id, encode.Logprob(float32(-0.001*float64(i)))
			}
			ids, masks, probs = append(ids, id), append(masks, mask), append(probs, prob)
		}
		g.Tokens, g.Masks, g.InferenceLogprobs = append(g.Tokens, ids), append(g.Masks, masks), append(g.InferenceLogprobs, probs)
	}
	for b.Loop() {
		if _, err := g.AppendJSON(make([]byte, 0, g.Room())); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*8*7000), "ns/token")
}

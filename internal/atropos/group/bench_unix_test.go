//go:build unix

package group_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermes/internal/atropos/group"
)

// cpu is the time on a processor that this process has had.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// payload is a group as an environment sends it: ids, masks and log-probabilities of
// eight sequences of 4,096 tokens.
func payload(ints bool) []byte {
	rng := rand.New(rand.NewPCG(7, 7))
	g := map[string]any{}
	var tokens, masks [][]int
	var logprobs [][]float64
	var scores []float64
	for range 8 {
		var ids, mask []int
		var lp []float64
		for p := range 4096 {
			id := rng.IntN(151_000)
			ids = append(ids, id)
			if p < 1024 {
				mask, lp = append(mask, -100), append(lp, 1)
			} else {
				mask, lp = append(mask, id), append(lp, float64(-rng.Float32()))
			}
		}
		tokens, masks, logprobs, scores = append(tokens, ids), append(masks, mask), append(logprobs, lp), append(scores, 0.5)
	}
	g["tokens"], g["masks"], g["scores"], g["env_id"] = tokens, masks, scores, 0
	if !ints {
		g["inference_logprobs"] = logprobs
	}
	b, err := json.Marshal(g)
	if err != nil {
		panic(err)
	}
	return b
}

// BenchmarkRead measures the time on a processor that validation takes, which other work
// on the machine does not stretch as it does the time on the clock.
func BenchmarkRead(b *testing.B) {
	for _, ints := range []bool{true, false} {
		body := payload(ints)
		for name, body := range map[string][]byte{"compact": body, "python": bytes.ReplaceAll(body, []byte(","), []byte(", "))} {
			b.Run(fmt.Sprintf("%s,ids=%v", name, ints), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				before := cpu(b)
				for b.Loop() {
					if _, err := group.Read(body, group.Rules{}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/float64(len(body)), "cpu-ns/byte")
			})
		}
	}
}

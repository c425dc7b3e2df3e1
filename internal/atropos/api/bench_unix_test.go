//go:build unix

package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hermes/internal/atropos/api"
)

// cpu is the time on a processor that this process has had. Other work on the machine
// does not stretch it as it does the time on the clock.
func cpu(b testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// payload is a group as an environment sends it: sequences of n tokens with ids, masks and
// log-probabilities.
func payload(sequences, n int, python bool) []byte {
	rng := rand.New(rand.NewPCG(7, 7))
	tokens := make([][]int, sequences)
	masks := make([][]int, sequences)
	logprobs := make([][]float32, sequences)
	scores := make([]float64, sequences)
	for s := range sequences {
		for p := range n {
			id := rng.IntN(151_000)
			tokens[s] = append(tokens[s], id)
			if p < n/4 {
				masks[s], logprobs[s] = append(masks[s], -100), append(logprobs[s], 1)
			} else {
				masks[s], logprobs[s] = append(masks[s], id), append(logprobs[s], -rng.Float32())
			}
		}
	}
	b, err := json.Marshal(map[string]any{"tokens": tokens, "masks": masks, "scores": scores, "inference_logprobs": logprobs})
	if err != nil {
		panic(err)
	}
	if python {
		b = bytes.ReplaceAll(b, []byte(","), []byte(", "))
	}
	return b
}

// sink is an answer that is thrown away; it has no gzip and no socket.
type sink struct {
	h      http.Header
	status int
	n      int64
}

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { s.n += int64(len(b)); return len(b), nil }
func (s *sink) Flush()                      {}

func ask(b testing.TB, s *api.Server, method, path string, body []byte) *sink {
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := &sink{h: http.Header{}}
	if s.ServeHTTP(w, r); w.status >= 300 {
		b.Fatalf("%s %s: %d", method, path, w.status)
	}
	return w
}

func openAPI(b testing.TB, dir string) *api.Server {
	s, _, err := api.Open(api.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// BenchmarkIngest posts groups of 8 sequences of 4,096 tokens: read, validated, written,
// logged and synced.
func BenchmarkIngest(b *testing.B) {
	for _, python := range []bool{false, true} {
		b.Run(fmt.Sprintf("python=%v", python), func(b *testing.B) {
			body := payload(8, 4096, python)
			s := openAPI(b, b.TempDir())
			b.SetBytes(int64(len(body)))
			before := cpu(b)
			for b.Loop() {
				ask(b, s, "POST", "/scored_data", body)
			}
			spent := float64(cpu(b)-before) / float64(b.N)
			b.ReportMetric(spent/float64(len(body)), "cpu-ns/byte")
			b.ReportMetric(spent/(8*4096), "cpu-ns/token")
		})
	}
}

// BenchmarkBatch fetches batches of 1.3 million tokens with three lists; the socket is left out.
func BenchmarkBatch(b *testing.B) {
	s := openAPI(b, b.TempDir())
	ask(b, s, "POST", "/register", []byte(trainer(320)))
	body := payload(8, 4096, false)
	var spent time.Duration
	for b.Loop() {
		for range 40 {
			ask(b, s, "POST", "/scored_data", body)
		}
		before := cpu(b)
		w := ask(b, s, "GET", "/batch", nil)
		spent += cpu(b) - before
		if w.n < 40*int64(len(body)) {
			b.Fatal(w.n)
		}
	}
	b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "cpu-ms/batch")
}

// BenchmarkRecovery opens a directory with a million queued sequences in 125,000 groups.
func BenchmarkRecovery(b *testing.B) {
	dir := b.TempDir()
	s, _, err := api.Open(api.Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	one := scored(1, 8, -1)
	list := []byte("[")
	for i := range 5000 {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, one...)
	}
	list = append(list, ']')
	for range 25 {
		ask(b, s, "POST", "/scored_data_list", list)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	var spent time.Duration
	for b.Loop() {
		before := cpu(b)
		s, rec, err := api.Open(api.Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		spent += cpu(b) - before
		if rec.Sequences != 1_000_000 {
			b.Fatalf("%d sequences came back", rec.Sequences)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(spent.Milliseconds())/float64(b.N), "cpu-ms/open")
}

// TestMemory queues 16 MB of groups: what stays in memory is an index, far less than 1.2
// times their size.
func TestMemory(t *testing.T) {
	s := openAPI(t, t.TempDir())
	body := payload(8, 2048, false)
	ask(t, s, "POST", "/scored_data", body)
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // pools are emptied by the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	wire := int64(0)
	for wire < 16<<20 {
		ask(t, s, "POST", "/scored_data", body)
		wire += int64(len(body))
	}
	grown := heap() - before
	t.Logf("%d bytes of memory for %d bytes queued", grown, wire)
	if grown > wire/10 {
		t.Errorf("memory grows by %d bytes for %d queued", grown, wire)
	}
}

package viewer_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"testing"
	"time"

	"hermes/internal/viewer"
	"hermes/rollout/listing"
)

// The run that BenchmarkOpen opens: 2,000 records of 1, 16 and 128 kB each. A run of 10 GB is
//
//	go test ./internal/viewer -run '^$' -bench Open -benchtime 5x -timeout 1h -rows 100000 -size 100000
//
// and wants 10 GB of disk under TMPDIR.
var (
	benchRows = flag.Int("rows", 2000, "records of the run that BenchmarkOpen opens")
	benchSize = flag.Int("size", 0, "bytes of each of them; 0: 1, 16 and 128 kB")
)

// BenchmarkOpen opens runs with their list and asks for the first page, sorted; then it
// searches the list and asks for the overview and the tasks; then for single trajectories. The time to open must
// follow the number of records and not their bytes.
func BenchmarkOpen(b *testing.B) {
	sizes := []int{1 << 10, 16 << 10, 128 << 10}
	if *benchSize > 0 {
		sizes = []int{*benchSize}
	}
	for _, size := range sizes {
		b.Run(fmt.Sprintf("%dkB", size>>10), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "run")
			segment := int64(16 << 20)
			if *benchSize > 0 {
				segment = 0 // as runs have them
			}
			bigRun(b, dir, *benchRows, size, segment)
			begun := time.Now()
			open(b, dir) // builds the list
			b.Logf("%d records of %d bytes were listed in %.1f s; the list has %d bytes", *benchRows, size,
				time.Since(begun).Seconds(), fileSize(b, filepath.Join(dir, listing.FileName)))
			b.Run("list", func(b *testing.B) { benchList(b, dir) })
			b.Run("search", func(b *testing.B) { benchPage(b, dir, "/api/list?run=0&q=row1+number&sort=tokens") })
			b.Run("run", func(b *testing.B) { benchPage(b, dir, "/api/run?run=0") })
			b.Run("tasks", func(b *testing.B) { benchPage(b, dir, "/api/tasks?run=0&sort=spread&desc=1") })
			b.Run("record", func(b *testing.B) { benchRecord(b, dir) })
		})
	}
}

func fileSize(b *testing.B, name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

// heap is what lives on the heap, in bytes, after a collection.
func heap() uint64 {
	runtime.GC()
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func benchView(b *testing.B, dir string) *viewer.Viewer {
	v, err := viewer.Open(b.Context(), []string{dir}, viewer.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return v
}

func benchGet(b *testing.B, v *viewer.Viewer, path string) {
	w := httptest.NewRecorder()
	v.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, nil))
	if w.Code != 200 || w.Body.Len() < 100 {
		b.Fatal(w.Body)
	}
}

func benchList(b *testing.B, dir string) {
	before := heap()
	for b.Loop() {
		v := benchView(b, dir)
		benchGet(b, v, "/api/list?run=0&sort=reward&desc=1")
		b.StopTimer()
		b.ReportMetric(float64(heap()-before)/(1<<20), "MB-held")
		if err := v.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

// benchPage asks for one page again and again, and reports what it allocates.
func benchPage(b *testing.B, dir, path string) {
	v := benchView(b, dir)
	defer v.Close()
	b.ReportAllocs()
	for b.Loop() {
		benchGet(b, v, path)
	}
}

// benchRecord asks for trajectories here and there and reports how long half of them and
// all but one in a hundred took at most.
func benchRecord(b *testing.B, dir string) {
	v := benchView(b, dir)
	defer v.Close()
	r := rand.New(rand.NewPCG(2, 2))
	var took []time.Duration
	for b.Loop() {
		for range 100 {
			begun := time.Now()
			benchGet(b, v, "/api/record?run=0&key="+key(r.IntN(*benchRows), 0).String())
			took = append(took, time.Since(begun))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "ms-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1e3, "ms-p99")
}

package viewer_test

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"hermes/internal/viewer"
)

// benchRows is how many records the runs of the benchmark hold. The figures for another
// number follow from it: opening reads the index and the headers of the log.
var benchRows = flag.Int("rows", 2000, "records of the run that BenchmarkOpen opens")

// BenchmarkOpen opens runs of as many records of different sizes, with their index, and
// lists their first page; then single trajectories are asked for. The time to open must
// follow the number of records and not their bytes.
func BenchmarkOpen(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("%dkB", size>>10), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "run")
			bigRun(b, dir, *benchRows, size)
			open(b, dir) // builds the index
			b.Run("list", func(b *testing.B) { benchList(b, dir) })
			b.Run("record", func(b *testing.B) { benchRecord(b, dir) })
		})
	}
}

func benchList(b *testing.B, dir string) {
	for b.Loop() {
		v, err := viewer.Open(b.Context(), []string{dir}, viewer.Options{})
		if err != nil {
			b.Fatal(err)
		}
		w := httptest.NewRecorder()
		v.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/api/list?run=0&sort=reward&desc=1", nil))
		if w.Code != 200 || w.Body.Len() < 1000 {
			b.Fatal(w.Body)
		}
		if err := v.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchRecord(b *testing.B, dir string) {
	v, err := viewer.Open(b.Context(), []string{dir}, viewer.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer v.Close()
	for i := 0; b.Loop(); i++ {
		w := httptest.NewRecorder()
		v.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/api/record?run=0&key="+key(i*37%*benchRows, 0).String(), nil))
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}

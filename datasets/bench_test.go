package datasets_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"hermes/datasets"
)

// benchFile writes n rows of about 640 bytes.
func benchFile(tb testing.TB, n int) (string, int64) {
	path := filepath.Join(tb.TempDir(), "bench.jsonl")
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	w := bufio.NewWriter(f)
	text := "Janet\\u2019s ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes muffins for her friends every day with four. She sells the remainder."
	for i := range n {
		fmt.Fprintf(w, `{"id": "row-%d", "question": "%s\n%s", "answer": "%s #### %d", "meta": {"source": "gsm8k", "n": %d, "tags": ["a", "b"]}}`+"\n",
			i, text, text, text, i, i)
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		tb.Fatal(err)
	}
	return path, info.Size()
}

func benchRows() int {
	if n, err := strconv.Atoi(os.Getenv("HERMES_BENCH_ROWS")); err == nil {
		return n
	}
	return 100_000
}

func benchmark(b *testing.B, run func(ctx context.Context, d *datasets.Dataset) error) {
	path, size := benchFile(b, benchRows())
	d, err := datasets.Open(b.Context(), datasets.Options{}, path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if err := run(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(peakMiB(), "peak-MiB")
}

// peakMiB is the largest resident size that this process had; 0 where the system does not say.
func peakMiB() float64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kb float64
		if _, err := fmt.Sscanf(s.Text(), "VmHWM: %f kB", &kb); err == nil {
			return kb / 1024
		}
	}
	return 0
}

func BenchmarkValidate(b *testing.B) {
	benchmark(b, func(ctx context.Context, d *datasets.Dataset) error {
		rep, err := d.Validate(ctx)
		if err == nil {
			err = rep.Err(datasets.Fail)
		}
		return err
	})
}

func BenchmarkShard(b *testing.B) {
	dir := b.TempDir()
	benchmark(b, func(ctx context.Context, d *datasets.Dataset) error {
		_, err := d.ShardFiles(ctx, dir, "s", 8, "")
		return err
	})
}

func BenchmarkRows(b *testing.B) {
	benchmark(b, func(ctx context.Context, d *datasets.Dataset) error {
		for _, err := range d.Rows(ctx) {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

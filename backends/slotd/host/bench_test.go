package host_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"hermes/backends"
	"hermes/backends/slotd/host"
)

// BenchmarkFiles are the file calls of a host, in the process of their caller.
func BenchmarkFiles(b *testing.B) {
	dir := b.TempDir()
	h, err := host.New(host.Options{Home: dir})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(context.Background())
	for i := range 1000 {
		d := filepath.Join(dir, "tree", fmt.Sprint(i%50))
		if err := errors.Join(os.MkdirAll(d, 0o755), os.WriteFile(filepath.Join(d, fmt.Sprint(i)), make([]byte, 100), 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<10), 0o644); err != nil {
		b.Fatal(err)
	}
	for name, call := range map[string]func(context.Context) error{
		"read":  func(ctx context.Context) error { _, err := h.ReadFile(ctx, "f", 0); return err },
		"write": func(ctx context.Context) error { return h.WriteFile(ctx, "g", make([]byte, 1<<10), 0) },
		"stat":  func(ctx context.Context) error { _, err := h.Stat(ctx, "f"); return err },
		"list":  func(ctx context.Context) error { _, err := h.List(ctx, "tree", 0); return err },
		"search": func(ctx context.Context) error {
			_, err := h.Search(ctx, backends.Query{Root: "tree", Pattern: "needle", Content: true})
			return err
		},
		"search names": func(ctx context.Context) error {
			_, err := h.Search(ctx, backends.Query{Root: "tree", Pattern: "*9*"})
			return err
		},
		"copy out": func(ctx context.Context) error { return h.CopyOut(ctx, "tree", io.Discard) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

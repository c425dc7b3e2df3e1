//go:build linux

package local_test

import (
	"context"
	"testing"

	"hermes/backends"
	"hermes/backends/local"
)

func BenchmarkExec(b *testing.B) {
	for name, limits := range map[string]backends.Limits{"plain": {}, "limited": {Memory: 1 << 30}} {
		b.Run(name, func(b *testing.B) {
			back, err := local.New(local.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer back.Close(context.Background())
			box, err := back.Open(b.Context(), backends.Spec{Limits: limits})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := box.Exec(b.Context(), backends.Cmd{Argv: []string{"true"}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

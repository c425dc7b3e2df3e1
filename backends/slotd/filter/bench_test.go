//go:build linux

package filter

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkLoad is what the kernel takes to load the filter, as every command that the first
// process of a box starts does once, on a thread that ends with it.
func BenchmarkLoad(b *testing.B) {
	Program(true)
	for b.Loop() {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked
			err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
			if err == nil {
				err = Load(true)
			}
			done <- err
		}()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

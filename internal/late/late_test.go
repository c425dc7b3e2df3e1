package late_test

import (
	"sync"
	"testing"

	"hermes/internal/late"
)

// TestCompile uses an expression from many goroutines at once; one with a mistake panics at
// its use, not before.
func TestCompile(t *testing.T) {
	digits := late.Regexp(`(\d+)`)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := digits.ReplaceAllString("a1b22", "<$1>"); got != "a<1>b<22>" {
				t.Error(got)
			}
		})
	}
	all.Wait()
	broken := late.Regexp(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a broken expression was used")
		}
	}()
	broken.MatchString("x")
}

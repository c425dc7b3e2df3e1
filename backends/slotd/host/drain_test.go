package host_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"hermes/backends"
	"hermes/backends/slotd/host"
)

// What a command wrote before its end is in its result, however busy the machine is and
// whoever still holds its pipes.
func TestOutputIsWholeOnABusyMachine(t *testing.T) {
	h, err := host.New(host.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	stop := make(chan struct{})
	var busy sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		busy.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			want := fmt.Sprintf("line %d\n", i)
			r, err := h.Exec(t.Context(), backends.Cmd{Argv: []string{"sh", "-c", "sleep 60 & echo line " + fmt.Sprint(i)}})
			if err != nil || string(r.Stdout) != want {
				t.Errorf("%q, %v; want %q", r.Stdout, err, want)
			}
		})
	}
	all.Wait()
	close(stop)
	busy.Wait()
}

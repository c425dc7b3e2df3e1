package build

import (
	"bytes"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestTheRuntimeKnowsTheBudget(t *testing.T) {
	old := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(old)
	for _, tt := range []struct{ before, budget, want int64 }{
		{math.MaxInt64, 1 << 30, 1 << 30},
		{1 << 29, 1 << 30, 1 << 29},
		{math.MaxInt64, 0, math.MaxInt64},
	} {
		debug.SetMemoryLimit(tt.before)
		back := HoldMemory(tt.budget)
		if got := debug.SetMemoryLimit(-1); got != tt.want {
			t.Errorf("a budget of %d after %d: the runtime's limit is %d", tt.budget, tt.before, got)
		}
		back()
		if got := debug.SetMemoryLimit(-1); got != tt.before {
			t.Errorf("the limit was %d, is %d", tt.before, got)
		}
	}
}

func TestHeapHasRoom(t *testing.T) {
	percent := func() int {
		now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(now)
		return int(now[0].Value.Uint64())
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	stop := leaveRoom(1 << 40)
	for percent() != maxPercent { // what comes after a collection runs by itself
		runtime.GC()
	}
	leaveRoom(1 << 40)() // one within another changes nothing
	if got := percent(); got != maxPercent {
		t.Errorf("%d, want %d still", got, maxPercent)
	}
	stop()
	if got := percent(); got != gcPercent {
		t.Errorf("taken back: %d, want %d", got, gcPercent)
	}
	debug.SetGCPercent(50)
	leaveRoom(1 << 40)()
	if got := percent(); got != 50 {
		t.Errorf("what the operator has set: %d, want 50", got)
	}
	debug.SetGCPercent(gcPercent)
	live := bytes.Repeat([]byte("x"), 64<<20)
	defer leaveRoom(32 << 20)()
	for p := percent(); p < 110 || p > 150; p = percent() { // 100 and half of it, less what else is alive
		runtime.GC()
	}
	runtime.KeepAlive(live)
}

package build

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// HoldMemory has the runtime collect garbage before the process outgrows the budget, and
// rarely as long as little is live. What is set already, if smaller, stays. The function
// that it returns takes it back.
func HoldMemory(limit int64) func() {
	old := debug.SetMemoryLimit(-1)
	if limit > 0 && limit < old {
		debug.SetMemoryLimit(limit)
	}
	stop := leaveRoom(heapRoom)
	return func() {
		stop()
		debug.SetMemoryLimit(old)
	}
}

const (
	// heapRoom is by how much the heap may grow between two collections, however little
	// is live. A few dozen rollouts have so little that the runtime would collect several
	// times a second, at 3 to 7 % of the processor time.
	heapRoom   = 128 << 20
	gcPercent  = 100 // the runtime's own
	maxPercent = 400
)

// leaveRoom has the heap grow by room bytes, or by all that is live, whichever is more (at
// most by maxPercent), before garbage is collected. A GOGC other than the runtime's own
// stays. The function that it returns takes it back.
func leaveRoom(room int64) (stop func()) {
	if own := debug.SetGCPercent(gcPercent); own != gcPercent {
		debug.SetGCPercent(own)
		return func() {}
	}
	r := &roomy{room: room, percent: gcPercent}
	r.watch()
	return r.end
}

// roomy sets the runtime's percentage again after a collection that calls for another.
type roomy struct {
	room int64

	mu      sync.Mutex
	percent int64
	ended   bool
}

// watch has the next collection tell us: it frees what nobody holds.
func (r *roomy) watch() {
	runtime.AddCleanup(new([64]byte), (*roomy).collected, r)
}

func (r *roomy) collected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	want := min(gcPercent+gcPercent*r.room/max(1, int64(live[0].Value.Uint64())), maxPercent)
	if diff := want - r.percent; diff > r.percent/8 || -diff > r.percent/8 { // to set it stops the world
		r.percent = want
		debug.SetGCPercent(int(want))
	}
	r.watch()
}

func (r *roomy) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	debug.SetGCPercent(gcPercent)
}

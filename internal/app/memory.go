package app

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"

	"hermes/configs"
)

// memoryShare is the part of the machine's memory that rollouts may take where nobody
// says how much: boxes and projections want some too.
const memoryShare = 0.5

// budget is how much memory the engine may take: what was asked for, else a share of what
// this process may have; 0 where nobody knows.
func budget(asked *configs.Size, root string) int64 {
	if asked != nil {
		return int64(*asked)
	}
	return int64(memoryShare * float64(machineMemory(root)))
}

// holdMemory has the runtime collect garbage before the process outgrows the budget, and
// rarely as long as little is live. What is set already, if smaller, stays. The function
// that it returns takes it back.
func holdMemory(limit int64) func() {
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

// roomy sets the runtime's percentage anew after each collection that calls for another.
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

// machineMemory is what this process may have, in bytes: the machine's memory, or the
// smallest limit of its control groups. 0: nobody knows. root is where /proc and /sys lie.
func machineMemory(root string) int64 {
	least := int64(math.MaxInt64)
	meminfo, _ := os.ReadFile(filepath.Join(root, "proc/meminfo")) // no file: no figure
	for line := range strings.Lines(string(meminfo)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" && f[2] == "kB" {
			if kb, err := strconv.ParseInt(f[1], 10, 64); err == nil && kb < math.MaxInt64>>10 {
				least = kb << 10
			}
		}
	}
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		kinds, group, ok := strings.Cut(rest, ":")
		switch {
		case !ok:
		case kinds == "": // version 2
			least = min(least, groupLimit(filepath.Join(root, "sys/fs/cgroup"), group, "memory.max"))
		case strings.Contains(","+kinds+",", ",memory,"):
			least = min(least, groupLimit(filepath.Join(root, "sys/fs/cgroup/memory"), group, "memory.limit_in_bytes"))
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// groupLimit is the smallest limit of a group and of those above it. In a container only
// the mount itself may be there.
func groupLimit(mount, group, file string) int64 {
	least := int64(math.MaxInt64)
	for dir := filepath.Clean("/" + group); ; dir = filepath.Dir(dir) {
		raw, _ := os.ReadFile(filepath.Join(mount, dir, file))
		if n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64); err == nil && n > 0 { // "max" is none
			least = min(least, n)
		}
		if dir == "/" {
			return least
		}
	}
}

package app

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"hermes/configs"
)

func TestBudgetFollowsTheMachine(t *testing.T) {
	const meminfo = "MemTotal:        8000000 kB\nMemFree:          1000 kB\n"
	tests := []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{name: "no figures", want: 0},
		{name: "the machine", files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, want: 8000000 << 9},
		{name: "a group", files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "2000000000\n"}, want: 1e9},
		{name: "a group above", files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1000000000\n"}, want: 5e8},
		{name: "a container", files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/memory.max": "1000000000\n"}, want: 5e8},
		{name: "a generous group", files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "900000000000\n"}, want: 8000000 << 9},
		{name: "version 1", files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "600000000\n"}, want: 3e8},
		{name: "no limit of version 1", files: map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, want: 8000000 << 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range tt.files {
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := budget(nil, root); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
			asked := configs.Size(123)
			if got := budget(&asked, root); got != 123 {
				t.Errorf("asked for 123: %d", got)
			}
		})
	}
}

func TestTheRuntimeKnowsTheBudget(t *testing.T) {
	old := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(old)
	for _, tt := range []struct{ before, budget, want int64 }{{math.MaxInt64, 1 << 30, 1 << 30}, {1 << 29, 1 << 30, 1 << 29}, {math.MaxInt64, 0, math.MaxInt64}} {
		debug.SetMemoryLimit(tt.before)
		back := holdMemory(tt.budget)
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

package host

import (
	"bytes"
	"io"
	"strconv"

	"hermes/backends/slotd/procs"
)

// OwnOOM opens the counter of out-of-memory kills of the cgroup that this process sees
// as its own; nil where it sees none.
func OwnOOM() func() int64 {
	for _, path := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		if f, err := procs.OpenKernel(path); err == nil {
			return OOMCounter(f)
		}
	}
	return nil
}

// OOMCounter reads the out-of-memory kills of a cgroup from its open file memory.events
// (v2) or memory.oom_control (v1).
func OOMCounter(f io.ReaderAt) func() int64 {
	return func() int64 {
		raw := make([]byte, 4096)
		n, _ := f.ReadAt(raw, 0)
		for line := range bytes.Lines(raw[:n]) {
			if rest, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
				n, _ := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
				return n
			}
		}
		return 0
	}
}

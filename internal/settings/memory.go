package settings

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hermes/configs"
)

// memoryShare is the part of the machine's memory that rollouts may take where nobody
// says how much: boxes and projections want some too.
const memoryShare = 0.5

// Memory is how much memory the engine may take: what was asked for, else a share of what
// this process may have; 0 where nobody knows.
func Memory(asked *configs.Size, root string) int64 {
	if asked != nil {
		return int64(*asked)
	}
	return int64(memoryShare * float64(machineMemory(root)))
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

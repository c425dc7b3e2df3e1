package host

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// rlimits is the number of resource limits that the kernel has (RLIM_NLIMITS).
const rlimits = 16

// settings lists what a command that shares our user can set of this process, and what
// every later command would inherit from it: limits, priorities and cores.
func settings() []string {
	var all []string
	for r := range rlimits {
		var l unix.Rlimit
		if err := unix.Prlimit(0, r, nil, &l); err == nil {
			all = append(all, fmt.Sprintf("limit %d: %d %d", r, l.Cur, l.Max))
		}
	}
	threads, _ := listKernel("/proc/self/task")
	for _, e := range threads { // they come and go, but are all alike
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if n, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil {
			all = append(all, fmt.Sprintf("priority %d", n))
		}
		var cores unix.CPUSet
		if err := unix.SchedGetaffinity(id, &cores); err == nil {
			all = append(all, fmt.Sprintf("%d cores", cores.Count()))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

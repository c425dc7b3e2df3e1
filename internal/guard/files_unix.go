//go:build unix

package guard

import "golang.org/x/sys/unix"

// openFiles is how many files the process may have open.
func openFiles() int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil || r.Cur > 1<<20 {
		return 1 << 20
	}
	return int(r.Cur)
}

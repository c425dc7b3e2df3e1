package bench

import (
	"slices"
	"syscall"
	"time"
)

// processor is the time that this process has spent on processors.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// everything is the processor time of this process and of what it has started that has
// ended.
func everything() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return 0
	}
	return processor() + time.Duration(u.Utime.Nano()+u.Stime.Nano())
}

// peak is the most memory that this process has had resident, in MB (10⁶ bytes).
func peak() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Maxrss) * 1024 / 1e6
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	mid := len(list) / 2
	if len(list)%2 == 0 {
		return (list[mid-1] + list[mid]) / 2
	}
	return list[mid]
}

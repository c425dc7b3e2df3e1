package escapes

// Pending are attempts that work in some boxes and must not, each with what ends that. The
// table is empty when all is done: then an attempt that works fails its test.
func Pending() map[string]string {
	return map[string]string{
		"limits of pid 1":            "pid 1 is out of reach of commands",
		"priority of pid 1":          "pid 1 is out of reach of commands",
		"cores of pid 1":             "pid 1 is out of reach of commands",
		"scheduling of pid 1":        "pid 1 is out of reach of commands",
		"disk priority of pid 1":     "pid 1 is out of reach of commands",
		"be killed later than pid 1": "/proc/1/oom_score_adj is out of reach of commands",
		"dumps of pid 1":             "/proc/1/coredump_filter is out of reach of commands",
		"lock of a shared file":      "files that all boxes share can't be locked",
	}
}

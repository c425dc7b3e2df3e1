package docker

// masked are the files of the kernel that a container does not see: those of an engine's own
// list, which ours replaces, and those that show root, which a command of a box is, how the
// memory of the whole machine is used, or where its parts lie.
func masked() []string {
	return []string{
		// an engine's own
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
		"/sys/firmware", "/sys/devices/virtual/powercap",
		// ours
		"/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/slabinfo", "/proc/vmallocinfo",
		"/proc/pagetypeinfo", "/proc/iomem", "/proc/ioports", "/proc/kallsyms", "/proc/kmsg",
		"/proc/sys/fs/binfmt_misc", "/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/kernel/slab",
	}
}

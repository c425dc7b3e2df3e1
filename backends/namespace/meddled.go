//go:build linux

package namespace

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// meddled names a hard limit of a box's first process, which may have ended, that was changed
// after its start. At the start it is that of the helper, which has ours. Limits that a box sets
// itself are left out, and so are soft limits, which programs raise and which kill no process.
func meddled(pid int) string {
	own, err := hardLimits("self")
	if err != nil {
		return ""
	}
	its, err := hardLimits(fmt.Sprint(pid))
	if err != nil {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(its)) {
		switch name {
		case "Max processes", "Max core file size", "Max file size",
			"Max pending signals", "Max msgqueue size", "Max locked memory", "Max nice priority", "Max realtime priority":
			continue // those of settle
		}
		if was, ok := own[name]; ok && was != its[name] {
			return fmt.Sprintf("%s: %s, was %s", name, its[name], was)
		}
	}
	return ""
}

// hardLimits reads the hard limits of a process by their names.
func hardLimits(process string) (map[string]string, error) {
	raw, err := os.ReadFile("/proc/" + process + "/limits")
	if err != nil {
		return nil, err
	}
	const width = 26 // of the column of names
	all := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if len(line) < width {
			continue
		}
		if f := strings.Fields(line[width:]); len(f) >= 2 {
			all[strings.TrimSpace(line[:width])] = f[1]
		}
	}
	return all, nil
}

//go:build linux

package namespace

import (
	"fmt"
	"strings"
)

// Cgroups says in a line which cgroups boxes get on this machine, as they are found when a
// back-end is opened: a group is tried to be made in each. It is empty where boxes get none, and
// only the rlimits of processes bound them.
func Cgroups() string {
	var v1 []string
	for _, g := range findGroups(Limits{}) {
		if g.v2 {
			return fmt.Sprintf("v2 with %s, below %s", strings.Join(g.controllers, " "), g.dir)
		}
		v1 = append(v1, fmt.Sprintf("%s below %s", strings.Join(g.controllers, " "), g.dir))
	}
	if len(v1) == 0 {
		return ""
	}
	return "v1 with " + strings.Join(v1, ", ")
}

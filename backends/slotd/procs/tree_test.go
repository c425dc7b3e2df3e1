package procs

import (
	"strings"
	"testing"
)

func TestParseStatTellsAnExec(t *testing.T) {
	const tail = " 1 5 5 0 -1 FLAGS 8858 0 0 0 4 6 0 0 20 0 1 0 150884 2654208 394 1 2 3 4 0 0 0 0 6 65536 0 0 0 17 1 0 0 0 0 0 94130516495920 94130516501056 94130735693824 140735900040809 140735900040819 ENV 140735900041196 0"
	for _, c := range []struct {
		name, flags, env string
		want             bool
	}{
		{"a program", "4194304", "140735900040819", false},
		{"in an exec", "4194304", "0", true},
		{"on its way out", "4194308", "0", false},
		{"a thread of the kernel", "2129984", "0", false},
	} {
		line := strings.NewReplacer("FLAGS", c.flags, "ENV", c.env).Replace("5 (a) b) R" + tail)
		if e, ok := parseStat(5, []byte(line)); !ok || e.bare != c.want || e.Began != 150884 {
			t.Errorf("%s: %+v, %v", c.name, e, ok)
		}
	}
}

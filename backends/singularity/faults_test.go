package singularity_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/pool"
	"hermes/backends/singularity"
)

var long = flag.Bool("long", false, "run the long forms")

// meddle is a program in front of the stand-in whose calls go wrong, about one in eight,
// as long as the file "begun" is there: refused, for a quota too, late, carried out and
// said to have failed, answered to one half, carried out twice. What goes wrong is drawn
// by the process id; each fault is a line of the file "log".
const meddle = `#!/bin/sh
d=%q p=%q
[ -e "$d/begun" ] && [ "$1" != --version ] || exec "$p" "$@"
n=$(($(echo $$ | cksum | cut -d ' ' -f 1) %% 1000))
[ $n -lt 125 ] || exec "$p" "$@"
k=$((n %% 6))
[ "$1" = exec ] && k=$((k %% 3))
echo "$1 $2 $k" >> "$d/log"
case $k in
0) echo "FATAL:   while starting: resource temporarily unavailable" >&2; exit 255 ;;
1) echo "FATAL:   disk quota exceeded" >&2; exit 255 ;;
2) sleep 0.1; exec "$p" "$@" ;;
3) "$p" "$@"; exit 255 ;;
4) "$p" "$@" > "$d/out.$$"; head -c $(($(wc -c < "$d/out.$$") / 2)) "$d/out.$$"; rm "$d/out.$$" ;;
5) "$p" "$@" > /dev/null; exec "$p" "$@" ;;
esac
`

// TestFaults: whatever goes wrong with the program, no instance and no folder is left.
func TestFaults(t *testing.T) {
	want := 30
	if *long {
		want = 1000
	}
	c, at := standIn(t)
	dir := t.TempDir()
	program := filepath.Join(dir, standInName)
	if err := os.WriteFile(program, fmt.Appendf(nil, meddle, dir, c.Program), 0o755); err != nil {
		t.Fatal(err)
	}
	c.Program = program
	b, err := singularity.Open(t.Context(), c, at)
	if err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(dir, "begun")
	if err := os.WriteFile(begun, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	injected := func() int {
		raw, _ := os.ReadFile(filepath.Join(dir, "log")) // none yet
		return bytes.Count(raw, []byte("\n"))
	}
	backendtest.Endure(t, backendtest.Ordeal{Backend: b, Injected: injected, Want: want, Answers: true,
		Heal: func() {
			if err := os.Remove(begun); err != nil {
				t.Error(err)
			}
		},
		Kill:    func(x backends.Sandbox) error { return b.Kill(x.ID()) },
		Options: pool.Options{Max: 4, Breaker: 100, Seed: 3},
		Left: func() ([]string, error) {
			left, err := b.Instances()
			folders, _ := os.ReadDir(c.Dir)
			for _, f := range folders {
				left = append(left, f.Name())
			}
			return left, err
		}})
}

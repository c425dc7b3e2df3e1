//go:build linux

package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
)

// hostile takes all that a box can take, over and over: what the kernel counts, processes, memory, disk, pipes and
// processor time.
const hostile = `P=%s/probe
$P probe exhaust &
(while :; do head -c 1g /dev/zero > /tmp/fill; i=0; while [ $i -lt 2000 ]; do : > /tmp/small$i || break; i=$((i+1)); done; rm -f /tmp/fill /tmp/small*; done) 2>/dev/null &
(while :; do head -c 2g /dev/zero | tail -c 1g | wc -c; done) >/dev/null 2>&1 &
(while :; do yes | head -c 1g | cat | cat > /dev/null; done) 2>/dev/null &
(while :; do find /usr /proc /etc -exec flock -n {} true \; ; done) >/dev/null 2>&1 &
i=0; while [ $i -lt 8 ]; do setsid sh -c 'while :; do :; done' & i=$((i+1)); done
b() { b | b & }
while :; do b; sleep 1; done 2>/dev/null`

// job is the work of a normal box: commands one by one, each of which must give its line.
var job = []struct{ script, want string }{
	{"seq 1 2000 > numbers && wc -l < numbers", "2000"},
	{"sort -rn numbers | head -1", "2000"},
	{"mkdir -p a/b && cp numbers a/b/ && tar -cf a.tar a && tar -tf a.tar | wc -l", "3"},
	{"sed -n 's/^7$/seven/p' numbers", "seven"},
	{"awk '{ s += $1 } END { print s }' numbers", "2001000"},
	{"i=0; while [ $i -lt 20 ]; do i=$((i+1)); /bin/true || exit 1; done; echo $i", "20"},
	{"for f in 1 2 3 4 5; do echo $f > f$f & done; wait; cat f? | tr -d '\\n'", "12345"},
	{"find /usr/bin -maxdepth 1 -name env | grep -c env", "1"},
	{"flock -n /usr/bin/env echo locked", "locked"},
}

// work does the job in a new box.
func work(ctx context.Context, b backends.Backend, dir string) (err error) {
	x, err := b.Open(ctx, backends.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close(context.WithoutCancel(ctx))) }()
	for _, c := range job {
		r, err := x.Exec(ctx, backends.Cmd{Shell: c.script, Merge: true, Timeout: time.Minute})
		if err != nil {
			return err
		}
		if out := strings.TrimSpace(string(r.Stdout)); out != c.want {
			return fmt.Errorf("%s: %q, exit code %d, want %q", c.script, out, r.Code, c.want)
		}
	}
	if err := x.WriteFile(ctx, "note", []byte("text"), 0); err != nil {
		return err
	}
	if _, err := x.ReadFile(ctx, "note", 0); err != nil {
		return err
	}
	if err := x.WriteFile(ctx, "note", []byte("another text"), 0); err != nil { // slotd does
		return err
	}
	r, err := x.Exec(ctx, backends.Cmd{Argv: []string{dir + "/probe", "probe", "one"}, Merge: true, Timeout: time.Minute})
	if err == nil && r.Code != 0 {
		err = fmt.Errorf("one of everything: exit code %d, %s", r.Code, r.Stdout)
	}
	return err
}

// crowd does the job in boxes side by side, and says how long each took.
func crowd(t *testing.T, b backends.Backend, dir string, boxes int) []time.Duration {
	took := make([]time.Duration, boxes)
	var all sync.WaitGroup
	for i := range took {
		all.Go(func() {
			began := time.Now()
			if err := work(t.Context(), b, dir); err != nil {
				t.Errorf("box %d: %v", i, err)
			}
			took[i] = time.Since(began)
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}

// TestHostileNeighbour: beside one box that takes all that it can, normal boxes do their work, and the host gets
// one of everything all the while.
func TestHostileNeighbour(t *testing.T) {
	const boxes = 20
	rounds := 1
	if *long {
		rounds = 5
	}
	dir := probes(t)
	b := open(t, namespace.Config{ReadOnly: []string{dir}, Limits: namespace.Limits{Memory: 512 << 20, Disk: 64 << 20}})
	alone := crowd(t, b, dir, boxes)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	taking, used := make(chan struct{}), 0
	all.Go(func() {
		for first := true; ctx.Err() == nil; first = false {
			x, err := b.Open(ctx, backends.Spec{Limits: backends.Limits{Memory: 256 << 20}})
			if err != nil {
				continue
			}
			used++
			if first {
				keeps(t, x, dir, "take inotify 1000000")
				close(taking)
			}
			x.Exec(ctx, backends.Cmd{Shell: fmt.Sprintf(hostile, dir), Timeout: 10 * time.Minute}) // until its own memory is used up
			x.Close(context.WithoutCancel(ctx))
		}
	})
	<-taking
	asked := 0
	all.Go(func() {
		for ctx.Err() == nil {
			if out, err := exec.CommandContext(ctx, "/proc/self/exe", "probe", "one").CombinedOutput(); err != nil && ctx.Err() == nil {
				t.Errorf("the host, asked for the %d. time: %v: %s", asked, err, out)
				return
			}
			asked++
		}
	})
	var beside []time.Duration
	for range rounds {
		beside = append(beside, crowd(t, b, dir, boxes)...)
	}
	stop()
	all.Wait()
	slices.Sort(beside)
	if asked == 0 {
		t.Error("the host was never asked")
	}
	fmt.Fprintf(t.Output(), "%d boxes as uid %d: p50 %v, last %v; beside a hostile one: p50 %v, last %v; the host got one of everything %d times; %d hostile boxes were used up\n",
		boxes, os.Geteuid(), alone[len(alone)/2], alone[len(alone)-1], beside[len(beside)/2], beside[len(beside)-1], asked, used)
}

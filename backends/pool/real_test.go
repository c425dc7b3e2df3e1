package pool_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"hermes/backends"
	"hermes/backends/backendtest"
	"hermes/backends/local"
	"hermes/backends/namespace"
	boxes "hermes/backends/namespace/driver"
	"hermes/backends/pool"
)

var long = flag.Bool("long", false, "run the long forms")

// times is a number of repeats: all of them with -long, few without.
func times(few, all int) int {
	if *long {
		return all
	}
	return few
}

func TestMain(m *testing.M) {
	if code, ok := namespace.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// drivers are real back-ends, as far as this machine can make them, with boxes that can
// be reset.
func drivers(t *testing.T) map[string]func(t *testing.T) backends.Backend {
	return map[string]func(t *testing.T) backends.Backend{
		"fake": func(*testing.T) backends.Backend { return backendtest.NewFake(nil) },
		"local": func(t *testing.T) backends.Backend {
			b, err := local.New(local.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		"namespace": func(t *testing.T) backends.Backend { return openNamespace(t, namespace.Config{Resets: true}) },
	}
}

func openNamespace(t *testing.T, c namespace.Config) *namespace.Backend {
	t.Helper()
	b, err := boxes.Open(t.Context(), c)
	if errors.Is(err, backends.ErrUnavailable) {
		t.Skip("this machine cannot make boxes: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestContract: a pool is a back-end like those behind it.
func TestContract(t *testing.T) {
	t.Setenv("HERMES_TEST_SECRET", "not-for-boxes")
	b, err := local.New(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pool.New(t.Context(), b, pool.Options{Uses: 50, Reset: backends.ResetFiles})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	backendtest.Run(t, func(*testing.T) backends.Backend { return p }, backendtest.Options{
		// Resetting is the pool's own, so rows 74 and 75 cannot be asked of a lease.
		Skips: []int{12, 29, 35, 46, 50, 51, 52, 53, 54, 55, 56, 57, 59, 64, 65, 66, 67, 68, 69, 71, 72, 73, 74, 75, 84},
	})
}

// use is a rollout: it prepares, works, looks whether the box was really its own, and
// gives it back in one of the ways that rollouts end.
func use(p *pool.Pool, me string, r *rand.Rand, real bool) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b, err := p.Open(ctx, backends.Spec{Image: "", Labels: map[string]string{pool.RunLabel: fmt.Sprint(r.IntN(3))}})
	if err != nil {
		return err
	}
	if r.IntN(8) == 0 {
		cancel() // interrupted: what follows fails, and the box goes back all the same
	}
	defer b.Close(context.WithoutCancel(ctx))
	if err := b.WriteFile(ctx, "mine", []byte(me), 0); err != nil {
		return err
	}
	res, err := b.Exec(ctx, backends.Cmd{Shell: "cat mine; touch .left; (sleep 1000 >/dev/null 2>&1 &) ; ls -A"})
	if err != nil {
		return err
	}
	if got := string(res.Stdout); real && got != me+".left\nmine\n" {
		return fmt.Errorf("%w: %q sees %q", errWrong, me, got)
	}
	return nil
}

var errWrong = errors.New("a box was not clean or not one's own")

// TestFaults: whatever calls fail, the books balance and nothing is left. The drivers that
// call a service have the same ordeal in their own tests, with faults in those calls.
func TestFaults(t *testing.T) {
	for name, open := range drivers(t) {
		t.Run(name, func(t *testing.T) {
			inner := open(t)
			f := backendtest.NewFaulty(inner, 5, 0.08)
			o := backendtest.Ordeal{Backend: f, Injected: f.Injected, Want: times(40, 1000), Heal: f.Heal, Answers: name != "fake",
				Options: pool.Options{Max: 4, Uses: 6, Reset: backends.ResetFull, Breaker: 100, Seed: 3},
				Left: func() (left []string, err error) {
					if n := f.Live(); n > 0 {
						left = append(left, fmt.Sprint(n, " boxes"))
					}
					return left, err
				}}
			if name == "local" { // it cannot vouch for a full reset
				o.Options.Reset = backends.ResetFiles
			}
			backendtest.Endure(t, o)
		})
	}
}

// traces are what a process can leave behind.
type traces struct {
	fds, goroutines, children, mounts, groups int
}

func lookAround(t *testing.T, dir string) traces {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	tr := traces{fds: len(fds), goroutines: runtime.NumGoroutine(), mounts: strings.Count(string(mounts), dir)}
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, f := range tasks {
		raw, _ := os.ReadFile(f)
		tr.children += len(strings.Fields(string(raw)))
	}
	filepath.WalkDir("/sys/fs/cgroup", func(p string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && strings.HasPrefix(d.Name(), "hermes-") && strings.Contains(d.Name(), fmt.Sprintf("-%d-", os.Getpid())) {
			tr.groups++
		}
		return nil
	})
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("files left: %v", left)
	}
	return tr
}

// TestSoak: after many leases nothing is left of them.
func TestSoak(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	cycle := func(n int) {
		b := openNamespace(t, namespace.Config{Resets: true})
		p, err := pool.New(t.Context(), b, pool.Options{Max: 4, Uses: 3, Reset: backends.ResetFull})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for w := range 4 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(w), 2))
				for i := range n / 4 {
					if err := use(p, fmt.Sprintf("%d-%d", w, i), r, true); err != nil && !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if s := p.Status(); s.Leases < int64(n)/2 || s.Resets == 0 {
			t.Errorf("%+v", s)
		}
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	cycle(8) // what is made once
	before := lookAround(t, dir)
	cycle(times(200, 10_000))
	var after traces
	for range 10_000 { // goroutines that have nothing left to do but end
		after = lookAround(t, dir)
		if after.goroutines <= before.goroutines && after.fds <= before.fds {
			break
		}
		runtime.Gosched()
	}
	if after.fds > before.fds || after.goroutines > before.goroutines || after.children > before.children || after.mounts > before.mounts ||
		after.groups > before.groups {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

// TestAttribution: the error of a box that ended blames the right side.
func TestAttribution(t *testing.T) {
	b := openNamespace(t, namespace.Config{})
	p, err := pool.New(t.Context(), b, pool.Options{Max: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	if b.Traits().MemoryBy != "cgroup" {
		t.Skip("no cgroup for memory here: boxes cannot be broken by it")
	}
	backendtest.Attribute(t, backendtest.Deaths{
		Open: func(ctx context.Context) (backends.Sandbox, error) {
			return p.Open(ctx, backends.Spec{Limits: backends.Limits{Memory: 32 << 20, Processes: 24, Disk: 8 << 20}})
		},
		Count: times(40, 2000), Workers: 4,
		Model: []string{
			"x=x; while :; do x=$x$x; done",
			"head -c 200M /dev/zero | tail -n 1 | wc -c",
			"f() { f | f & }; f; sleep 0.2",
			"dd if=/dev/zero of=big bs=1M count=500",
			"kill -9 1; kill -9 -1",
			"kill -TERM 1; kill -INT 1; kill -HUP 1; kill -TERM -1",
			"for p in /proc/[0-9]*; do kill -SEGV ${p#/proc/}; done",
		},
		Ours: []backendtest.Death{{Name: "killed from outside", End: func(x backends.Sandbox) error { return kill(x.ID()) }}},
	})
}

// kill ends a box as the death of its machine would: pid 1 of the box is one of our
// children, and the members of its cgroup are named after it.
func kill(id string) error {
	var pids []string
	filepath.WalkDir("/sys/fs/cgroup", func(p string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && d.Name() == id {
			raw, _ := os.ReadFile(p + "/cgroup.procs")
			pids = append(pids, strings.Fields(string(raw))...)
		}
		return nil
	})
	slices.Sort(pids)
	for _, pid := range slices.Compact(pids) {
		var n int
		fmt.Sscan(pid, &n)
		stat, _ := os.ReadFile("/proc/" + pid + "/stat")
		if f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); len(f) > 1 && f[1] == fmt.Sprint(os.Getpid()) {
			p, err := os.FindProcess(n)
			if err != nil {
				return err
			}
			return p.Kill()
		}
	}
	return fmt.Errorf("no first process of box %s among %v", id, pids)
}

package backendtest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/backends"
)

// patience bounds every wait of a row: far above what a slow and loaded machine needs.
const patience = 3 * time.Minute

// Env is what a row works with.
type Env struct {
	T
	ctx    context.Context
	back   backends.Backend
	traits backends.Traits
	opt    Options
	boxes  []backends.Sandbox
	later  []func(ctx context.Context) error // at the row's end, before its boxes are closed
}

func (e *Env) cleanup() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), patience)
	defer cancel()
	for _, f := range e.later {
		if err := f(ctx); err != nil {
			e.Errorf("%v", err)
		}
	}
	errs := make([]error, len(e.boxes)) // all at once: some back-ends need a second for each
	var closing sync.WaitGroup
	for i, b := range e.boxes {
		closing.Go(func() { errs[i] = b.Close(ctx) })
	}
	closing.Wait()
	for i, err := range errs {
		if err != nil {
			e.Errorf("close box %s: %v", e.boxes[i].ID(), err)
		}
	}
}

// open opens a box that the row need not close.
func (e *Env) open(s backends.Spec) backends.Sandbox {
	e.Helper()
	b, err := e.back.Open(e.ctx, s)
	if err != nil {
		e.Fatalf("open box: %v", err)
	}
	e.boxes = append(e.boxes, b)
	return b
}

// box is the first box of the row.
func (e *Env) box() backends.Sandbox {
	e.Helper()
	if len(e.boxes) == 0 {
		e.open(backends.Spec{})
	}
	return e.boxes[0]
}

// exec runs a command in the row's box.
func (e *Env) exec(c backends.Cmd) backends.Result {
	e.Helper()
	return e.in(e.box(), c)
}

func (e *Env) in(b backends.Sandbox, c backends.Cmd) backends.Result {
	e.Helper()
	r, err := b.Exec(e.ctx, c)
	if err != nil {
		e.Fatalf("exec %q%q: %v", c.Shell, c.Argv, err)
	}
	return r
}

// sh runs a script that must succeed and gives its output without the last newline.
func (e *Env) sh(script string) string {
	e.Helper()
	return e.shIn(e.box(), script)
}

func (e *Env) shIn(b backends.Sandbox, script string) string {
	e.Helper()
	r := e.in(b, backends.Cmd{Shell: script})
	if r.Code != 0 {
		e.Fatalf("%s: code %d: %s%s", script, r.Code, r.Stdout, r.Stderr)
	}
	return strings.TrimSuffix(string(r.Stdout), "\n")
}

// write and read handle files of the row's box.
func (e *Env) write(path string, data []byte) {
	e.Helper()
	if err := e.box().WriteFile(e.ctx, path, data, 0); err != nil {
		e.Fatalf("write %q: %v", path, err)
	}
}

func (e *Env) read(path string) []byte {
	e.Helper()
	data, err := e.box().ReadFile(e.ctx, path, 0)
	if err != nil {
		e.Fatalf("read %q: %v", path, err)
	}
	return data
}

// same compares bytes without flooding the report.
func (e *Env) same(what string, got, want []byte) {
	e.Helper()
	if !bytes.Equal(got, want) {
		e.Errorf("%s: %d bytes %.60q, want %d bytes %.60q", what, len(got), got, len(want), want)
	}
}

// until polls a condition, every few milliseconds, to its deadline.
func (e *Env) until(what string, ok func() bool) {
	e.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			e.Fatalf("%s: not within %v", what, patience)
		case <-e.ctx.Done():
			e.Fatalf("%s: %v", what, e.ctx.Err())
		}
	}
}

// pids lists what the processes of a row wrote into the file pids.
func (e *Env) pids(b backends.Sandbox) []string {
	data, err := b.ReadFile(e.ctx, "pids", 0)
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// living lists which of the pids still run; zombies do not.
func (e *Env) living(b backends.Sandbox) []string {
	e.Helper()
	return strings.Fields(e.shIn(b, `for p in $(cat pids); do
		if { read -r line < /proc/$p/stat; } 2>/dev/null; then
			case "$line" in *") Z "*|*") X "*) ;; *) echo $p;; esac
		fi
	done; :`))
}

// gone demands that none of the pids runs any more.
func (e *Env) gone(b backends.Sandbox) {
	e.Helper()
	e.until("end of all processes", func() bool { return len(e.living(b)) == 0 })
}

// ability finds an optional ability or ends the row.
func ability[A any](e *Env) A {
	e.Helper()
	a, ok := backends.As[A](e.box())
	if !ok {
		e.Skipf("the box has no such ability")
	}
	return a
}

// The reasons to skip a row.

func isolated(e *Env) string {
	if !e.traits.Isolated {
		return "the boxes are not isolated"
	}
	return ""
}

func enforces(limit string) func(*Env) string {
	return func(e *Env) string {
		if !slices.Contains(e.opt.Enforces, limit) {
			return "the back-end does not enforce a limit of " + limit
		}
		return ""
	}
}

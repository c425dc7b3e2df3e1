package backendtest

import (
	"context"
	"errors"
	"strings"
	"time"

	"hermes/backends"
)

func killRows() []Row {
	return []Row{
		{Number: 25, Name: "time-out is a result", run: func(e *Env) {
			r := e.timedOut("echo begun; echo $$ >> pids; exec sleep 1000", 1)
			e.same("partial output", r.Stdout, []byte("begun\n"))
			e.gone(e.box())
		}},
		{Number: 26, Name: "time-out kills children", run: func(e *Env) {
			e.timedOut(`for i in 1 2 3; do sh -c 'echo $$ >> pids; exec sleep 1000' & done; wait`, 3)
			e.gone(e.box())
		}},
		{Number: 27, Name: "time-out kills what left the session", run: func(e *Env) {
			e.timedOut(`(setsid sh -c 'echo $$ >> pids; (setsid sh -c "echo \$\$ >> pids; exec sleep 1000" &); exec sleep 1000' >/dev/null 2>&1 &)
				while :; do sleep 1; done`, 2)
			e.gone(e.box())
		}},
		{Number: 28, Name: "TERM ignored", run: func(e *Env) {
			e.timedOut(`trap '' TERM INT HUP; echo $$ >> pids; while :; do sleep 1; done`, 1)
			e.gone(e.box())
		}},
		{Number: 29, Name: "more processes than allowed", needs: enforces("processes"), run: tooManyProcesses},
		{Number: 30, Name: "time-out returns soon", run: func(e *Env) {
			began := time.Now()
			r := e.exec(backends.Cmd{Shell: "trap '' TERM; while :; do sleep 1; done", Timeout: 100 * time.Millisecond})
			if took := time.Since(began); !r.TimedOut || took > patience/2 {
				e.Errorf("timed out %v, after %v", r.TimedOut, took)
			}
		}},
		{Number: 31, Name: "cancelled context", run: cancelled},
		{Number: 32, Name: "cancelled before the start", run: func(e *Env) {
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			if _, err := e.box().Exec(ctx, backends.Cmd{Shell: "touch ran"}); !errors.Is(err, context.Canceled) {
				e.Errorf("error %v", err)
			}
			if got := e.sh("ls"); got != "" {
				e.Errorf("files %q: the command ran", got)
			}
		}},
		{Number: 33, Name: "background child keeps stdout", run: func(e *Env) {
			began := time.Now()
			r := e.exec(backends.Cmd{Shell: `sh -c 'echo $$ > pids; exec sleep 1000' & while [ ! -s pids ]; do :; done; echo done`})
			e.same("stdout", r.Stdout, []byte("done\n"))
			if took := time.Since(began); r.Code != 0 || took > patience/2 {
				e.Errorf("code %d after %v", r.Code, took)
			}
			if len(e.living(e.box())) != 1 {
				e.Errorf("the child in the background did not go on")
			}
		}},
		{Number: 34, Name: "stopped process killed", run: func(e *Env) {
			e.timedOut("echo $$ >> pids; kill -STOP $$", 1)
			e.gone(e.box())
		}},
		{Number: 35, Name: "no zombies pile up", needs: isolated, run: func(e *Env) {
			for range 200 {
				e.exec(backends.Cmd{Shell: "(true &) ; true"})
			}
			e.until("reaping of orphans", func() bool {
				n := e.sh(`n=0; for f in /proc/[0-9]*/stat; do
					if { read -r line < $f; } 2>/dev/null; then case "$line" in *") Z "*) n=$((n+1));; esac; fi; done; echo $n`)
				return n == "0" || n == "1" || n == "2"
			})
		}},
	}
}

// timedOut runs a script that is killed after n processes have written to pids; it
// gives a slow machine more time.
func (e *Env) timedOut(script string, n int) backends.Result {
	e.Helper()
	for limit := 300 * time.Millisecond; ; limit *= 3 {
		r := e.exec(backends.Cmd{Shell: "rm -f pids; " + script, Timeout: limit})
		if !r.TimedOut || r.Code != 124 {
			e.Fatalf("after %v: timed out %v, code %d, stderr %q", limit, r.TimedOut, r.Code, r.Stderr)
		}
		if len(e.pids(e.box())) >= n {
			return r
		}
		if limit > patience {
			e.Fatalf("the script did not start %d processes within %v", n, limit)
		}
	}
}

func cancelled(e *Env) {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	box := e.box()
	done := make(chan error, 1)
	go func() {
		_, err := box.Exec(ctx, backends.Cmd{Shell: "trap '' TERM; (setsid sh -c 'echo $$ >> pids; exec sleep 1000' &); echo $$ >> pids; while :; do sleep 1; done"})
		done <- err
	}()
	e.until("start of the command", func() bool { return len(e.pids(box)) == 2 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		e.Errorf("error %v", err)
	}
	e.gone(box)
}

// tooManyProcesses stays bounded even where the limit does not hold: at most 511
// processes. The limit is looked at first, with 150 plain children.
func tooManyProcesses(e *Env) {
	box := e.open(backends.Spec{Limits: backends.Limits{Processes: 64}})
	// The children come from a subshell: a bash that cannot fork waits for fifteen seconds.
	// Counting needs no process, and goes on 300 times after the children began to appear.
	r, err := box.Exec(e.ctx, backends.Cmd{Shell: `(i=0; while [ $i -lt 150 ]; do sleep 20 & i=$((i+1)); done) >/dev/null 2>&1 &
		max=0; k=0; all=0; while [ $k -lt 300 ] && [ $all -lt 20000 ]; do
			n=0; for p in /proc/[0-9]*; do n=$((n+1)); done
			[ $n -gt $max ] && max=$n; all=$((all+1)); [ $max -ge 10 ] && k=$((k+1))
		done; echo $max`, Timeout: patience})
	if errors.Is(err, backends.ErrBroken) {
		return
	}
	if err != nil {
		e.Fatalf("150 children: %v", err)
	}
	if got := strings.TrimSpace(string(r.Stdout)); len(got) != 2 {
		e.Fatalf("%s processes run in a box that may have 64", got)
	}
	_, err = box.Exec(e.ctx, backends.Cmd{Shell: `f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & wait; }; sleep 5; }; f 8`, Timeout: 2 * time.Second})
	if err != nil && !errors.Is(err, backends.ErrBroken) {
		e.Fatalf("a bomb of 511 processes: %v", err)
	}
	if err == nil {
		if r, err := box.Exec(e.ctx, backends.Cmd{Shell: "echo alive"}); err == nil && string(r.Stdout) != "alive\n" {
			e.Errorf("after the bomb: %q %q", r.Stdout, r.Stderr)
		} else if err != nil && !errors.Is(err, backends.ErrBroken) {
			e.Errorf("after the bomb: %v", err)
		}
	}
}

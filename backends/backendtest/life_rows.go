package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"hermes/backends"
)

func lifeRows() []Row {
	return []Row{
		{Number: 58, Name: "ids unique", run: func(e *Env) {
			seen := map[string]bool{}
			for range 4 {
				id := e.open(backends.Spec{}).ID()
				if id == "" || seen[id] {
					e.Errorf("id %q twice or empty", id)
				}
				seen[id] = true
			}
		}},
		{Number: 60, Name: "close twice, close during exec", run: closeDuring},
		{Number: 61, Name: "calls after close", run: afterClose},
		{Number: 62, Name: "32 boxes at once", run: many},
		{Number: 63, Name: "cancelled open", run: func(e *Env) {
			ctx, cancel := context.WithCancel(e.ctx)
			cancel()
			if box, err := e.back.Open(ctx, backends.Spec{}); !errors.Is(err, context.Canceled) {
				if box != nil {
					e.boxes = append(e.boxes, box)
				}
				e.Errorf("error %v", err)
			}
		}},
		{Number: 64, Name: "box killed during exec", needs: canKill, run: func(e *Env) {
			box := e.box()
			done := make(chan error, 1)
			go func() {
				_, err := box.Exec(e.ctx, backends.Cmd{Shell: "echo $$ > pids; exec sleep 1000"})
				done <- err
			}()
			e.until("start of the command", func() bool { return len(e.pids(box)) == 1 })
			if err := e.opt.Kill(box); err != nil {
				e.Fatalf("kill: %v", err)
			}
			if err := <-done; !errors.Is(err, backends.ErrLost) {
				e.Errorf("error %v", err)
			}
		}},
		{Number: 65, Name: "idle box killed", needs: canKill, run: func(e *Env) {
			e.sh("true")
			if err := e.opt.Kill(e.box()); err != nil {
				e.Fatalf("kill: %v", err)
			}
			if _, err := e.box().Exec(e.ctx, backends.Cmd{Shell: "true"}); !errors.Is(err, backends.ErrLost) {
				e.Errorf("exec: %v", err)
			}
			if _, err := e.box().ReadFile(e.ctx, "f", 0); !errors.Is(err, backends.ErrLost) {
				e.Errorf("read: %v", err)
			}
		}},
		{Number: 66, Name: "connection cut during exec", needs: func(e *Env) string {
			if e.opt.Cut == nil {
				return "there is no connection to cut"
			}
			return ""
		}, run: func(e *Env) {
			box := e.box()
			type answer struct {
				r   backends.Result
				err error
			}
			done := make(chan answer, 1)
			go func() {
				r, err := box.Exec(e.ctx, backends.Cmd{Shell: "echo $$ >> pids; while [ ! -e go ]; do sleep 0.05; done; echo once"})
				done <- answer{r, err}
			}()
			e.until("start of the command", func() bool { return len(e.pids(box)) == 1 })
			if err := e.opt.Cut(box); err != nil {
				e.Fatalf("cut: %v", err)
			}
			e.write("go", nil)
			a := <-done
			if a.err != nil || string(a.r.Stdout) != "once\n" || len(e.pids(box)) != 1 {
				e.Errorf("error %v, stdout %q, runs %v", a.err, a.r.Stdout, e.pids(box))
			}
		}},
		{Number: 70, Name: "unknown image", run: func(e *Env) {
			box, err := e.back.Open(e.ctx, backends.Spec{Image: "hermes-no-such-image:none"})
			if err == nil {
				e.boxes = append(e.boxes, box)
			}
			if !errors.Is(err, backends.ErrImage) {
				e.Errorf("error %v", err)
			}
		}},
	}
}

func canKill(e *Env) string {
	if e.opt.Kill == nil {
		return "the box is nothing that could be killed by itself"
	}
	return ""
}

func closeDuring(e *Env) {
	box := e.box()
	done := make(chan error, 1)
	go func() {
		_, err := box.Exec(e.ctx, backends.Cmd{Shell: "echo $$ > pids; exec sleep 1000"})
		done <- err
	}()
	e.until("start of the command", func() bool { return len(e.pids(box)) == 1 })
	if err := box.Close(e.ctx); err != nil {
		e.Errorf("close: %v", err)
	}
	if err := <-done; !errors.Is(err, backends.ErrLost) && !errors.Is(err, backends.ErrClosed) && !errors.Is(err, context.Canceled) {
		e.Errorf("exec: %v", err)
	}
	if err := box.Close(e.ctx); err != nil {
		e.Errorf("close again: %v", err)
	}
}

func afterClose(e *Env) {
	box := e.box()
	if err := box.Close(e.ctx); err != nil {
		e.Fatalf("close: %v", err)
	}
	_, err1 := box.Exec(e.ctx, backends.Cmd{Shell: "true"})
	_, err2 := box.ReadFile(e.ctx, "f", 0)
	err3 := box.WriteFile(e.ctx, "f", nil, 0)
	for i, err := range []error{err1, err2, err3} {
		if !errors.Is(err, backends.ErrClosed) {
			e.Errorf("call %d: %v", i, err)
		}
	}
}

func many(e *Env) {
	n := 32
	if e.traits.Slots > 0 {
		n = min(n, e.traits.Slots)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]bool{}
	for i := range n {
		all.Go(func() {
			box, err := e.back.Open(e.ctx, backends.Spec{})
			if err != nil {
				e.Errorf("open %d: %v", i, err)
				return
			}
			mu.Lock()
			e.boxes = append(e.boxes, box)
			seen[box.ID()] = true
			mu.Unlock()
			err = box.WriteFile(e.ctx, "me", fmt.Append(nil, i), 0)
			r, err2 := box.Exec(e.ctx, backends.Cmd{Shell: "cat me"})
			if err := errors.Join(err, err2); err != nil || strings.TrimSpace(string(r.Stdout)) != fmt.Sprint(i) {
				e.Errorf("box %d: %q, %v", i, r.Stdout, err)
			}
		})
	}
	all.Wait()
	if len(seen) != n {
		e.Errorf("%d boxes of %d", len(seen), n)
	}
}

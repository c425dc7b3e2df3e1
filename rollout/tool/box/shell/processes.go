package shell

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"hermes/backends"
)

// MaxProcesses are tracked at once; the oldest that has ended makes room.
const MaxProcesses = 64

// Process is a command in the background.
type Process struct {
	backends.Process
	Name    string // as the model calls it
	Command string
	Dir     string
	Began   time.Time

	done chan struct{} // closed when it has ended and the fields below are set

	mu     sync.Mutex
	killed bool
	code   int
	ended  time.Time
	err    error // the box failed
}

// Processes are the background processes of a rollout.
type Processes struct {
	now    func() time.Time
	ctx    context.Context // ends with the rollout, not with the call that started a process
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	list   []*Process
}

// NewProcesses returns an empty table, to be closed at the end of the rollout.
func NewProcesses(now func() time.Time) *Processes {
	ctx, cancel := context.WithCancel(context.Background())
	return &Processes{now: now, ctx: ctx, cancel: cancel}
}

// Close ends all processes.
func (t *Processes) Close(ctx context.Context) error {
	for _, p := range t.All() {
		if p.running() {
			_ = p.Process.Kill(ctx, 0) // the box ends what is left
		}
	}
	t.cancel()
	t.wg.Wait()
	return nil
}

// Add makes room and follows a started process to its end, which notify (nil: no one) gets as a
// text. It returns false where too many are running.
func (t *Processes) Add(p *Process, notify func(string)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) >= MaxProcesses {
		i := slices.IndexFunc(t.list, func(p *Process) bool { return !p.running() })
		if i < 0 {
			return false
		}
		t.list = slices.Delete(t.list, i, i+1)
	}
	p.done = make(chan struct{})
	t.list = append(t.list, p)
	t.wg.Go(func() {
		r, err := p.Wait(t.ctx)
		p.mu.Lock()
		p.code = r.Code
		p.err = err
		p.ended = t.now()
		if p.killed {
			p.code, p.err = -15, nil
		}
		p.mu.Unlock()
		close(p.done)
		if notify != nil && err == nil {
			out, _ := p.Tail(t.ctx, 2000)
			notify(fmt.Sprintf("Background process %s has ended with exit code %d.\nCommand: %s\nOutput:\n%s", p.Name, p.code, p.Command, out))
		}
	})
	return true
}

// Find returns the process of a name, or nil.
func (t *Processes) Find(name string) *Process {
	for _, p := range t.All() {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// All lists the processes in the order in which they were added.
func (t *Processes) All() []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.list)
}

func (p *Process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended returns how a process has ended: its exit code (-15: it was killed), when, and the error
// of a box that failed. It is false while the process runs.
func (p *Process) Ended() (code int, at time.Time, err error, ok bool) {
	if p.running() {
		return 0, time.Time{}, nil, false
	}
	return p.code, p.ended, p.err, true
}

// Tail returns the newest n characters of the output.
func (p *Process) Tail(ctx context.Context, n int) (string, error) {
	raw, _, _, err := p.Output(ctx, 0, 0)
	if err != nil {
		return "", fmt.Errorf("output of process %s: %w", p.Name, err)
	}
	runes := []rune(Clean(raw))
	return string(runes[max(0, len(runes)-n):]), nil
}

// Kill ends the process, by force after the grace, and waits for its end.
func (p *Process) Kill(ctx context.Context, grace time.Duration) error {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	if err := p.Process.Kill(ctx, grace); err != nil {
		return fmt.Errorf("kill process %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

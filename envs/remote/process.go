package remote

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// grace is how long a program may go on after its stdin was closed, and how long what is
// left of its output is read after its end.
const grace = time.Second

// process is a child with all that it starts.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *os.File
	once sync.Once
	exit chan struct{} // closed when the child was reaped
	all  *family

	mu     sync.Mutex
	reaped bool // its number may belong to another process now

	tail *tail
	err  *os.File
	said sync.WaitGroup
}

// startProcess starts argv in the folder of hermes, with the environment variables that the
// settings let through and more. The callback gets each line of its stderr.
func startProcess(c Config, argv []string, stderr func(string), more ...string) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), exit: make(chan struct{}), tail: &tail{}}
	vars, err := c.variables(p.cmd.Environ())
	if err != nil {
		return nil, err
	}
	p.cmd.Env = append(vars, more...)
	p.all = newFamily()
	p.all.prepare(p.cmd)
	fail := func(err error, open ...io.Closer) (*process, error) {
		for _, f := range open {
			f.Close()
		}
		p.all.forget()
		return nil, fmt.Errorf("start %q: %w", strings.Join(argv, " "), err)
	}
	inEnd, in, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer inEnd.Close()
	out, outEnd, err := os.Pipe()
	if err != nil {
		return fail(err, in)
	}
	errs, errEnd, err := os.Pipe()
	if err != nil {
		return fail(err, in, out, outEnd)
	}
	p.in = in
	p.out = out
	p.err = errs
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inEnd, outEnd, errEnd
	started := make(chan error, 1)
	go func() { // joined through exit
		// The kernel kills the child when this thread ends, not only when hermes does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		if err != nil && p.all.unborn() { // a kernel or a filter that has no births in cgroups
			p.cmd = &exec.Cmd{Path: p.cmd.Path, Args: p.cmd.Args, Env: p.cmd.Env, Stdin: inEnd, Stdout: outEnd, Stderr: errEnd, SysProcAttr: p.cmd.SysProcAttr}
			err = p.cmd.Start()
		}
		started <- err
		if err != nil {
			return
		}
		p.all.started(p.cmd.Process.Pid)
		waitExit(p.cmd)
		p.kill() // its children; while it is not reaped no other process has its number
		p.mu.Lock()
		p.reaped = true
		p.mu.Unlock()
		_ = p.cmd.Wait() // ProcessState tells
		p.all.forget()
		deadline := time.Now().Add(grace)
		_, _ = p.out.SetReadDeadline(deadline), p.err.SetReadDeadline(deadline) // its children may hold them open
		close(p.exit)
	}()
	err = <-started
	outEnd.Close()
	errEnd.Close()
	if err != nil {
		return fail(err, in, out, errs)
	}
	p.said.Go(func() { p.listen(stderr) })
	return p, nil
}

// listen reads stderr. It keeps the end for errors and calls the callback with each line.
func (p *process) listen(stderr func(string)) {
	r := bufio.NewReaderSize(p.err, 4096)
	for {
		line, err := r.ReadSlice('\n') // a longer line comes in pieces
		p.tail.add(line)
		if text := strings.TrimRight(string(line), "\r\n"); text != "" {
			stderr(strings.ToValidUTF8(text, "�"))
		}
		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}

// ask closes stdin, the sign to end, and gives the program a moment.
func (p *process) ask() {
	p.in.Close()
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.exit:
	case <-t.C:
	}
}

// kill ends the program and what it has started, unless it has ended.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.all.kill(p.cmd.Process.Pid)
	}
}

// finish ends what is left of the process group and returns how the program ended.
func (p *process) finish(now bool) string {
	p.once.Do(func() {
		if !now {
			p.ask() // its stdout is closed; it may be about to end
		}
		p.kill()
		<-p.exit
		p.said.Wait()
		p.in.Close()
		p.out.Close()
		p.err.Close()
	})
	return p.cmd.ProcessState.String()
}

// lastWords is the end of stderr, for errors.
func (p *process) lastWords() string {
	text := strings.TrimSpace(p.tail.text())
	if text == "" {
		return ""
	}
	return "; the end of its stderr:\n" + text
}

// tail keeps the last bytes of a stream. It is safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
	cut bool
}

const tailSize = 4096

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	if over := t.buf.Len() - tailSize; over > 0 {
		t.buf.Next(over)
		t.cut = true
	}
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(t.buf.String(), "")
	if t.cut {
		text = "…" + text
	}
	return text
}

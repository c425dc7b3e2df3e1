//go:build linux

package pipes

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"hermes/backends"
)

// Streams are our ends of the pipes of commands, while they are read and fed. A host of package
// host has its own; a driver whose commands are started by something else makes one with [New].
// It is safe for concurrent use.
type Streams struct {
	buffers sync.Pool // of *[chunk]byte
	mu      sync.Mutex
	shut    bool
	open    map[io.Closer]bool
}

// New returns an empty Streams.
func New() *Streams {
	return &Streams{open: map[io.Closer]bool{}, buffers: sync.Pool{New: func() any { return new([chunk]byte) }}}
}

// Keep remembers a pipe that Close must close; it reports false after Close.
func (s *Streams) Keep(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return false
	}
	s.open[c] = true
	return true
}

// Drop closes a pipe and forgets it.
func (s *Streams) Drop(c io.Closer) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	c.Close()
}

// Close closes every pipe for good. Background processes have no reader then.
func (s *Streams) Close() {
	s.mu.Lock()
	s.shut = true
	s.mu.Unlock()
	s.Cut()
}

// Cut closes every pipe that is open now.
func (s *Streams) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		c.Close()
	}
	clear(s.open)
}

// Files are what a command is started with: its ends of its streams, and the files that it
// may ask for.
type Files struct {
	In, Out, Err *os.File
	Report       *os.File // of backends.Cmd.Report, at ReportFD; nil: none
	Kept         *os.File // of backends.Cmd.Kept, at backends.KeptFD; nil: none
}

// Run makes the files of a command, has it started with them, which start must not keep, and
// returns what they hold with the end that wait reports: a result without outputs. wait ends
// what could still write a report. What a process in the background writes after the command's
// end is not in the outputs. Errors of start and wait are returned as they are, but for a
// refusal, which is a result.
func (s *Streams) Run(c backends.Cmd, start func(Files) (wait func() (backends.Result, error), _ error)) (backends.Result, error) {
	began := time.Now()
	kept, err := NewKept(c.Kept)
	if err != nil {
		return backends.Result{}, err
	}
	if kept != nil {
		defer kept.Close()
	}
	report, err := newReport(c)
	if err != nil {
		return backends.Result{}, err
	}
	if report != nil {
		defer report.Close()
	}
	out, errs := newCapture(c.MaxOutput, c.Keep), newCapture(c.MaxOutput, c.Keep)
	p, err := NewEnds(c.Stdin != nil, c.Merge)
	if err != nil {
		return backends.Result{}, fmt.Errorf("pipes of a command: %w", err)
	}
	wait, err := start(Files{In: p.Child.In, Out: p.Child.Out, Err: p.Child.Err, Kept: kept, Report: report})
	p.CloseChild()
	if err != nil {
		p.CloseOurs()
		if r, ok := errors.AsType[Refusal](err); ok {
			return Refused(c, r, began), nil
		}
		return backends.Result{}, err
	}
	reads := []*Reader{s.Read(p.Out, out)}
	if p.Err != nil {
		reads = append(reads, s.Read(p.Err, errs))
	}
	if p.In != nil {
		s.Keep(p.In)
		go func() { // the command need not read it
			p.In.Write(c.Stdin)
			s.Drop(p.In)
		}()
	}
	r, err := wait()
	for _, x := range reads {
		x.Settle()
	}
	if p.In != nil {
		s.Drop(p.In) // ends the write of input that the command does not read
	}
	if err != nil {
		return backends.Result{}, err
	}
	r.Took = time.Since(began)
	var cut1, cut2 int64
	r.Stdout, r.OutBytes, cut1 = out.seal()
	r.Stderr, r.ErrBytes, cut2 = errs.seal()
	r.Dropped = cut1 + cut2
	r.Truncated = r.Dropped > 0
	if kept != nil {
		r.Kept = ReadKept(kept)
	}
	if report != nil {
		r.Report = readReport(report)
	}
	return r, nil
}

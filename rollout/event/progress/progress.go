// Package progress shows how a run gets on: a bar on a terminal, a plain line now and
// then elsewhere. A [Progress] is an event.Observer.
//
// What it writes is for people and never decides anything: an output that can no longer
// be written to (a closed terminal) silences it, and the run goes on. The width of the
// terminal is asked at every drawing, so a resized window is followed.
//
// A Progress is safe for concurrent use. Observing only counts; one goroutine, which
// Close waits for, draws.
package progress

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"hermes/internal/printable"
	"hermes/rollout/event"
)

// Mode chooses the form.
type Mode string

// The modes. Auto is a bar on a terminal and plain lines elsewhere.
const (
	Auto  Mode = "auto"
	Bar   Mode = "bar"
	Plain Mode = "plain"
	None  Mode = "none"
)

// Options tune a [Progress]. Only Out is needed.
type Options struct {
	Mode  Mode
	Out   io.Writer
	Width func() int    // columns of the terminal behind Out; nil: no terminal
	Total int64         // samples planned; 0: unknown
	Kept  int64         // of them finished in an earlier start
	Every time.Duration // between plain lines; 0: 30s
}

// redraw is the time between two drawings of the bar.
const redraw = 200 * time.Millisecond

// Progress shows a run. Make it with [New], end it with Close.
type Progress struct {
	o    Options
	mode Mode

	mu     sync.Mutex
	counts *counts
	dead   bool // Out cannot be written to
	bar    *progressbar.ProgressBar
	width  int  // columns that bar was made for
	drawn  bool // a bar is on the last line

	quit, done chan struct{}
	once       sync.Once
}

// New starts showing. An unknown mode is an error.
func New(o Options) (*Progress, error) {
	p := &Progress{o: o, mode: cmp.Or(o.Mode, Auto), counts: newCounts(o.Total, o.Kept, time.Now()),
		quit: make(chan struct{}), done: make(chan struct{})}
	every := cmp.Or(o.Every, 30*time.Second)
	switch p.mode {
	case Auto:
		p.mode = Plain
		if o.Width != nil {
			p.mode = Bar
		}
	case Bar, Plain, None:
	default:
		return nil, fmt.Errorf("progress %q: want auto, bar, plain or none", o.Mode)
	}
	if p.mode == Bar {
		every = redraw
	}
	if p.mode == None || o.Out == nil {
		p.mode = None
		close(p.done)
		return p, nil
	}
	go p.loop(every)
	return p, nil
}

func (p *Progress) loop(every time.Duration) {
	defer close(p.done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.mu.Lock()
			p.show()
			p.mu.Unlock()
		case <-p.quit:
			return
		}
	}
}

// Close shows the last state and ends. It may be called more than once.
func (p *Progress) Close() error {
	p.once.Do(func() {
		close(p.quit)
		<-p.done
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mode == Bar {
			p.clear()
		}
		if p.mode != None {
			p.write(p.counts.line(time.Now()) + "\n")
		}
		p.mode = None
	})
	return nil
}

// SetTotal tells how many samples are planned once it is known.
func (p *Progress) SetTotal(total, kept int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.done += kept - p.counts.kept
	p.counts.total, p.counts.kept = total, kept
	p.bar = nil
}

// Observe counts an event; notes are shown at once.
func (p *Progress) Observe(e event.Event) {
	if _, often := e.(event.Delta); often {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts.observe(e, time.Now())
	if n, ok := e.(event.Note); ok && p.mode != None {
		p.clear()
		p.write(strings.TrimRight(printable.Text(n.Text), "\n") + "\n")
	}
}

// Writer passes text for people on to Out without tearing the bar: log lines go through
// it. Write whole lines; an error of Out is not reported.
func (p *Progress) Writer() io.Writer { return writer{p} }

type writer struct{ p *Progress }

func (w writer) Write(b []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.clear()
	if w.p.o.Out != nil {
		w.p.write(printable.Text(string(b)))
	}
	return len(b), nil
}

// show draws the present state.
func (p *Progress) show() {
	now := time.Now()
	if p.mode == Plain {
		p.write(p.counts.line(now) + "\n")
		return
	}
	p.draw(now)
}

// write sends text to Out; the first error silences Progress for good.
func (p *Progress) write(text string) {
	if p.dead {
		return
	}
	if _, err := io.WriteString(p.o.Out, text); err != nil {
		p.dead = true
	}
}

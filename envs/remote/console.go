package remote

import (
	"log/slog"
	"sync"
)

// Bounds of what a program's stderr may put into the log.
const (
	keptLines   = 50    // before there is a log
	loggedLines = 1_000 // over the whole run
	lineLength  = 500   // bytes
)

// console takes the lines that workers write to stderr. It is safe for concurrent use.
type console struct {
	mu    sync.Mutex
	log   *slog.Logger
	early []func(*slog.Logger)
	lines int
}

// line tells a line of a worker; worker 0 is this side.
func (c *console) line(worker int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines++
	if c.lines > loggedLines {
		return
	}
	say := func(l *slog.Logger) { l.Info("environment: "+clip(text, lineLength), "worker", worker) }
	if c.lines == loggedLines {
		say = func(l *slog.Logger) {
			l.Warn("the environment has written a thousand lines; no more of them are shown")
		}
	}
	switch {
	case c.log != nil:
		say(c.log)
	case len(c.early) < keptLines:
		c.early = append(c.early, say)
	}
}

func (c *console) logTo(l *slog.Logger) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = l
	for _, say := range c.early {
		say(l)
	}
	c.early = nil
}

package remote

import (
	"log/slog"
	"sync"
)

// Bounds of what a program's stderr, and its crashes, may put into the log.
const (
	keptLines   = 50    // before there is a log
	loggedLines = 1_000 // over the whole run, of each
	lineLength  = 500   // bytes
)

// console takes the lines that workers write to stderr, and what is to be said of workers.
// It is safe for concurrent use.
type console struct {
	mu    sync.Mutex
	log   *slog.Logger
	early []func(*slog.Logger)
	lines int // of workers
	warns int
}

// line tells a line of a worker.
func (c *console) line(worker int, text string) {
	c.tell(&c.lines, func(l *slog.Logger) { l.Info("environment: "+clip(text, lineLength), "worker", worker) })
}

// warn says that something was wrong with the program.
func (c *console) warn(text string) {
	c.tell(&c.warns, func(l *slog.Logger) { l.Warn("environment: " + clip(text, lineLength)) })
}

func (c *console) tell(count *int, say func(*slog.Logger)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*count++
	if *count > loggedLines {
		return
	}
	if *count == loggedLines {
		say = func(l *slog.Logger) {
			l.Warn("the environment has led to a thousand lines; no more of them are shown")
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

package wandb_test

import (
	"log/slog"
	"strings"
	"sync"
)

// locked is a buffer of several goroutines.
type locked struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// logger is a log and what it said.
func logger() (*slog.Logger, func() string) {
	l := &locked{}
	return slog.New(slog.NewTextHandler(l, nil)), func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.buf.String()
	}
}

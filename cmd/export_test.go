package cmd

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
)

// shared is a buffer that several goroutines write to, as they do to a terminal.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Run is run with streams and environment of a test's own.
func Run(ctx context.Context, environ []string, signals <-chan os.Signal, p Parts, args ...string) (code int, stdout, stderr string) {
	var out, err shared
	code = run(ctx, args, process{stdio: Stdio{In: strings.NewReader(""), Out: &out, Err: &err}, environ: environ, signals: signals}, p)
	return code, out.String(), err.String()
}

// Finish is the mapping of errors to exit codes.
func Finish(err error, s *Signals) int { return finish(err, s, func(string) {}) }

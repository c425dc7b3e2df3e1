package cmd

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"
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

// Grammar is the tree of all commands.
func Grammar(t *testing.T) *kong.Kong {
	t.Helper()
	h := &host{Stdio: Stdio{Out: io.Discard, Err: io.Discard}, Parts: Builtin()}
	k, err := h.grammar(&root{})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// HelpPages are the examples and the usual flags of commands, by their paths.
func HelpPages() (examples, usual map[string][]string) {
	examples, usual = map[string][]string{}, map[string][]string{}
	for path, p := range pages() {
		examples[path], usual[path] = p.examples, p.usual
	}
	return examples, usual
}

// Finish is the mapping of errors to exit codes.
func Finish(err error, s *Signals) int { return finish(err, s, func(string) {}) }

// Options lists the leaves of the grammar: each command with its options and arguments.
func Options() (map[string][]*kong.Value, error) {
	var grammar root
	k, err := (&host{}).grammar(&grammar)
	if err != nil {
		return nil, err
	}
	all := map[string][]*kong.Value{}
	for _, leaf := range k.Model.Leaves(false) {
		list := leaf.Positional
		for _, group := range leaf.AllFlags(false) {
			for _, f := range group {
				list = append(list, f.Value)
			}
		}
		all[leaf.Path()] = list
	}
	return all, nil
}

package cmd

import (
	"bytes"
	"context"
	"os"
	"strings"
)

// Run is run with streams and environment of a test's own.
func Run(ctx context.Context, environ []string, signals <-chan os.Signal, p Parts, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(ctx, args, process{stdio: Stdio{In: strings.NewReader(""), Out: &out, Err: &err}, environ: environ, signals: signals}, p)
	return code, out.String(), err.String()
}

// Finish is the mapping of errors to exit codes.
func Finish(err error, s *Signals) int { return finish(err, s, func(string) {}) }

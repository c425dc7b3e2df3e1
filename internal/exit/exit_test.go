package exit_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"hermes/internal/exit"
)

// TestCodes: the mark that is nearest to the cause counts, and its cause can be found.
func TestCodes(t *testing.T) {
	cause := errors.New("the cause")
	full := fmt.Errorf("write: %w", syscall.ENOSPC)
	tests := []struct {
		name string
		err  error
		code int
		says string
	}{
		{name: "none", code: 0},
		{name: "no mistake", err: exit.Usage(nil), code: 0},
		{name: "unmarked", err: cause, code: 1, says: "the cause"},
		{name: "usage", err: exit.Usage(cause), code: 2, says: "the cause"},
		{name: "usage of what has a code", err: exit.Usage(fmt.Errorf("open: %w", exit.Stopped(cause))), code: 4, says: "open: the cause"},
		{name: "failures", err: exit.Failures(cause), code: 3, says: "the cause"},
		{name: "stopped", err: exit.Stopped(cause), code: 4, says: "the cause"},
		{name: "stopped, and said already", err: exit.Stopped(nil), code: 4, says: "stopped"},
		{name: "ours", err: exit.Ours(cause), code: 1, says: "the cause"},
		{name: "a full disk", err: exit.Ours(full), code: 1, says: "make room, and the same command resumes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := exit.Code(tt.err); got != tt.code {
				t.Errorf("code %d, want %d", got, tt.code)
			}
			if exit.IsUsage(tt.err) != (tt.code == 2) || exit.IsFailures(tt.err) != (tt.code == 3) {
				t.Errorf("usage %v, failures %v", exit.IsUsage(tt.err), exit.IsFailures(tt.err))
			}
			if tt.says != "" && !strings.Contains(tt.err.Error(), tt.says) {
				t.Errorf("%q, want %q", tt.err, tt.says)
			}
			if strings.HasSuffix(tt.says, "the cause") && !errors.Is(tt.err, cause) {
				t.Errorf("the cause is lost: %v", tt.err)
			}
		})
	}
}

package box

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"hermes/backends"
)

// longCommand is what still fits into one argument of a process, with room for the wrapper.
const longCommand = 90_000

// script wraps a command: it enters the environment and directory that the last command
// left. With leave it also writes them down again, whatever ends the command. The names
// that it uses are not exported.
func (x *session) script(ctx context.Context, b backends.Sandbox, command, workdir string, leave bool) (string, error) {
	if err := x.ready(ctx, b); err != nil {
		return "", err
	}
	x.mu.Lock()
	dir := x.dir
	x.stale = x.stale || leave
	x.mu.Unlock()
	var s strings.Builder
	fmt.Fprintf(&s, "HERMES_STATE=%s\n%s", quote(dir), text("enter.sh"))
	if workdir != "" {
		if home, ok := strings.CutPrefix(workdir, "~"); ok && (home == "" || home[0] == '/') {
			fmt.Fprintf(&s, "cd -- \"$HOME\"%s || exit 126\nHERMES_KEEP_CWD=1\n", quote(home))
		} else {
			fmt.Fprintf(&s, "cd -- %s || exit 126\nHERMES_KEEP_CWD=1\n", quote(workdir))
		}
	}
	if leave {
		s.WriteString(text("leave.sh"))
	}
	if len(command) <= longCommand {
		fmt.Fprintf(&s, "eval %s", quote(command))
		return s.String(), nil
	}
	file := dir + "/" + x.name("cmd_")
	if err := b.WriteFile(ctx, file, []byte(command), 0o600); err != nil {
		return "", fmt.Errorf("write a long command: %w", err)
	}
	fmt.Fprintf(&s, "eval \"$(cat %s; command -p rm -f %s)\"", quote(file), quote(file))
	return s.String(), nil
}

// shell runs a command in the foreground.
func (x *session) shell(ctx context.Context, b backends.Sandbox, command, workdir string, timeout time.Duration) (backends.Result, error) {
	script, err := x.script(ctx, b, command, workdir, true)
	if err != nil {
		return backends.Result{}, err
	}
	return b.Exec(ctx, backends.Cmd{Shell: script, Timeout: timeout, Merge: true, MaxOutput: 512 << 10, Keep: backends.KeepBoth})
}

var ansi = regexp.MustCompile(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])`)

// clean makes text of an output: valid UTF-8 without escape sequences of a terminal.
func clean(raw []byte) string {
	return strings.ReplaceAll(ansi.ReplaceAllString(strings.ToValidUTF8(string(raw), "\uFFFD"), ""), "\x00", "")
}

// headTail keeps limit characters of an output, 40 % from its head and 60 % from its tail.
// dropped are bytes that were left out before, in the middle.
func headTail(s string, limit int, dropped int64) string {
	n := utf8.RuneCountInString(s)
	if n <= limit && dropped == 0 {
		return s
	}
	first := min(limit, n) * 2 / 5
	last := min(limit, n) - first
	runes := []rune(s)
	left := int64(n-first-last) + dropped
	return fmt.Sprintf("%s\n\n[... %d of %d characters left out ...]\n\n%s", string(runes[:first]), left, int64(n)+dropped, string(runes[n-last:]))
}

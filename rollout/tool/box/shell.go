package box

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hermes/backends"
	"hermes/internal/late"
)

// The shell of a session is a new one for each command. What stays between two commands
// travels through one file without a name, backends.Cmd.Kept: before the command it holds
// the text that makes the shell what the last one was, after it what the shell wrote down at
// its end. Nothing but the shell itself runs for that, the box's files and the shell's PATH,
// functions and aliases have no part in it, and a state that is not complete, as one of a
// shell that was killed while it wrote, is not taken.
//
// bash reads the text because BASH_ENV names it, and has the model's command and nothing
// else as its command line. Other shells have it read by a dot command.

// kind is how a box's shell is started.
type kind string

// The kinds of shells, as start.sh names them.
const (
	bash     kind = "bash"       // by BASH_ENV
	bashAsSh kind = "bash-as-sh" // bash that does not look at BASH_ENV
	posix    kind = "sh"
)

// keptFile is how a command opens its kept file.
var keptFile = fmt.Sprintf("/proc/self/fd/%d", backends.KeptFD)

// state is what a shell leaves for the next one. The zero value is that of a new shell.
type state struct {
	cwd, old  string // directories; old may be empty
	vars      string // exported variables, as commands of the shell
	aliases   string
	functions string
}

// Bounds of a state, in bytes: it stays in memory as long as the rollout.
const (
	maxState = 1 << 20
	maxPath  = 8192 // of the directory
)

// readState reads what leave.sh wrote. Anything else is not a state: the command may have
// written into its kept file what it likes.
func readState(kept []byte) (state, bool) {
	if len(kept) > maxState {
		return state{}, false
	}
	f := bytes.Split(kept, []byte{0})
	if len(f) != 7 || string(f[5]) != "." || len(f[6]) != 0 {
		return state{}, false
	}
	s := state{cwd: strings.TrimSuffix(string(f[0]), "\n"), old: string(f[1]), vars: string(f[2]), aliases: string(f[3]), functions: string(f[4])}
	return s, path.IsAbs(s.cwd) && len(s.cwd) <= maxPath
}

// shellOf is the session's shell, once ready has found out about it.
type shellOf struct {
	kind  kind
	home  string
	names []string // of variables that the box itself exports: one that is not in the state was unset
	// shell is what bash set SHELL to because the box exports none; empty: it does, or another shell.
	// bash asks the user database for it, a connection and half a dozen files at each start.
	shell string
	last  state
}

var (
	exported = late.Regexp(`(?m)^(?:export |declare -[a-z]* )?([A-Za-z_][A-Za-z0-9_]*)(?:=|$)`)
	ownNames = late.Regexp(`^(?:HERMES_.*|PWD|OLDPWD|SHLVL|_)$`)
)

// readStart reads what start.sh said.
func readStart(stdout, kept []byte) (shellOf, bool) {
	_, said, _ := bytes.Cut(stdout, []byte("\x00start\x00")) // the image may have its shell say something first
	f := bytes.Split(said, []byte{0})
	last, ok := readState(kept)
	if !ok || len(f) < 6 || string(f[5]) != "." {
		return shellOf{}, false
	}
	s := shellOf{kind: kind(f[0]), home: string(f[1]), last: last}
	for _, m := range exported.FindAllStringSubmatch(string(f[3]), -1) {
		if !ownNames.MatchString(m[1]) {
			s.names = append(s.names, m[1])
		}
	}
	if s.kind == bash && !slices.Contains(s.names, "SHELL") {
		s.shell = string(f[4])
	}
	s.last.cwd = strings.TrimSuffix(string(f[2]), "\n") // not where a start-up file went
	s.last.old = ""
	return s, path.IsAbs(s.last.cwd)
}

// startScript is the first command of a session.
func startScript() string {
	return "case ${BASH_VERSION-} in\n?*)\n" + text("leave.bash.sh") + ";;\n*)\n" + text("leave.sh") + ";;\nesac\n" + text("start.sh")
}

// longCommand is what still fits into one argument of a process.
const longCommand = 120_000

// command makes the command of a session's shell. With leave it writes its state down at
// its end, whatever that is; with a workdir it begins there and not where the last one ended.
func (s shellOf) command(command, workdir string, leave bool) backends.Cmd {
	var t strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&t, format+"\n", args...) }
	builtin := "builtin "
	if s.kind == posix {
		builtin = ""
	}
	if s.kind == bash {
		line("unset BASH_ENV")
	}
	if s.shell != "" {
		line("builtin export -n SHELL") // as if bash had looked it up
	}
	if leave {
		if s.kind == posix {
			t.WriteString(text("leave.sh"))
		} else {
			t.WriteString(text("leave.bash.sh"))
		}
	}
	trap := func() {
		if leave {
			line("trap '{ __leave; } 2>/dev/null' EXIT")
		}
	}
	if workdir == "" {
		trap() // as early as can be: what follows is of the session's own making
	}
	if len(s.names) > 0 {
		line("%sunset -v %s", builtin, strings.Join(s.names, " "))
	}
	if len(s.last.vars)+len(s.last.aliases) > 0 {
		line("{\n%s\n%s\n} 2>/dev/null", s.last.vars, s.last.aliases)
	}
	line(`__d=%s
until %scd -- "$__d" 2>/dev/null; do
  case $__d in /|'') break ;; */*) __d=${__d%%/*} ;; *) break ;; esac
  __d=${__d:-/}
done
unset __d`, quote(s.last.cwd), builtin)
	if s.last.old != "" {
		line("OLDPWD=%s", quote(s.last.old))
	}
	if workdir != "" {
		to := quote(workdir)
		if home, ok := strings.CutPrefix(workdir, "~"); ok && (home == "" || home[0] == '/') {
			to = `"$HOME"` + quote(home)
		}
		line("%scd -- %s 2>/dev/null || { %sprintf '%%s: not a directory that can be entered\\n' %s >&2; exit 126; }", builtin, to, builtin, to)
		trap()
	}
	c := backends.Cmd{Dir: "/"} // the box's own directory may be gone
	if s.kind != bash {
		if s.kind == bashAsSh {
			line("%s", s.last.functions)
			line("builtin shopt -s expand_aliases")
		}
		line("eval %s", quote(command))
		c.Argv = []string{"sh", "-c", ". " + keptFile}
		c.Kept = []byte(t.String())
		return c
	}
	c.Shell = command
	c.Env = map[string]string{"BASH_ENV": keptFile}
	if s.shell != "" {
		c.Env["SHELL"] = s.shell
	}
	if len(command) > longCommand {
		line("__c=%s", quote(command))
		c.Shell = `eval "unset __c
$__c"`
	}
	line("%s", s.last.functions) // parsed before aliases are expanded
	line("builtin shopt -s expand_aliases")
	c.Kept = []byte(t.String())
	return c
}

// command makes a command of the session, which it starts where that has not been done.
func (x *session) command(ctx context.Context, b backends.Sandbox, command, workdir string, leave bool) (backends.Cmd, error) {
	if err := x.ready(ctx, b); err != nil {
		return backends.Cmd{}, err
	}
	x.mu.Lock()
	sh := *x.sh
	x.acted = true
	x.mu.Unlock()
	return sh.command(command, workdir, leave), nil
}

// shell runs a command in the foreground.
func (x *session) shell(ctx context.Context, b backends.Sandbox, command, workdir string, timeout time.Duration) (backends.Result, error) {
	c, err := x.command(ctx, b, command, workdir, true)
	if err != nil {
		return backends.Result{}, err
	}
	c.Timeout = timeout
	c.Merge = true
	c.MaxOutput = 512 << 10
	c.Keep = backends.KeepBoth
	r, err := b.Exec(ctx, c)
	if err != nil {
		return r, err
	}
	if s, ok := readState(r.Kept); ok {
		x.mu.Lock()
		if workdir != "" {
			s.cwd, s.old = x.sh.last.cwd, x.sh.last.old
		}
		x.sh.last = s
		x.mu.Unlock()
	}
	return r, nil
}

var ansi = late.Regexp(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])`)

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

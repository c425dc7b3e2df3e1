package shell

import (
	"bytes"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"hermes/backends"
	"hermes/internal/late"
)

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

// facts are what is known of a box's shell once it was started.
type facts struct {
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
func readStart(stdout, kept []byte) (facts, bool) {
	_, said, _ := bytes.Cut(stdout, []byte("\x00start\x00")) // the image may have its shell say something first
	f := bytes.Split(said, []byte{0})
	last, ok := readState(kept)
	if !ok || len(f) < 6 || string(f[5]) != "." {
		return facts{}, false
	}
	s := facts{kind: kind(f[0]), home: string(f[1]), last: last}
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

var (
	//go:embed start.sh
	start string // finds out about the shell and reads the start-up files
	//go:embed leave.sh
	leavePOSIX string // writes the state down
	//go:embed leave.bash.sh
	leaveBash string
)

// startScript is the first command of a session.
func startScript() string {
	return "case ${BASH_VERSION-} in\n?*)\n" + leaveBash + ";;\n*)\n" + leavePOSIX + ";;\nesac\n" + start
}

// longCommand is what still fits into one argument of a process.
const longCommand = 120_000

// command makes the command of a session's shell. With leave it writes its state down at
// its end, whatever that is; with a workdir it begins there and not where the last one ended.
func (s facts) command(command, workdir string, leave bool) backends.Cmd {
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
			t.WriteString(leavePOSIX)
		} else {
			t.WriteString(leaveBash)
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
unset __d`, Quote(s.last.cwd), builtin)
	if s.last.old != "" {
		line("OLDPWD=%s", Quote(s.last.old))
	}
	if workdir != "" {
		to := Quote(workdir)
		if home, ok := strings.CutPrefix(workdir, "~"); ok && (home == "" || home[0] == '/') {
			to = `"$HOME"` + Quote(home)
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
		line("eval %s", Quote(command))
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
		line("__c=%s", Quote(command))
		c.Shell = `eval "unset __c
$__c"`
	}
	line("%s", s.last.functions) // parsed before aliases are expanded
	line("builtin shopt -s expand_aliases")
	c.Kept = []byte(t.String())
	return c
}

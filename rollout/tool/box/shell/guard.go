package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"hermes/internal/late"
)

var runners = late.Regexp(`^(?:npx\s+)?((?:npm|pnpm|yarn|bun)\s+(?:run\s+)?(?:dev|start|serve|watch)\b|docker[ -]compose\s+up\b|next\s+dev\b|vite(?:\s+(?:dev|serve|preview)\b|\s*$)|nodemon\b|uvicorn\b|gunicorn\b|python3?\s+-m\s+http\.server\b)`)

// LongRunner says why a command does not belong into the foreground, or "". A command that
// is not understood is the shell's to judge.
func LongRunner(command string) string {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return ""
	}
	const advice = "; start it with background=true and watch it with the process tool"
	why := ""
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || why != "" {
			return why == ""
		}
		words := plainWords(call)
		if len(words) > 1 && words[0] == "sudo" {
			words = words[1:]
		}
		if len(words) == 0 {
			return true
		}
		if slices.Contains([]string{"nohup", "setsid", "disown"}, words[0]) {
			why = words[0] + " does not work in a foreground command" + advice
			return false
		}
		if m := runners.FindStringSubmatch(strings.Join(words, " ")); m != nil && !slices.ContainsFunc(words, endsAtOnce) {
			why = "'" + m[1] + "' usually runs until it is stopped" + advice
		}
		return why == ""
	})
	if why != "" {
		return why
	}
	j := jobs{waits: map[string]bool{}}
	if j.list(file.Stmts); j.left || j.open {
		return "'&' would leave a process behind that nobody can see" + advice + ", or end with wait"
	}
	return ""
}

// endsAtOnce are words with which a server only says something, or goes into the background
// by itself.
func endsAtOnce(word string) bool {
	return slices.Contains([]string{"--help", "--version", "-h", "-V", "-d", "--detach"}, word)
}

// plainWords are the words of a command; one that is not plain text is two quotes.
func plainWords(c *syntax.CallExpr) []string {
	words := make([]string, len(c.Args))
	for i, w := range c.Args {
		words[i] = w.Lit()
		if words[i] == "" {
			words[i] = "''"
		}
	}
	return words
}

// jobs looks for background jobs that outlive the shell that starts them. One is a shell: a
// subshell, a substitution and a part of a pipe each have their own jobs, which a wait of
// the others does not wait for.
type jobs struct {
	open  bool            // a job was started and not waited for yet
	left  bool            // one of an inner shell is never waited for
	waits map[string]bool // functions that wait
}

func (j *jobs) list(all []*syntax.Stmt) {
	for _, s := range all {
		j.stmt(s)
	}
}

func (j *jobs) stmt(s *syntax.Stmt) {
	if s.Background {
		inner := *s
		inner.Background = false
		j.shell(&inner)
		j.open = true
		return
	}
	j.node(s)
}

// shell looks at statements that run in their own shell.
func (j *jobs) shell(all ...*syntax.Stmt) {
	in := jobs{waits: j.waits}
	in.list(all)
	j.left = j.left || in.left || in.open
}

// node looks at what runs in this shell below a node, in the order of its text.
func (j *jobs) node(top syntax.Node) {
	syntax.Walk(top, func(n syntax.Node) bool {
		if n == nil || n == top {
			return true
		}
		switch n := n.(type) {
		case *syntax.Stmt:
			j.stmt(n)
			return false
		case *syntax.Subshell:
			j.shell(n.Stmts...)
			return false
		case *syntax.CmdSubst:
			j.shell(n.Stmts...)
			return false
		case *syntax.ProcSubst:
			j.shell(n.Stmts...)
			return false
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				j.shell(n.X)
				j.shell(n.Y)
				return false
			}
		case *syntax.FuncDecl:
			body := jobs{waits: j.waits, open: true}
			body.stmt(n.Body)
			j.waits[n.Name.Value] = !body.open
		case *syntax.CallExpr:
			words := plainWords(n)
			if len(words) > 1 && (words[0] == "command" || words[0] == "builtin") {
				words = words[1:]
			}
			if len(words) > 0 && (words[0] == "wait" || j.waits[words[0]]) {
				j.open = false
				return false
			}
		}
		return true
	})
}

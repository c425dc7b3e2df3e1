package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"unicode/utf8"

	"hermes/internal/printable"
	"hermes/rollout/tool"
)

// maxLine bounds one message of the user, in bytes.
const maxLine = 16 << 20

// lines reads the user's lines, each when somebody wants it. A read that is given up goes
// on; the next one gets its line. It is for one goroutine at a time.
type lines struct {
	scan  *bufio.Scanner
	got   chan line // of the read under way; nil: none
	stash []string  // lines that were no answer to a question
	count int
}

type line struct {
	text string
	ok   bool
	err  error
}

func newLines(in io.Reader) *lines {
	if in == nil {
		in = strings.NewReader("")
	}
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	return &lines{scan: s}
}

// next returns the next line; ok is false at the end of the input.
func (l *lines) next(ctx context.Context) (text string, ok bool, err error) {
	if len(l.stash) > 0 {
		text, l.stash = l.stash[0], l.stash[1:]
		return text, true, nil
	}
	return l.read(ctx)
}

func (l *lines) read(ctx context.Context) (string, bool, error) {
	if l.got == nil {
		got := make(chan line, 1)
		l.got = got
		go func() { // ends with the read, at the latest with the process
			ok := l.scan.Scan()
			got <- line{l.scan.Text(), ok, l.scan.Err()}
		}()
	}
	select {
	case n := <-l.got:
		l.got = nil
		l.count++
		switch {
		case errors.Is(n.err, bufio.ErrTooLong):
			n.err = fmt.Errorf("line %d: more than %d bytes", l.count, maxLine)
		case errors.Is(n.err, syscall.EIO): // the terminal is gone; its signal may come later
			n.err = nil
		}
		if n.err == nil && n.ok && !utf8.ValidString(n.text) {
			n.err = fmt.Errorf("line %d: not UTF-8", l.count)
		}
		return n.text, n.ok && n.err == nil, n.err
	case <-ctx.Done():
		return "", false, context.Cause(ctx)
	}
}

// approve asks before something that is not kept from this machine.
func (r *conversation) approve(ctx context.Context, a tool.Ask) (bool, error) {
	r.ask.Lock()
	defer r.ask.Unlock()
	if r.all || r.allowed[a.Kind] {
		return true, nil
	}
	if !r.host.Terminal {
		r.screen.say("refused, since nobody can be asked without a terminal (--yes allows it): %s", short(a.What, 200))
		return false, nil
	}
	r.screen.say("%s\nThis is not kept from this machine.", strings.TrimSuffix(a.What, "\n"))
	for {
		r.screen.prompt("Allow it? [y]es, [n]o, [a]lways: all " + printable.Line(a.Kind) + " in this conversation: ")
		text, ok, err := r.lines.read(ctx)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "y", "yes":
			return true, nil
		case "a", "always":
			if r.allowed == nil {
				r.allowed = map[string]bool{}
			}
			r.allowed[a.Kind] = true
			return true, nil
		case "n", "no":
			return false, nil
		}
		if !ok {
			return false, nil
		}
		if strings.TrimSpace(text) != "" { // written before the question was seen
			r.lines.stash = append(r.lines.stash, text)
			r.screen.say("that is kept as your next message")
		}
	}
}

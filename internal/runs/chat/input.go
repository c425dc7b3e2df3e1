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

package chat

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"hermes/internal/printable"
	"hermes/rollout/event"
)

// screen shows a conversation: answers on out, everything else on err. It is safe for
// concurrent use.
type screen struct {
	out, err io.Writer
	stream   bool // show answers as they come; else only what answer is given
	clean    bool // out is looked at: no control characters of a model reach it

	mu      sync.Mutex
	unended bool  // the last line of out has no end
	shown   bool  // something of this answer was shown
	bad     error // the first failed write to out
}

// Observe shows one event.
func (s *screen) Observe(e event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := e.(type) {
	case event.Delta:
		if e.Restart && s.shown {
			s.line("the answer starts again")
			s.shown = false
		}
		if s.stream {
			s.write(e.Content)
		}
	case event.TurnEnded:
		if s.stream && !s.shown {
			s.write(e.Message.Content())
		}
		s.shut()
		s.shown = false
	case event.CallStarted:
		s.line("  " + short(e.Call.Name, 40) + " " + short(e.Call.Arguments, 100))
	case event.CallEnded:
		outcome := "done"
		if e.Failed {
			outcome = "failed"
		}
		s.line(fmt.Sprintf("  %s %s in %v: %s", short(e.Call.Name, 40), outcome, e.Took.Round(time.Millisecond), short(e.Result, 80)))
	}
}

// answer writes a whole answer on its own line.
func (s *screen) answer(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(text)
	s.shut()
}

// say tells the person a sentence.
func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line("hermes: " + printable.Text(fmt.Sprintf(format, args...)))
}

// prompt writes text that the person answers on the same line.
func (s *screen) prompt(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut()
	fmt.Fprint(s.err, text)
}

func (s *screen) endLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut()
}

// broken is the first error of writing answers.
func (s *screen) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bad != nil {
		return fmt.Errorf("write the answer: %w", s.bad)
	}
	return nil
}

func (s *screen) line(text string) {
	s.shut()
	fmt.Fprintln(s.err, text)
}

func (s *screen) shut() {
	if s.unended {
		s.write("\n")
	}
}

func (s *screen) write(text string) {
	if s.clean {
		text = printable.Text(text)
	}
	if text == "" {
		return
	}
	if _, err := io.WriteString(s.out, text); err != nil && s.bad == nil {
		s.bad = err
	}
	s.shown, s.unended = true, !strings.HasSuffix(text, "\n")
}

// short is at most n characters of text on one line.
func short(text string, n int) string {
	text = strings.TrimSpace(printable.Line(text))
	if utf8.RuneCountInString(text) > n {
		text = string([]rune(text)[:n-1]) + "…"
	}
	return text
}

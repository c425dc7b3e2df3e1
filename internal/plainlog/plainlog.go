// Package plainlog writes log records as sentences for people:
//
//	warning: trying again: connection refused (row 12, attempt 1)
//
// A record that comes many times in one interval is written once. The others are counted,
// and the count is written with the next record of its kind, or by [Handler.Flush]: an
// outage of a server is one line and a number, not a line for each request.
//
// Two records are of one kind when level, message and cause are equal. The cause is the
// attribute "cause" or, without one, "err" or "reason", with its digits left out (ports,
// request numbers). At most [maxKinds] kinds are counted; where they are full, kinds whose
// interval is over make room, and records of further kinds are written at once. Whoever asked for records below warnings sees every record: nothing is counted.
//
// A Handler is safe for concurrent use.
package plainlog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"hermes/internal/printable"
)

// Interval is the time in which records of one kind are counted in place of written.
const Interval = 30 * time.Second

// maxKinds bounds the memory of the counts.
const maxKinds = 256

// longest bounds a line in bytes: a cause may be the whole page that a server answered.
const longest = 4096

// Handler is a slog.Handler. Make it with [New].
type Handler struct {
	out   *output
	level slog.Leveler
	attrs []slog.Attr
	group string // prefix of attribute names, with its dot
}

// output is what handlers made by WithAttrs and WithGroup share.
type output struct {
	mu    sync.Mutex
	w     io.Writer
	kinds map[kind]*count
}

// kind says which records are alike.
type kind struct {
	level   slog.Level
	message string
	cause   string
}

// count is what is known of the records of a kind since one of them was written.
type count struct {
	since time.Time
	more  int    // not written
	last  string // the newest of them
}

// New writes records of at least level to w, a whole line with each call of Write.
func New(w io.Writer, level slog.Leveler) *Handler {
	return &Handler{out: &output{w: w, kinds: map[kind]*count{}}, level: level}
}

// Enabled reports whether records of this level are written.
func (h *Handler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// WithAttrs adds attributes to every record.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = slices.Clone(h.attrs)
	for _, a := range attrs {
		next.attrs = append(next.attrs, h.named(a))
	}
	return &next
}

// WithGroup puts a prefix before the names of later attributes.
func (h *Handler) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}

func (h *Handler) named(a slog.Attr) slog.Attr {
	a.Key = h.group + a.Key
	return a
}

// Handle writes or counts a record.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, h.named(a))
		return true
	})
	line := sentence(r.Level, r.Message, attrs)
	if h.level.Level() < slog.LevelWarn {
		return h.out.write(line)
	}
	return h.out.add(kind{r.Level, r.Message, cause(attrs)}, line, r.Time)
}

// Flush writes the counts of what was not written.
func (h *Handler) Flush() error {
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := io.WriteString(h.out.w, h.out.forget(func(*count) bool { return true }))
	return err
}

// forget removes kinds and returns the lines with their counts.
func (o *output) forget(which func(*count) bool) string {
	var lines []string
	for k, c := range o.kinds {
		if !which(c) {
			continue
		}
		if c.more > 0 {
			lines = append(lines, c.last+moreLike(c.more-1)+"\n")
		}
		delete(o.kinds, k)
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func (o *output) write(line string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := io.WriteString(o.w, line+"\n")
	return err
}

func (o *output) add(k kind, line string, now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.kinds[k]
	if c != nil && now.Sub(c.since) < Interval {
		c.more++
		c.last = line
		return nil
	}
	more := 0
	if c != nil {
		more = c.more
	}
	counted := ""
	if c == nil && len(o.kinds) >= maxKinds {
		counted = o.forget(func(c *count) bool { return now.Sub(c.since) >= Interval })
	}
	if c != nil || len(o.kinds) < maxKinds {
		o.kinds[k] = &count{since: now}
	}
	_, err := io.WriteString(o.w, counted+line+moreLike(more)+"\n")
	return err
}

func moreLike(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" [and %d more like this]", n)
}

// cause is what tells two records with the same message apart.
func cause(attrs []slog.Attr) string {
	for _, name := range []string{"cause", "err", "reason"} {
		for _, a := range attrs {
			if a.Key == name {
				text := a.Value.Resolve().String()
				return strings.Map(withoutDigits, text[:min(len(text), longest)])
			}
		}
	}
	return ""
}

func withoutDigits(r rune) rune {
	if unicode.IsDigit(r) {
		return -1
	}
	return r
}

// sentence is the text of a record: what happened, why, and with which values.
func sentence(level slog.Level, message string, attrs []slog.Attr) string {
	var why, values []string
	for _, a := range attrs {
		text := text(a.Value.Resolve())
		switch a.Key {
		case "":
		case "err", "reason":
			why = append(why, text)
		default:
			values = append(values, strings.ReplaceAll(a.Key, "_", " ")+" "+text)
		}
	}
	line := prefix(level) + message
	if len(why) > 0 {
		line += ": " + strings.Join(why, ": ")
	}
	if len(values) > 0 {
		line += " (" + strings.Join(values, ", ") + ")"
	}
	line = strings.Join(strings.Fields(line), " ")
	if len(line) > longest {
		line = strings.ToValidUTF8(line[:longest], "") + "…"
	}
	return printable.Line(line)
}

// text is a value as people read it; a group is a list of its members.
func text(v slog.Value) string {
	if v.Kind() != slog.KindGroup {
		return v.String()
	}
	var members []string
	for _, a := range v.Group() {
		members = append(members, a.Key+"="+text(a.Value.Resolve()))
	}
	return strings.Join(members, " ")
}

func prefix(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error: "
	case l >= slog.LevelWarn:
		return "warning: "
	case l >= slog.LevelInfo:
		return ""
	}
	return "debug: "
}

// Package compress makes trajectories fit a budget of tokens by replacing turns of their
// middle with a summary.
//
// The beginning (system, first user turn, first answer with its tool results) and the last
// turns are protected. From the start of what lies between them as many turns as needed,
// and no more, become one turn of the user that begins with [Mark]; a tool call and its
// results stay together. What cannot be compressed is kept as it is and counted: a
// [Compressor] drops nothing.
//
// Rows are ShareGPT lines, lines of messages, or Parquet rows of package columns. In exact
// rows the summary's tokens are given tokens, mask 0: what the model sampled before and
// after it keeps its tokens, mask and log-probs (see [Bridge]).
//
// [Run] works on whole files: streaming, concurrent, in input order, resumable to the row
// after a kill at any point; [Undo] brings the originals back. A Compressor is safe for
// concurrent use.
package compress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"hermes/trajectory"
)

// Mark begins a turn that holds a summary.
const Mark = "[CONTEXT SUMMARY]: "

// Counter counts tokens of a text.
type Counter interface {
	Count(text string) (int, error)
}

// Request asks for a summary.
type Request struct {
	Key    string // names the row: stable between starts
	Turns  []Turn // that the summary replaces
	Tokens int    // it may have
}

// Summarizer writes summaries. A [StopError] ends the whole work, resumable; after any
// other error the extract takes the summary's place.
type Summarizer interface {
	Summarize(ctx context.Context, r Request) (string, error)
}

// StopError ends the work: the next row would meet the same.
type StopError struct{ Err error }

func (e *StopError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *StopError) Unwrap() error { return e.Err }

// Turn is one turn of a conversation; consecutive results of tools are one turn.
type Turn struct {
	Role        trajectory.Role
	Text        string // what is counted and summarised
	First, Last int    // the row's entries [First, Last)
	Tokens      int
}

// Options tune a [Compressor].
type Options struct {
	Target  int // tokens of a row; 0: 15,250
	Summary int // tokens of a summary; 0: 750
	Tail    int // last turns that stay; 0: 4
	// Summarizer nil: summaries are extracts.
	Summarizer Summarizer
	Model      string // its name, for the records
	// Bridge renders what is given to the model in exact rows; nil: rows with tokens are
	// kept as they are.
	Bridge Bridge
}

// Compressor compresses rows.
type Compressor struct {
	o     Options
	count Counter
}

// New returns a Compressor, or says which option makes no sense.
func New(count Counter, o Options) (*Compressor, error) {
	for _, d := range []struct {
		at   *int
		name string
		def  int
	}{{&o.Target, "target", 15_250}, {&o.Summary, "summary", 750}, {&o.Tail, "tail", 4}} {
		if *d.at == 0 {
			*d.at = d.def
		}
		if *d.at < 0 {
			return nil, fmt.Errorf("%s: %d is negative", d.name, *d.at)
		}
	}
	if o.Summary < 16 {
		return nil, fmt.Errorf("a summary of %d tokens says nothing: want 16 or more", o.Summary)
	}
	if o.Summary >= o.Target {
		return nil, fmt.Errorf("a summary of %d tokens does not fit the target of %d", o.Summary, o.Target)
	}
	return &Compressor{o, count}, nil
}

// Status says what became of a row.
type Status string

// The states. Every row has exactly one.
const (
	Under      Status = "under"      // it fits, unchanged
	Compressed Status = "compressed" // it fits, with a summary
	Over       Status = "over"       // compressed as far as allowed, and still too long
	Kept       Status = "kept"       // too long, and unchanged: see the reason
	Unreadable Status = "unreadable" // no conversation: unchanged
)

// Result is what became of one row.
type Result struct {
	Status       Status  `json:"status"`
	Reason       string  `json:"reason,omitempty"` // kept, unreadable
	TokensBefore int     `json:"tokens_before"`
	TokensAfter  int     `json:"tokens_after"`
	TurnsBefore  int     `json:"turns_before"`
	TurnsAfter   int     `json:"turns_after"`
	Summary      string  `json:"summary,omitempty"`  // model or extractive
	Fallback     string  `json:"fallback,omitempty"` // why the extract took the model's place
	Cut          bool    `json:"cut,omitempty"`      // the summary was longer than allowed
	Seconds      float64 `json:"seconds,omitempty"`  // that the summary took

	row []byte // new; nil: unchanged
}

// gap is the range of turns that a summary replaces.
type gap struct{ from, to, saved int }

// plan finds the turns to replace in a conversation of total tokens; extra is what the
// summary costs beside itself. ok is false where nothing can be saved.
func (c *Compressor) plan(turns []Turn, total, extra int) (g gap, ok bool) {
	head := len(turns)
	for i, t := range turns {
		if t.Role == trajectory.Assistant {
			head = i + 1
			break
		}
	}
	if head < len(turns) && turns[head].Role == trajectory.Tool {
		head++
	}
	tail := max(head, len(turns)-c.o.Tail)
	for tail > head && tail < len(turns) && turns[tail].Role == trajectory.Tool {
		tail-- // the call stays with its results
	}
	need := total - c.o.Target + c.o.Summary + extra
	g.from, g.to = head, head
	for g.to < tail && (g.saved < need || turns[g.to].Role == trajectory.Tool) {
		g.saved += turns[g.to].Tokens
		g.to++
	}
	return g, g.saved > c.o.Summary+extra
}

// summary is the text of the turn that replaces turns, with its tokens.
func (c *Compressor) summary(ctx context.Context, key string, turns []Turn, r *Result) (text string, tokens int, err error) {
	if c.o.Summarizer != nil {
		text, err = c.o.Summarizer.Summarize(ctx, Request{Key: key, Turns: turns, Tokens: c.o.Summary})
		var stop *StopError
		if ctx.Err() != nil || errors.As(err, &stop) {
			return "", 0, err
		}
		text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), strings.TrimSpace(Mark)))
		switch {
		case err != nil:
			r.Fallback = err.Error()
		case text == "":
			r.Fallback = "the summary was empty"
		default:
			r.Summary = "model"
		}
	}
	if r.Summary == "" {
		r.Summary = "extractive"
		text, err = c.extract(turns)
		if err != nil {
			return "", 0, err
		}
	}
	text, tokens, r.Cut, err = c.trim(Mark + text)
	return text, tokens, err
}

// trim cuts a text to the tokens of a summary, at a space.
func (c *Compressor) trim(text string) (short string, tokens int, cut bool, err error) {
	tokens, err = c.count.Count(text)
	if err != nil || tokens <= c.o.Summary {
		return text, tokens, false, err
	}
	low, high := len(Mark), len(text) // the longest prefix that fits lies between
	short = strings.TrimSpace(Mark)
	for low < high {
		mid := (low + high + 1) / 2
		for mid > low && !utf8.RuneStart(text[min(mid, len(text)-1)]) {
			mid--
		}
		if mid == low {
			break
		}
		part := text[:mid]
		if i := strings.LastIndexAny(part, " \n"); i >= len(Mark) {
			part = part[:i]
		}
		part = strings.TrimRight(part, " \n") + " …"
		n, err := c.count.Count(part)
		if err != nil {
			return "", 0, false, err
		}
		if n <= c.o.Summary {
			low, short = mid, part
		} else {
			high = mid - 1
		}
	}
	tokens, err = c.count.Count(short)
	return short, tokens, true, err
}

func (c *Compressor) countAll(turns []Turn) (total int, err error) {
	for i := range turns {
		turns[i].Tokens, err = c.count.Count(turns[i].Text)
		if err != nil {
			return 0, fmt.Errorf("turn %d: %w", i, err)
		}
		total += turns[i].Tokens
	}
	return total, nil
}

// Row is the new row, as JSON on one line; nil where it stays as it was.
func (r Result) Row() []byte { return r.row }

// Package listing is the list of a run's records: what a reader who chooses among them
// must know of each, a few hundred bytes and never more than a kilobyte or so.
//
// It is a projection of the log. The process of a run keeps it in the run directory while
// it works (see package sink), so that whoever opens the run later reads this file and no
// record; for runs without one a viewer makes it. The file is a header and a frame for
// each attempt, final record and reopen, each with its checksum: it may be cut anywhere,
// and what the log holds beyond it is added from there.
//
// A [List] belongs to one goroutine.
package listing

import (
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"time"

	"hermes/rollout/journal"
	"hermes/trajectory"
)

// How many bytes of each text a row keeps.
const (
	mostText  = 160 // task, answer, reason
	mostID    = 240
	mostModel = 80
	mostTools = 240 // their names together
)

// Row is what the list knows of one record. Numbers that are not known are NaN.
type Row struct {
	At      journal.Offset
	Key     trajectory.Key
	Sample  int32
	Attempt int32
	Turns   int32
	Old     bool // a later record or reopen of the key is in the log
	Outcome trajectory.Outcome
	Book    string // accepted, rejected.truncated …; retried: an attempt that another one followed
	Reward  float64
	Cost    float64 // US dollars
	Seconds float64
	Tokens  int64 // given and written
	Started int64 // Unix time in nanoseconds

	text string // the texts, each but the last with a zero byte behind it
}

// Texts are the words of a row.
type Texts struct {
	ID     string
	Task   string // how the first message of the user begins
	Answer string // how the last answer begins
	Reason string
	Model  string
	Tools  []string // that were called, by name
}

const fields = 6

// Of makes the row of a record that is in the log at an offset and entered a book.
func Of(at journal.Offset, r *trajectory.Record, book, why string) Row {
	w := Row{At: at, Key: r.Key, Sample: int32(r.Sample), Attempt: int32(r.Attempt), Turns: int32(r.Trace.Turns()), Outcome: r.Outcome, Book: book,
		Reward: math.NaN(), Cost: math.NaN(), Seconds: r.Seconds, Tokens: r.Usage.Prompt + r.Usage.Completion, Started: r.Started.UnixNano()}
	if r.Score != nil {
		w.Reward = r.Score.Reward
	}
	if r.Usage.CostKnown {
		w.Cost = r.Usage.Cost
	}
	t := Texts{ID: r.Row, Reason: why, Model: r.Model}
	for _, m := range r.Trace.Visible() {
		switch {
		case m.Role == trajectory.User && t.Task == "":
			t.Task = m.Content()
		case m.Role == trajectory.Assistant:
			if text := m.Content(); text != "" {
				t.Answer = text
			}
		}
	}
	for name := range r.ToolStats {
		t.Tools = append(t.Tools, name)
	}
	slices.Sort(t.Tools)
	w.text = strings.Join([]string{clip(t.ID, mostID), clip(t.Task, mostText), clip(t.Answer, mostText), clip(t.Reason, mostText),
		clip(t.Model, mostModel), clip(strings.Join(t.Tools, " "), mostTools)}, "\x00")
	return w
}

// Texts returns the words of the row.
func (w *Row) Texts() Texts {
	s := strings.SplitN(w.text, "\x00", fields)
	return Texts{s[0], s[1], s[2], s[3], s[4], strings.Fields(s[5])}
}

// Start is when the attempt began.
func (w *Row) Start() time.Time { return time.Unix(0, w.Started).UTC() }

// ID is the id of the dataset's row.
func (w *Row) ID() string {
	id, _, _ := strings.Cut(w.text, "\x00")
	return id
}

// Task is how the first message of the user begins.
func (w *Row) Task() string {
	_, rest, _ := strings.Cut(w.text, "\x00")
	task, _, _ := strings.Cut(rest, "\x00")
	return task
}

// sameID reports whether two rows are of the same row of the dataset.
func (w *Row) sameID(o *Row) bool {
	end := strings.IndexByte(w.text, 0) + 1
	return strings.HasPrefix(o.text, w.text[:end])
}

// Called reports whether a tool was called.
func (w *Row) Called(tool string) bool {
	return slices.Contains(strings.Fields(w.text[strings.LastIndexByte(w.text, 0)+1:]), tool)
}

// Mentions reports whether a word, which must be in lower case, is anywhere in the
// row's texts. Case does not count.
func (w *Row) Mentions(word string) bool {
	return containsFold(w.text, word) || strings.Contains(string(w.Outcome), word) || strings.Contains(w.Book, word)
}

// containsFold is strings.Contains(strings.ToLower(s), word) without a copy of s where
// both are ASCII.
func containsFold(s, word string) bool {
	if word == "" {
		return true
	}
	if !ascii(word) || !ascii(s) {
		return strings.Contains(strings.ToLower(s), word)
	}
	low, high := word[0], word[0]
	if low >= 'a' && low <= 'z' {
		high -= 'a' - 'A'
	}
	for at := 0; at+len(word) <= len(s); at++ {
		i := strings.IndexByte(s[at:], low)
		if low != high {
			if j := strings.IndexByte(s[at:], high); i < 0 || j >= 0 && j < i {
				i = j
			}
		}
		if i < 0 || at+i+len(word) > len(s) {
			return false
		}
		at += i
		if strings.EqualFold(s[at:at+len(word)], word) {
			return true
		}
	}
	return false
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// clip is the beginning of a text in one line and at most n bytes.
func clip(s string, n int) string {
	cut := s[:min(len(s), 4*n)]
	cut = strings.Join(strings.Fields(strings.ReplaceAll(cut, "\x00", "\uFFFD")), " ")
	if len(cut) > n {
		cut = cut[:n]
	}
	return strings.ToValidUTF8(cut, "") // a character that was cut in two
}

// List is the rows of a log in its order. Its zero value is empty.
type List struct {
	Rows []Row
	Next journal.Offset // where the log goes on

	last  map[trajectory.Key]int32 // the newest row of each key
	ids   []uint32                 // hashes of the rows' ids, beside Rows
	seed  maphash.Seed
	names map[string]string // of outcomes and books, one copy of each
	ended bool              // its file was read to its end
}

// Last finds the row of the newest record of a key.
func (l *List) Last(k trajectory.Key) (i int, ok bool) {
	at, ok := l.last[k]
	return int(at), ok
}

// Of finds the rows of all samples of the same row of the dataset as row i, in the order
// of the log, and row i among them.
func (l *List) Of(i int) (rows []int) {
	for n, id := range l.ids {
		if id == l.ids[i] && l.Rows[n].sameID(&l.Rows[i]) {
			rows = append(rows, n)
		}
	}
	return rows
}

// Add takes in the next row.
func (l *List) Add(w Row, next journal.Offset) {
	if l.last == nil {
		l.grow(0)
	}
	w.Outcome, w.Book = trajectory.Outcome(l.name(string(w.Outcome))), l.name(w.Book)
	l.Reopen(w.Key, next)
	l.last[w.Key] = int32(len(l.Rows))
	l.Rows = append(l.Rows, w)
	l.ids = append(l.ids, uint32(maphash.String(l.seed, w.ID())))
}

// grow makes room for about n rows.
func (l *List) grow(n int) {
	l.Rows = make([]Row, 0, n)
	l.ids = make([]uint32, 0, n)
	l.seed = maphash.MakeSeed()
	l.last, l.names = make(map[trajectory.Key]int32, n), map[string]string{}
}

// Reopen takes in that the record of a key counts no more.
func (l *List) Reopen(k trajectory.Key, next journal.Offset) {
	if i, ok := l.last[k]; ok {
		l.Rows[i].Old = true
	}
	l.Next = next
}

// name returns the one copy of a name that all rows share.
func (l *List) name(s string) string {
	known, ok := l.names[s]
	if !ok {
		known = strings.Clone(s)
		l.names[known] = known
	}
	return known
}

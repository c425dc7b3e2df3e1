package fakellm

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"maps"
	"strconv"
	"sync"

	"hermes/internal/fakellm/rawjson"
)

// digest identifies the messages of a request (with its seed and conversation id).
type digest [16]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }
func (d digest) low() uint64    { return binary.LittleEndian.Uint64(d[:8]) }

// Entry is one request in the server's log, written when the request has ended.
type Entry struct {
	Path         string `json:"path"`
	Digest       string `json:"digest"`
	Conversation string `json:"conversation"`
	Turn         int    `json:"turn"`
	Ask          int    `json:"ask"` // how often the digest was asked before
	Status       int    `json:"status"`
	Fault        string `json:"fault,omitempty"`
	// Complete says that a good answer was handed to the kernel to its last byte. Whether
	// a client that died in that moment has read it, no server can know.
	Complete bool `json:"complete"`

	// With [Options.KeepTokens], of the forms with tokens: what was sent and returned.
	Prompt   []int32   `json:"prompt,omitempty"`
	Sampled  []int32   `json:"sampled,omitempty"`
	LogProbs []float64 `json:"logprobs,omitempty"`
	Finish   string    `json:"finish,omitempty"`
	Version  string    `json:"version,omitempty"`
}

// Stats are the figures of a server, as answered under /stats.
type Stats struct {
	Requests    int64            `json:"requests"`   // that could be read
	Answers     int64            `json:"answers"`    // complete ones
	Duplicates  int64            `json:"duplicates"` // complete answers to a digest that had one already
	Refused     int64            `json:"refused"`    // bad key, unknown model, bad body, context too long
	Limited     int64            `json:"limited"`    // 429 by the hidden limit
	MaxInFlight int64            `json:"max_in_flight"`
	Metrics     int64            `json:"metrics"` // reads of /metrics
	Bytes       int64            `json:"bytes"`   // of the bodies of requests, where their length was said
	Faults      map[string]int64 `json:"faults"`
}

type tally struct{ asked, answered uint32 }

// ledger counts and logs requests.
type ledger struct {
	mu      sync.Mutex
	seen    map[digest]tally
	st      Stats
	w       io.Writer
	keep    bool
	entries []Entry
	buf     []byte
}

func newLedger(w io.Writer, keep bool) *ledger {
	return &ledger{seen: map[digest]tally{}, w: w, keep: keep, st: Stats{Faults: map[string]int64{}}}
}

// ask counts a request with a body of size bytes (-1: unknown) and returns how often its
// digest was asked and answered before.
func (l *ledger) ask(d digest, flying, size int64) tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.seen[d]
	l.seen[d] = tally{before.asked + 1, before.answered}
	l.st.Requests++
	l.st.Bytes += max(size, 0)
	l.st.MaxInFlight = max(l.st.MaxInFlight, flying)
	return before
}

func (l *ledger) looked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st.Metrics++
}

func (l *ledger) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.st.Refused++
}

// end books how a request ended.
func (l *ledger) end(d digest, e *Entry, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Complete {
		t := l.seen[d]
		if t.answered > 0 {
			l.st.Duplicates++
		}
		l.seen[d] = tally{t.asked, t.answered + 1}
		l.st.Answers++
	}
	if limited {
		l.st.Limited++
	}
	if e.Fault != "" {
		l.st.Faults[e.Fault]++
	}
	if l.keep || l.w != nil {
		e.Digest = d.String()
	}
	if l.keep {
		l.entries = append(l.entries, *e)
	}
	if l.w != nil {
		l.buf = append(e.append(l.buf[:0]), '\n')
		_, _ = l.w.Write(l.buf) // the judge's file: a test that misses lines fails by itself
	}
}

func (e *Entry) append(b []byte) []byte {
	b = rawjson.Quote(append(b, `{"path":`...), e.Path)
	b = rawjson.Quote(append(b, `,"digest":`...), e.Digest)
	b = rawjson.Quote(append(b, `,"conversation":`...), e.Conversation)
	b = strconv.AppendInt(append(b, `,"turn":`...), int64(e.Turn), 10)
	b = strconv.AppendInt(append(b, `,"ask":`...), int64(e.Ask), 10)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(e.Status), 10)
	if e.Fault != "" {
		b = rawjson.Quote(append(b, `,"fault":`...), e.Fault)
	}
	b = strconv.AppendBool(append(b, `,"complete":`...), e.Complete)
	if e.Finish != "" {
		b = appendIDs(append(b, `,"prompt":`...), e.Prompt)
		b = appendIDs(append(b, `,"sampled":`...), e.Sampled)
		b = append(b, `,"logprobs":[`...)
		for i, v := range e.LogProbs {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendFloat(b, v)
		}
		b = rawjson.Quote(append(b, `],"finish":`...), e.Finish)
		b = rawjson.Quote(append(b, `,"version":`...), e.Version)
	}
	return append(b, '}')
}

func (l *ledger) stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.st
	out.Faults = maps.Clone(l.st.Faults)
	return out
}

func (l *ledger) list() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Entry(nil), l.entries...)
}

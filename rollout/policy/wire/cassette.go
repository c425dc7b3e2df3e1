package wire

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// entry is one line of a cassette. Raw answers are text; a byte that is not UTF-8 would
// not survive JSON, so such an answer is in base64.
type entry struct {
	Digest string `json:"digest"`
	Key    string `json:"key,omitempty"`
	Text   string `json:"answer,omitempty"`
	Bytes  []byte `json:"bytes,omitempty"`
}

// Recorder writes a cassette: one JSON object a line, {digest, key, answer}. It is safe
// for concurrent use. Each line is written at once, so a cassette that was cut short
// lacks only its last line.
type Recorder struct {
	mu sync.Mutex
	w  io.Writer
}

// NewRecorder returns a recorder that writes to w, which the caller closes.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{w: w} }

func (r *Recorder) add(q *Request, raw []byte) error {
	e := entry{Digest: hex.EncodeToString(q.Digest[:]), Key: q.Key}
	e.Text = string(raw)
	if !validText(raw) {
		e.Text, e.Bytes = "", raw
	}
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("record request %x: %w", q.Digest[:8], err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.w.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("record request %x: %w", q.Digest[:8], err)
	}
	return nil
}

// Cassette answers requests from a recording. It is safe for concurrent use. Requests
// with the same digest get the answers in the order of the recording, those of the same
// rollout first; when all were given, the last one again.
type Cassette struct {
	name string
	mu   sync.Mutex
	tape map[[32]byte][]*take
}

type take struct {
	key  string
	raw  []byte
	used bool
}

// ReadCassette reads a recording; name is for errors. A last line that was cut is left out.
func ReadCassette(name string, r io.Reader) (*Cassette, error) {
	c := &Cassette{name: name, tape: map[[32]byte][]*take{}}
	br := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := br.ReadBytes('\n')
		if err == io.EOF {
			return c, nil // what is left has no line feed: it was cut
		}
		if err != nil {
			return nil, fmt.Errorf("cassette %s: %w", name, err)
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("cassette %s:%d: %w", name, n, err)
		}
		var d [32]byte
		if k, err := hex.Decode(d[:], []byte(e.Digest[:min(64, len(e.Digest))])); err != nil || k != 32 || len(e.Digest) != 64 {
			return nil, fmt.Errorf("cassette %s:%d: digest %q: want 64 hexadecimal digits", name, n, e.Digest)
		}
		raw := e.Bytes
		if raw == nil {
			raw = []byte(e.Text)
		}
		c.tape[d] = append(c.tape[d], &take{key: e.Key, raw: raw})
	}
}

// Len is the number of different requests.
func (c *Cassette) Len() int { return len(c.tape) }

func (c *Cassette) take(d [32]byte, key string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var best *take
	rank := -1
	for _, t := range c.tape[d] {
		r := 0
		if t.key == key {
			r++
		}
		if !t.used {
			r += 2
		}
		if r > rank || r == rank && t.used {
			best, rank = t, r
		}
	}
	if best == nil {
		return nil, false
	}
	best.used = true
	return best.raw, true
}

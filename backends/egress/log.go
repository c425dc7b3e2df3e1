package egress

import (
	"encoding/json"
	"os"
	"sync"
	"time"
)

// log appends outcomes to a file. A nil log keeps nothing.
type log struct {
	mu   sync.Mutex
	file *os.File
}

// line is one outcome: who, where to and why not. What was sent, and the path that was
// asked for, are not written, for there are secrets in them.
type line struct {
	Time    time.Time `json:"time"`
	Box     string    `json:"box"`
	Event   string    `json:"event"` // connect, refuse, close
	Target  string    `json:"target,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Allowed int64     `json:"allowed,omitempty"` // close: connections of the box
	Refused int64     `json:"refused,omitempty"`
	Bytes   int64     `json:"bytes,omitempty"`
}

func openLog(path string) (*log, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &log{file: f}, nil
}

// write appends one line, in one call, so that several hermes can share a file.
func (l *log) write(x line) {
	if l == nil {
		return
	}
	x.Time = time.Now().UTC()
	raw, err := json.Marshal(x)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file.Write(append(raw, '\n')) // a full disk must not end rollouts
}

func (l *log) close() error {
	if l == nil {
		return nil
	}
	return l.file.Close()
}

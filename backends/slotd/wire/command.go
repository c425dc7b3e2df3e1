package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"hermes/backends"
)

// command is backends.Cmd as it travels: names and words are bytes, not text.
type command struct {
	Argv      [][]byte      `json:"argv,omitempty"`
	Shell     []byte        `json:"sh,omitempty"`
	Dir       []byte        `json:"dir,omitempty"`
	Env       [][]byte      `json:"env,omitempty"`
	ClearEnv  bool          `json:"clear_env,omitempty"`
	Input     bool          `json:"input,omitempty"` // bytes after the head are stdin
	Kept      *int          `json:"kept,omitempty"`  // so many bytes at the end of the body are the content of its kept file
	Timeout   time.Duration `json:"timeout_ns,omitempty"`
	MaxOutput int64         `json:"max_out,omitempty"`
	Keep      backends.Keep `json:"keep,omitempty"`
	Merge     bool          `json:"merge,omitempty"`
	Report    string        `json:"report,omitempty"`
	Alone     bool          `json:"alone,omitempty"`
	PTY       bool          `json:"pty,omitempty"`
	Rows      uint16        `json:"rows,omitempty"`
	Cols      uint16        `json:"cols,omitempty"`
	Buffer    int64         `json:"buffer,omitempty"`
}

// EncodeCommand writes length, head and stdin.
func EncodeCommand(c backends.Cmd, o backends.StartOptions) ([]byte, error) {
	if len(c.Stdin) > MaxStdin {
		return nil, fmt.Errorf("input of %d bytes for a command: %w", len(c.Stdin), backends.ErrTooLarge)
	}
	w := command{Shell: []byte(c.Shell), Dir: []byte(c.Dir), ClearEnv: c.ClearEnv, Input: c.Stdin != nil, Timeout: c.Timeout,
		MaxOutput: c.MaxOutput, Keep: c.Keep, Merge: c.Merge, Report: c.Report, Alone: c.Alone, PTY: o.PTY, Rows: o.Rows, Cols: o.Cols, Buffer: o.Buffer}
	for _, a := range c.Argv {
		w.Argv = append(w.Argv, []byte(a))
	}
	for _, kv := range Pairs(c.Env) {
		w.Env = append(w.Env, []byte(kv))
	}
	if len(c.Kept) > backends.MaxKept {
		return nil, fmt.Errorf("a kept file of %d bytes for a command: %w", len(c.Kept), backends.ErrTooLarge)
	}
	if c.Kept != nil {
		n := len(c.Kept)
		w.Kept = &n
	}
	head, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	if len(head) > MaxRequest {
		return nil, fmt.Errorf("command line and environment of %d bytes: %w", len(head), backends.ErrTooLarge)
	}
	body := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(head)+len(c.Stdin)+len(c.Kept)), uint32(len(head)))
	return append(append(append(body, head...), c.Stdin...), c.Kept...), nil
}

// DecodeCommand reads what [EncodeCommand] wrote.
func DecodeCommand(body []byte) (c backends.Cmd, o backends.StartOptions, err error) {
	if len(body) < 4 {
		return c, o, fmt.Errorf("request of %d bytes: %w", len(body), io.ErrUnexpectedEOF)
	}
	n := int64(binary.BigEndian.Uint32(body))
	if n > int64(len(body)-4) || n > MaxRequest {
		return c, o, fmt.Errorf("request head of %d bytes: %w", n, io.ErrUnexpectedEOF)
	}
	var w command
	if err := json.Unmarshal(body[4:4+n], &w); err != nil {
		return c, o, fmt.Errorf("request head: %w", err)
	}
	c = backends.Cmd{Shell: string(w.Shell), Dir: string(w.Dir), ClearEnv: w.ClearEnv, Timeout: w.Timeout,
		MaxOutput: w.MaxOutput, Keep: w.Keep, Merge: w.Merge, Report: w.Report, Alone: w.Alone, Env: map[string]string{}}
	for _, a := range w.Argv {
		c.Argv = append(c.Argv, string(a))
	}
	for _, kv := range w.Env {
		k, v, _ := strings.Cut(string(kv), "=")
		c.Env[k] = v
	}
	rest := body[4+n:]
	if w.Kept != nil {
		if *w.Kept < 0 || *w.Kept > min(len(rest), backends.MaxKept) {
			return c, o, fmt.Errorf("a kept file of %d bytes in a request with %d after its head: %w", *w.Kept, len(rest), io.ErrUnexpectedEOF)
		}
		c.Kept = rest[len(rest)-*w.Kept:]
		rest = rest[:len(rest)-*w.Kept]
	}
	if w.Input {
		c.Stdin = rest
	}
	return c, backends.StartOptions{PTY: w.PTY, Rows: w.Rows, Cols: w.Cols, Buffer: w.Buffer}, nil
}

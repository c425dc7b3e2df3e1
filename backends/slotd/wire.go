package slotd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"hermes/backends"
)

// Proto is the version of what client and server say to each other.
const Proto = 3

// protoHeader carries the caller's Proto; a server refuses one that is higher than its own.
const protoHeader = "X-Slotd-Proto"

// Bounds of the wire.
const (
	maxJSON    = 64 << 20
	maxRequest = 4 << 20   // JSON head of a request
	maxStdin   = 256 << 20 // bytes of input of one command
	heartbeat  = 5 * time.Second
	silence    = 20 * time.Second // without a frame: the box is lost
)

// The types of frames.
const (
	frameOut byte = 1 + iota
	frameErr
	frameExit
	frameBeat
	frameError
	frameCommand // to the server: the command of a stream
	frameIn      // to the server: input of a streamed command
	frameInEnd   // to the server: the end of its input
	frameHangUp  // to the server: the type of output that is not wanted any more
	frameKept    // what the kept file of a command holds at its end
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

// exit is backends.Result without its outputs.
type exit struct {
	Code     int           `json:"code"`
	Signal   int           `json:"signal,omitempty"`
	TimedOut bool          `json:"timed_out,omitempty"`
	OOM      bool          `json:"oom,omitempty"`
	OutBytes int64         `json:"out_bytes"`
	ErrBytes int64         `json:"err_bytes"`
	Dropped  int64         `json:"dropped,omitempty"`
	Took     time.Duration `json:"took_ns"`
	CPU      time.Duration `json:"cpu_ns"`
	Report   []byte        `json:"report,omitempty"`
	Left     int           `json:"left,omitempty"`
	Ended    int           `json:"ended,omitempty"`
}

// exitOf is the exit of a result.
func exitOf(r backends.Result) exit {
	return exit{r.Code, r.Signal, r.TimedOut, r.OOM, r.OutBytes, r.ErrBytes, r.Dropped, r.Took, r.CPU, r.Report, r.Left, r.Ended}
}

// fill puts the exit into a result that has its outputs.
func (x exit) fill(r *backends.Result) {
	r.Code, r.Signal, r.TimedOut, r.OOM = x.Code, x.Signal, x.TimedOut, x.OOM
	r.OutBytes, r.ErrBytes, r.Dropped, r.Took, r.CPU = x.OutBytes, x.ErrBytes, x.Dropped, x.Took, x.CPU
	r.Truncated, r.Report, r.Left, r.Ended = x.Dropped > 0, x.Report, x.Left, x.Ended
}

// wireFile is backends.FileInfo as it travels.
type wireFile struct {
	Path  []byte      `json:"path"`
	Size  int64       `json:"size"`
	Mode  fs.FileMode `json:"mode"`
	MTime time.Time   `json:"mtime"`
	Link  []byte      `json:"link,omitempty"`
}

func toWire(f backends.FileInfo) wireFile {
	return wireFile{[]byte(f.Path), f.Size, f.Mode, f.MTime, []byte(f.Link)}
}

func (f wireFile) info() backends.FileInfo {
	return backends.FileInfo{Path: string(f.Path), Size: f.Size, Mode: f.Mode, MTime: f.MTime, Link: string(f.Link)}
}

// encodeCommand writes length, head and stdin.
func encodeCommand(c backends.Cmd, o backends.StartOptions) ([]byte, error) {
	if len(c.Stdin) > maxStdin {
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
	if len(head) > maxRequest {
		return nil, fmt.Errorf("command line and environment of %d bytes: %w", len(head), backends.ErrTooLarge)
	}
	body := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(head)+len(c.Stdin)+len(c.Kept)), uint32(len(head)))
	return append(append(append(body, head...), c.Stdin...), c.Kept...), nil
}

// decodeCommand reads what encodeCommand wrote.
func decodeCommand(body []byte) (c backends.Cmd, o backends.StartOptions, err error) {
	if len(body) < 4 {
		return c, o, fmt.Errorf("request of %d bytes: %w", len(body), io.ErrUnexpectedEOF)
	}
	n := int64(binary.BigEndian.Uint32(body))
	if n > int64(len(body)-4) || n > maxRequest {
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

// writeFrame writes one frame.
func writeFrame(w io.Writer, kind byte, payload []byte) error {
	var head [5]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(payload)))
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}

// readFrame reads one frame of at most most bytes.
func readFrame(r io.Reader, most int64) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[1:]))
	if n > most {
		return 0, nil, fmt.Errorf("frame of %d bytes, at most %d were asked for", n, most)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return head[0], payload, err
}

// fault is an error as it travels.
type fault struct {
	Kind  string `json:"kind"`
	Errno int    `json:"errno,omitempty"`
	Op    string `json:"op,omitempty"` // set for errors about a path
	Text  string `json:"text"`
}

// kinds are the errors that keep their identity on the way.
func kinds() map[string]error {
	return map[string]error{"closed": backends.ErrClosed, "broken": backends.ErrBroken, "too_large": backends.ErrTooLarge,
		"not_exist": fs.ErrNotExist, "exist": fs.ErrExist, "permission": fs.ErrPermission, "invalid": fs.ErrInvalid,
		"unsupported": errors.ErrUnsupported, "unavailable": backends.ErrUnavailable, "lost": backends.ErrLost, "canceled": context.Canceled, "escapes": errEscapes, "slow": backends.ErrSlow}
}

func toFault(err error) fault {
	f := fault{Kind: "other", Text: err.Error()}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		f.Op, f.Text = pe.Op, pe.Err.Error()
	}
	var no syscall.Errno
	if errors.As(err, &no) {
		f.Errno = int(no)
	}
	for _, name := range []string{"closed", "broken", "too_large", "slow", "canceled", "escapes", "not_exist", "exist", "permission", "invalid", "unsupported", "unavailable", "lost"} {
		if errors.Is(err, kinds()[name]) {
			f.Kind = name
			break
		}
	}
	return f
}

// remoteError is an error that happened in the box.
type remoteError struct {
	text string
	is   []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.is }

// err rebuilds the error; path is the caller's own.
func (f fault) err(path string) error {
	e := &remoteError{text: f.Text}
	if len(e.text) > 1000 {
		e.text = e.text[:1000]
	}
	if k, ok := kinds()[f.Kind]; ok {
		e.is = append(e.is, k)
	}
	if f.Errno > 0 && f.Errno < 4096 {
		e.is = append(e.is, syscall.Errno(f.Errno))
	}
	if f.Op == "" {
		return e
	}
	return &fs.PathError{Op: f.Op, Path: path, Err: e}
}

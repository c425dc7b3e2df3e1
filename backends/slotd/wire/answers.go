package wire

import (
	"io/fs"
	"time"

	"hermes/backends"
)

// Started is the answer to a start.
type Started struct {
	ID  string `json:"id"`
	PID int    `json:"pid"`
}

// LeaseRequest asks for the box. Key and Owner together name the lease: asking again
// gives the same one.
type LeaseRequest struct {
	Key   string        `json:"key"`
	Owner string        `json:"owner"`
	TTL   time.Duration `json:"ttl_ns"`
}

// Lease is the right to use the box until it is given back or not renewed in time. Calls
// about the box need its token; each of them renews it.
type Lease struct {
	ID    string        `json:"id"`
	Token string        `json:"token"`
	Dir   string        `json:"dir"`
	TTL   time.Duration `json:"ttl_ns"`
	Left  time.Duration `json:"left_ns"`
}

// Health is the answer of /v1/health.
type Health struct {
	OK     bool   `json:"ok"`
	Proto  int    `json:"proto"`
	Boot   string `json:"boot"` // changes when the server starts again
	Execs  int    `json:"execs"`
	Uptime int64  `json:"uptime_ms"`
	Free   bool   `json:"free"`  // may be leased; always false without leases
	Dirty  bool   `json:"dirty"` // a reset failed: never leased again
}

// Info is the answer of /v1/info.
type Info struct {
	ID      string `json:"id"`
	Dir     string `json:"dir"`
	Home    string `json:"home"`
	UID     int    `json:"uid"`
	Arch    string `json:"arch"`
	CPUs    int    `json:"cpus"`
	PTY     bool   `json:"pty"`
	OOM     int64  `json:"oom"` // kills so far; -1: unknown
	Version string `json:"go"`
}

// Exit is backends.Result without its outputs.
type Exit struct {
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

// ExitOf is the exit of a result.
func ExitOf(r backends.Result) Exit {
	return Exit{r.Code, r.Signal, r.TimedOut, r.OOM, r.OutBytes, r.ErrBytes, r.Dropped, r.Took, r.CPU, r.Report, r.Left, r.Ended}
}

// Fill puts the exit into a result that has its outputs.
func (x Exit) Fill(r *backends.Result) {
	r.Code, r.Signal, r.TimedOut, r.OOM = x.Code, x.Signal, x.TimedOut, x.OOM
	r.OutBytes, r.ErrBytes, r.Dropped, r.Took, r.CPU = x.OutBytes, x.ErrBytes, x.Dropped, x.Took, x.CPU
	r.Truncated, r.Report, r.Left, r.Ended = x.Dropped > 0, x.Report, x.Left, x.Ended
}

// File is backends.FileInfo as it travels.
type File struct {
	Path  []byte      `json:"path"`
	Size  int64       `json:"size"`
	Mode  fs.FileMode `json:"mode"`
	MTime time.Time   `json:"mtime"`
	Link  []byte      `json:"link,omitempty"`
}

func FileOf(f backends.FileInfo) File {
	return File{[]byte(f.Path), f.Size, f.Mode, f.MTime, []byte(f.Link)}
}

func (f File) Info() backends.FileInfo {
	return backends.FileInfo{Path: string(f.Path), Size: f.Size, Mode: f.Mode, MTime: f.MTime, Link: string(f.Link)}
}

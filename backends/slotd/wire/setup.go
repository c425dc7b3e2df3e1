package wire

import (
	"time"
)

// MaxSetup bounds a Setup and the answer to it.
const MaxSetup = 8 << 20

// Setup is what the first process of an engine's box gets from its maker. It travels
// apart from arguments and environment, which the engine shows and keeps.
type Setup struct {
	ID        string            `json:"id"`
	Home      string            `json:"home,omitempty"` // empty: the image's HOME, or /root
	Dir       string            `json:"dir,omitempty"`  // empty: the image's, or home; relative to home; made where missing
	Env       map[string]string `json:"env,omitempty"`  // over the image's
	User      *User             `json:"user,omitempty"` // of commands; nil: the server's own
	Grace     time.Duration     `json:"grace,omitempty"`
	Token     string            `json:"token,omitempty"` // what calls must bear; none on a control socket
	Alone     time.Duration     `json:"alone,omitempty"` // ends the box after this time without calls; 0: never
	Reset     bool              `json:"reset,omitempty"` // the box can be reset
	ProxyPort int               `json:"door,omitempty"`  // port of the box's loopback whose listening socket is handed out; 0: none
	Apart     uint64            `json:"apart,omitempty"` // inode of the maker's pid namespace, in which the box must not be
}

// MarkEnv is the variable by which the processes of a command are found again.
const MarkEnv = "HERMES_EXEC"

// User is the uid and gid of commands and of the files they own.
type User struct{ UID, GID uint32 }

// Adopted is a command that was started by what this program was executed in the place of.
// Its outputs are somebody else's.
type Adopted struct {
	Exec string        `json:"exec"` // the id by which its end can be asked for
	Mark string        `json:"mark"` // its MarkEnv
	PID  int           `json:"pid"`
	Left time.Duration `json:"left_ns,omitempty"` // until its time is over; 0: it has no limit
}

// ReportPath is what a command finds in its variable: whoever opens it opens its own
// descriptor ReportFD.
const (
	ReportPath = "/proc/self/fd/3"
	ReportFD   = 3
)

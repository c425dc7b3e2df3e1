package wire

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"path/filepath"
	"time"
)

// The times of the calls that are not commands, which both ends keep: a call that moves no content;
// a search, which then answers with what it has; a call that moves content, without a byte; a
// reset. Package host has the other bounds, and docs/slotd.md shows all. A command has the time that
// its caller gives it. What is beyond a bound is an error that names it, or, in a search, listed in
// Skipped.
const (
	CallTime   = 30 * time.Second
	SearchTime = 20 * time.Second
	StallTime  = time.Minute
	ResetTime  = 5 * time.Minute
)

// ErrEscapes says that a path leads out of the place it is confined to.
var ErrEscapes = errors.New("path leads out of the box's directory")

// ErrorTrailer carries an error that came after the head of an answer was sent.
const ErrorTrailer = "X-Error"

// Switching is the answer after which a connection is no longer HTTP.
const Switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

// Bounds where a caller names none.
const (
	DefaultOutput = 1 << 20  // bytes of each stream of a command
	DefaultRead   = 64 << 20 // bytes of a file
)

// NewID returns a random name for a box or an exec.
func NewID() string {
	b := make([]byte, 8)
	rand.Read(b)
	return hex.EncodeToString(b)
}

// Join resolves a path against a directory without touching symbolic links.
func Join(dir, path string) string {
	switch {
	case path == "":
		return dir
	case filepath.IsAbs(path):
		return path
	}
	return dir + "/" + path
}

// Name is the program's name, as argv[0] of a process that is slotd.
const Name = "hermes-slotd"

// Hello is what dial says on stdout before the first byte of its connection, so that its
// caller can tell it from what the engine says where the program did not start.
const Hello = Name + "\n"

// MaxChunk bounds a frame of a streamed command, either way.
const MaxChunk = 1 << 20

// Proto is the version of what client and server say to each other.
const Proto = 3

// ProtoHeader carries the caller's Proto; a server refuses one that is higher than its own.
const ProtoHeader = "X-Slotd-Proto"

// Bounds of the wire.
const (
	MaxJSON    = 64 << 20
	MaxRequest = 4 << 20   // JSON head of a request
	MaxStdin   = 256 << 20 // bytes of input of one command
	Heartbeat  = 5 * time.Second
	Silence    = 20 * time.Second // without a frame: the box is lost
)

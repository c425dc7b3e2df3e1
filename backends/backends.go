// Package backends is the contract of a sandbox, called box: a place where tools and
// checkers of one rollout run commands and keep files.
//
// A [Backend] makes boxes; tools are written against [Sandbox] once, and every driver
// passes the suite in backendtest. An error of a Sandbox means that the box failed;
// exit codes and time-outs of commands are results. Whose fault a failure is is in
// the error: [ErrLost] is ours and is tried again elsewhere, [ErrBroken] is the model's
// doing and is judged by the environment.
//
// Backends and boxes are safe for concurrent use.
package backends

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// The conditions that callers act on. Drivers wrap them with what was attempted.
var (
	ErrLost        = errors.New("sandbox lost")                   // ours: try again in another box
	ErrBroken      = errors.New("sandbox broken by its commands") // the model's: memory, processes, disk, its server killed
	ErrImage       = errors.New("image not usable")               // missing, wrong architecture, unreadable
	ErrUnavailable = errors.New("back-end not available")         // the machine or the engine cannot make boxes at all
	ErrClosed      = errors.New("sandbox closed")
)

// Backend makes boxes of one kind.
type Backend interface {
	// Open returns a fresh box. It may wait for a free slot; ctx ends the waiting.
	Open(ctx context.Context, s Spec) (Sandbox, error)
	// Traits tells what boxes of this back-end promise. It does not change.
	Traits() Traits
	// Close ends every box that is still open and frees what the back-end holds.
	Close(ctx context.Context) error
}

// Spec describes a box. The zero value is a usable box of the back-end's own image.
type Spec struct {
	Image  string            // empty: the back-end's default
	Dir    string            // working directory of commands; empty: the box's home
	Env    map[string]string // added to the environment of every command
	Limits Limits
	Labels map[string]string // owner, rollout: shown by `sandbox list`
	// Network narrows what the back-end lets its boxes reach, and never widens it: nil
	// leaves that as it is, an empty list is nothing at all, else only what these entries of
	// an allow-list name. See [Narrow].
	Network []string
}

// Limits bound a box. Zero values mean the back-end's defaults.
type Limits struct {
	Memory    int64   // bytes
	Processes int     // processes and threads
	CPUs      float64 // cores
	Disk      int64   // bytes that may be written
}

// Traits tell what the boxes of a back-end promise.
type Traits struct {
	Name     string
	Isolated bool   // commands cannot reach the host's files and processes
	Network  string // "none", "host", "allow-list"
	Slots    int    // boxes at once; 0: not limited by the back-end
	Queued   bool   // Open waits for a slot as long as its context lets it, and bounds the making of a box itself
	MemoryBy string // how Limits are enforced: "cgroup", "rlimit", ""
	Root     bool   // commands run as uid 0 of the box
	PTY      bool
	Snapshot bool
	Images   bool // Spec.Image chooses something
	Cheap    bool // an unused box costs some processor time of this machine and nothing else
	Notes    []string
}

// Cmd is one command. Exactly one of Argv and Shell is set; Shell runs under
// `bash -c`, or `sh -c` where the box has no bash.
type Cmd struct {
	Argv      []string
	Shell     string
	Dir       string            // relative paths start at the box's working directory
	Env       map[string]string // added to the box's environment
	ClearEnv  bool              // start from nothing but Env
	Stdin     []byte            // ended by EOF; nil: nothing to read
	Timeout   time.Duration     // 0: none but ctx's; the whole tree is killed
	MaxOutput int64             // bytes kept of each stream; 0: 1 MiB; more is counted and dropped
	Keep      Keep              // which part of a longer output is kept
	Merge     bool              // stderr into stdout, in the order of writing
	// Report names a variable of the environment, in which the command finds the path of an
	// empty file. The file lies in no folder: the path means it only to the command
	// and to what inherits its descriptor 3. What it holds at the end is Result.Report.
	// What the command started and left running is ended, and counted in Result.Left.
	Report string
	// Alone ends what other commands of the box have left running before this one starts.
	Alone bool
	// Kept, when not nil, is the content of a file without a name that the command finds open
	// at descriptor KeptFD, for reading and writing. Everything that the command starts
	// inherits it. Result.Kept is what it holds at the end. Streamers do not look at it.
	Kept []byte
}

// The descriptor of Cmd.Kept, and the most bytes that it carries in either direction.
const (
	KeptFD  = 47
	MaxKept = 4 << 20
)

// Keep says which part of an output beyond MaxOutput is kept.
type Keep string

// The parts that can be kept; the zero value is KeepHead.
const (
	KeepHead Keep = "head"
	KeepTail Keep = "tail"
	KeepBoth Keep = "both" // 40 % head, 60 % tail
)

// Result is what became of a command. A command that a signal ended has Code 128+n,
// a timed-out one 124, one not found 127, one not executable (or a bad Dir) 126.
type Result struct {
	Code      int
	Signal    int // the signal that ended it, or 0
	TimedOut  bool
	OOM       bool // the box's memory limit was hit while it ran
	Stdout    []byte
	Stderr    []byte
	OutBytes  int64 // as written, beyond MaxOutput too
	ErrBytes  int64
	Truncated bool
	Dropped   int64 // bytes left out between head and tail
	Took      time.Duration
	CPU       time.Duration
	Report    []byte // of Cmd.Report; more than MaxReport bytes are cut behind the first that is too many
	Left      int    // processes that the command left running; counted where Cmd.Report asks for it
	Ended     int    // processes of other commands that Cmd.Alone ended
	// Kept is what the file of Cmd.Kept held at the end; empty where that was more than
	// MaxKept bytes. The command may have written anything into it.
	Kept []byte
}

// MaxReport is how long a report may be, in bytes.
const MaxReport = 32 << 10

// Sandbox is one box. Paths are absolute in the box, or relative to its working directory.
type Sandbox interface {
	ID() string
	// Exec runs one command to its end. An error means the box failed.
	Exec(ctx context.Context, c Cmd) (Result, error)
	// ReadFile reads at most limit bytes (0: 64 MiB); a longer file is an *fs.PathError
	// with ErrTooLarge. Missing files satisfy errors.Is(err, fs.ErrNotExist).
	ReadFile(ctx context.Context, path string, limit int64) ([]byte, error)
	// WriteFile replaces the file in one step and makes missing folders. An existing
	// file keeps its mode when perm is 0.
	WriteFile(ctx context.Context, path string, data []byte, perm fs.FileMode) error
	// Close ends all processes of the box, removes it and gives its slot back. Closing
	// twice is allowed.
	Close(ctx context.Context) error
}

// ErrTooLarge says that a file is longer than the caller wanted to read, or a tree larger than a
// call handles.
var ErrTooLarge = errors.New("file too large")

// ErrSlow says that a file call came to no end within its bound, or that nothing moved in it.
var ErrSlow = errors.New("too slow")

// Starter runs commands in the background.
type Starter interface {
	Start(ctx context.Context, c Cmd, o StartOptions) (Process, error)
}

// StartOptions tune a background process.
type StartOptions struct {
	PTY        bool
	Rows, Cols uint16
	Buffer     int64 // bytes of output kept (the newest); 0: 1 MiB
}

// Process is a command in the background. Output holds stdout and stderr as one text.
type Process interface {
	ID() string
	PID() int // in the box
	// Output returns what was written from offset off on, at most max bytes (0: all
	// that is kept), and the offset that follows it. first is larger than off when
	// older output was dropped.
	Output(ctx context.Context, off int64, max int64) (data []byte, first, next int64, err error)
	// Log returns all output that is kept, the offset at which it begins, and how many line
	// feeds were written before that.
	Log(ctx context.Context) (data []byte, first, lines int64, err error)
	Write(ctx context.Context, data []byte) error // to its stdin
	CloseStdin(ctx context.Context) error
	Resize(ctx context.Context, rows, cols uint16) error
	// Wait blocks until the process ends or ctx does.
	Wait(ctx context.Context) (Result, error)
	// Kill ends the whole tree: TERM, grace, then KILL.
	Kill(ctx context.Context, grace time.Duration) error
}

// Streams are the streams of a command whose output is passed on while it runs. A
// writer that fails closes the command's stream, as a closed pipe does; one that blocks
// holds the command up.
type Streams struct {
	In       io.Reader // nil: nothing to read; it may be read once more after the command's end
	Out, Err io.Writer // nil: counted and dropped
}

// Streamer runs one command to its end and passes its streams on. Cmd.Stdin, MaxOutput
// and Keep are not looked at; the result has no output but counts it. When the
// connection breaks the command is ended: what was passed on cannot be taken back.
type Streamer interface {
	Stream(ctx context.Context, c Cmd, s Streams) (Result, error)
}

// Level says how much a reset removes.
type Level string

// The levels of a reset.
const (
	ResetFiles Level = "files" // processes, and the files of the box's home and scratch folders
	ResetFull  Level = "full"  // all that can be removed; what changed elsewhere makes the box unclean
)

// Cleaned is what a reset did. A box for which Left names something must not be used by
// anybody else.
type Cleaned struct {
	Killed  int      // processes
	Removed int      // files and folders
	Left    []string // what could not be removed or was found changed; nil: clean
	Took    time.Duration
}

// Resetter makes a box as new and then looks whether it is.
type Resetter interface {
	Reset(ctx context.Context, l Level) (Cleaned, error)
}

// FileInfo describes a file of a box.
type FileInfo struct {
	Path  string
	Size  int64
	Mode  fs.FileMode
	MTime time.Time
	Link  string // target of a symbolic link
}

// Stater looks at files without reading them. List gives the entries of a directory
// sorted by name, at most max (0: 10,000).
type Stater interface {
	Stat(ctx context.Context, path string) (FileInfo, error)
	List(ctx context.Context, path string, max int) ([]FileInfo, error)
}

// Query is a search in files.
type Query struct {
	Root    string
	Pattern string // Content: regular expression (RE2); else a glob of names
	Content bool
	Glob    string // Content: only files whose name matches
	Context int    // Content: lines before and after
	Limit   int    // matches (files); 0: 50
	Offset  int
	Hidden  bool // also files and folders whose names begin with a dot
}

// Match is one line (Content) or one file. Line counts from 1.
type Match struct {
	Path    string
	Line    int
	Text    string
	Context bool // a neighbour of a match, not itself one
	MTime   time.Time
	Size    int64
}

// Found is the result of a search. Total counts matches (Content) or files, also
// those outside of Limit; More says that Total is only a lower bound.
type Found struct {
	Matches []Match
	Total   int
	More    bool
	Skipped Skipped
}

// Skipped counts what a search left out and its caller did not: names that can't match are
// not counted, and of a folder nothing but the folder itself. Folders of version control are
// left out uncounted.
type Skipped struct {
	Ignored    int // files and folders that a .gitignore excludes
	Hidden     int // files and folders whose names begin with a dot
	Binary     int // files
	Large      int // files beyond 10 MiB, Content only
	Links      int // symbolic links, which are not followed
	Special    int // FIFOs, sockets, devices
	Deep       int // folders in too many others, or with too long a path
	Unreadable int
	Names      []string // some of them, at most 5
	Bounds     []string // of the search itself, that kept it from looking at everything
}

// Counts says in words what was left out, a kind in a text, and how much it is in all.
func (s Skipped) Counts() (parts []string, all int) {
	for _, c := range []struct {
		n    int
		what string
	}{{s.Ignored, "ignored by .gitignore"}, {s.Hidden, "hidden"}, {s.Binary, "binary"}, {s.Large, "larger than 10 MiB"}, {s.Links, "symbolic links, not followed"},
		{s.Special, "FIFOs, sockets or devices"}, {s.Deep, "folders too deep in others"}, {s.Unreadable, "unreadable"}} {
		if c.n > 0 {
			parts, all = append(parts, fmt.Sprintf("%d %s", c.n, c.what)), all+c.n
		}
	}
	return parts, all
}

// Searcher searches in the box, next to the files. Files ignored by .gitignore,
// binary files and version control folders are left out; files come newest first,
// lines by path and line. What a query names is looked at all the same: a Root all of whose
// files are ignored, a name with a dot or without a wildcard in a glob.
type Searcher interface {
	Search(ctx context.Context, q Query) (Found, error)
}

// Copier moves trees as uncompressed tar streams. Extraction never leaves path.
type Copier interface {
	CopyIn(ctx context.Context, path string, tar io.Reader) error
	CopyOut(ctx context.Context, path string, tar io.Writer) error
}

// Snapshotter freezes the file system of a box as an image that Spec.Image can name.
type Snapshotter interface {
	Snapshot(ctx context.Context, name string) (image string, err error)
}

// Forwarder opens a connection to a TCP port inside the box.
type Forwarder interface {
	Forward(ctx context.Context, port int) (io.ReadWriteCloser, error)
}

// Expecter is a back-end that can make boxes before they are asked for.
type Expecter interface {
	// Expect says that a box may be asked for by Open with the same s. over is called once
	// that has happened, with true, or will not happen. Further calls of it do nothing.
	Expect(s Spec) (over func(opened bool))
}

// Sweeper is a back-end that can find what dead owners of its boxes left behind. What
// belongs to a living owner is not touched.
type Sweeper interface {
	Sweep(ctx context.Context) (removed int, err error)
}

// Adopter is a back-end whose boxes outlive the program that opened them. Adopt takes
// over those of this owner that no program uses now. They have not been reset.
type Adopter interface {
	Adopt(ctx context.Context) ([]Adopted, error)
}

// Adopted is a box that was found again, and what it was opened with.
type Adopted struct {
	Sandbox
	Spec Spec
}

// Narrower is a back-end with an allow-list that heeds Spec.Network.
type Narrower interface {
	// Narrow reports why boxes cannot be let out to no more than that, or nil.
	Narrow(network []string) error
}

// Unwrapper is implemented by boxes that wrap another one.
type Unwrapper interface{ Unwrap() Sandbox }

// Selective is implemented by boxes that have the methods of an ability which the box
// behind them may lack. Has is asked with a nil pointer to the ability's interface, such
// as (*Starter)(nil).
type Selective interface{ Has(ability any) bool }

// As finds an optional ability of a box, looking through wrappers.
func As[T any](box Sandbox) (T, bool) {
	for box != nil {
		if t, ok := box.(T); ok {
			if s, picky := box.(Selective); !picky || s.Has((*T)(nil)) {
				return t, true
			}
		}
		u, ok := box.(Unwrapper)
		if !ok {
			break
		}
		box = u.Unwrap()
	}
	var none T
	return none, false
}

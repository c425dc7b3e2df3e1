// Package wandb writes the figures of a run for Weights & Biases: into the file that
// `wandb sync` uploads, and online, as they come.
//
// The file is always written. What goes over the network is a second reader of the same
// rows, behind a bounded queue. So a server that is away, slow or refuses costs a note and
// nothing else. Only the end of the run waits for it, and not for long. Rows that did not
// reach the server are in the file.
//
// A [Run] is safe for concurrent use.
package wandb

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hermes/internal/address"
)

// Info is what a run says of itself.
type Info struct {
	ID      string // see [ID]
	Project string
	Entity  string // "": the key's own
	Name    string // for people
	Group   string
	Tags    []string
	JobType string
	Config  map[string]any
	Started time.Time
	Host    string // name of the machine; "": it is not sent
	Version string // of the program
}

// Options tune a [Run]. The zero value writes offline.
type Options struct {
	Online  *Server
	Queue   int           // rows that wait for the server; 0 means 1024
	Linger  time.Duration // longest wait for the server at the end; 0 means 15 s
	Pause   time.Duration // before the first repetition of a request; 0 means 1 s
	Now     func() time.Time
	Log     *slog.Logger  // nil means silent
	Beat    time.Duration // at least one request in this time; 0 means 30 s
	Tries   int           // of one request; 0 means 6
	Timeout time.Duration // of one request; 0 means 10 s
}

// Server is where rows go online.
type Server struct {
	URL string // such as https://api.wandb.ai
	Key string
}

// ErrRefused says that the server does not know the key, or that it may not write there.
var ErrRefused = errors.New("the server of W&B refuses the key")

// row is one line of a history.
type row struct {
	step   int64
	at     time.Time
	values map[string]float64
}

// Run is one run in W&B.
type Run struct {
	info Info
	o    Options
	dir  string // of the file

	mu      sync.Mutex
	file    *store
	held    *row // the newest, until another step comes
	summary map[string]float64
	closed  bool
	err     error
	up      *uploader // nil: offline
}

// ID makes the name of a run out of what tells it from others: eight letters and digits
// that stay the same when it is resumed.
func ID(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.HexEncoding.EncodeToString(sum[:])[:8])
}

// Open begins a run, or goes on with one, in a folder wandb of the parent folder. A key
// that the server refuses is ErrRefused. When the server does not answer, that is logged
// and the run is written offline.
func Open(ctx context.Context, parent string, info Info, o Options) (*Run, error) {
	if info.ID == "" || info.Project == "" {
		return nil, errors.New("wandb: a run needs an id and a project")
	}
	o.Queue, o.Linger, o.Pause = cmp.Or(o.Queue, 1024), cmp.Or(o.Linger, 15*time.Second), cmp.Or(o.Pause, time.Second)
	o.Beat, o.Tries, o.Timeout = cmp.Or(o.Beat, 30*time.Second), cmp.Or(o.Tries, 6), cmp.Or(o.Timeout, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Run{info: info, o: o, summary: map[string]float64{}}
	if o.Online != nil {
		up, err := newUploader(ctx, info, o)
		switch {
		case errors.Is(err, ErrRefused):
			return nil, err
		case err != nil:
			o.Log.Warn("W&B cannot be reached; the run is written offline", "err", err)
		default:
			r.up = up
		}
	}
	if err := r.begin(parent); err != nil {
		if r.up != nil {
			r.up.stop()
		}
		return nil, fmt.Errorf("wandb: %w", err)
	}
	if r.up != nil {
		r.up.start()
	}
	return r, nil
}

// begin makes the file. Each start of a run has its own file, as with W&B's own client.
func (r *Run) begin(parent string) error {
	prefix := "offline-run-"
	if r.up != nil {
		prefix = "run-"
	}
	at := r.o.Now()
	for n := 0; ; n++ { // two starts in one second
		r.dir = filepath.Join(parent, "wandb", prefix+at.Add(time.Duration(n)*time.Second).UTC().Format("20060102_150405")+"-"+r.info.ID)
		if err := os.MkdirAll(filepath.Dir(r.dir), 0o700); err != nil {
			return err
		}
		err := os.Mkdir(r.dir, 0o700)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) || n == 100 {
			return err
		}
	}
	var err error
	r.file, err = createStore(filepath.Join(r.dir, "run-"+r.info.ID+".wandb"))
	if err != nil {
		return err
	}
	return errors.Join(r.file.add(headerRecord(r.info.Version)), r.file.add(runRecord(r.info)), r.file.flush())
}

// Dir is the folder of the file.
func (r *Run) Dir() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dir
}

// URL is the page of the run; "": it is offline.
func (r *Run) URL() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.up == nil {
		return ""
	}
	return r.up.page()
}

// Log tells figures at a step. Those of one step become one row; a step that is smaller
// than one before counts as that one. What is no number (NaN, infinite) is left out. It
// does not wait for the network.
func (r *Run) Log(step int64, values map[string]float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.held != nil && step > r.held.step {
		r.put()
	}
	if r.held == nil {
		r.held = &row{step: step, values: map[string]float64{}}
	}
	r.held.at = r.o.Now()
	maps.Copy(r.held.values, finite(values))
}

func finite(values map[string]float64) map[string]float64 {
	values = maps.Clone(values)
	maps.DeleteFunc(values, func(_ string, v float64) bool { return v-v != 0 })
	return values
}

// put writes the held row. The caller holds mu.
func (r *Run) put() {
	w := r.held
	r.held = nil
	if w == nil || len(w.values) == 0 {
		return
	}
	maps.Copy(r.summary, w.values)
	if err := errors.Join(r.file.add(historyRecord(w, r.info.Started)), r.file.flush()); err != nil && r.err == nil {
		r.err = err
		r.o.Log.Warn("W&B's file cannot be written", "file", r.dir, "err", err)
	}
	if r.up != nil {
		r.up.offer(*w, maps.Clone(r.summary))
	}
}

// Close ends the run with the exit code of the process. Where the server did not get
// everything it says so to the log, with the command that uploads the rest.
func (r *Run) Close(code int) error {
	r.mu.Lock()
	if r.closed {
		defer r.mu.Unlock()
		return r.err
	}
	r.put()
	r.closed = true
	runtime := r.o.Now().Sub(r.info.Started)
	err := errors.Join(r.err, r.file.add(summaryRecord(r.summary)), r.file.add(exitRecord(code, runtime)), r.file.close())
	up := r.up
	r.mu.Unlock()
	if up == nil {
		return err
	}
	if upErr := up.finish(code, r.o.Linger); upErr != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		// By this name `wandb sync` takes it for what it is.
		offline := filepath.Join(filepath.Dir(r.dir), "offline-"+filepath.Base(r.dir))
		if os.Rename(r.dir, offline) == nil {
			r.dir = offline
		}
		r.o.Log.Warn("W&B did not get all rows; 'wandb sync "+r.dir+"' uploads them", "err", upErr)
	}
	return err
}

// NewServer reads an address and a key.
func NewServer(base, key string) (*Server, error) {
	if err := address.CheckURL("WANDB_BASE_URL", base); err != nil {
		return nil, fmt.Errorf("address of W&B: %w", err)
	}
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("address of W&B %q: want https://HOST", base)
	}
	if key == "" {
		return nil, errors.New("W&B online needs a key")
	}
	return &Server{URL: u.String(), Key: key}, nil
}

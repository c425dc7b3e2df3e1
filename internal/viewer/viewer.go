// Package viewer shows run directories on a page of this machine: the list of runs, what a run
// came to, its tasks and samples, one trajectory with its tokens and branches, artifacts, the
// difference of two. [Viewer.Export] writes the same pages as a folder that needs no server.
//
// The page is ours alone (embedded, no framework, nothing fetched from elsewhere) and what
// models wrote reaches it as text only; Markdown becomes elements that hold text. The list comes out of an index that is built once
// out of the log, in the background, and kept beside it, so that opening a run costs what
// its index weighs and not what its records do; a record is read at its place in the log.
// A run that is being written may be looked at: it is only read.
package viewer

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"hermes/internal/guard"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/trajectory"
)

//go:embed page
var page embed.FS

// Decoder gives the text of each token, so that the texts joined are the whole; characters
// of several tokens stand at their last one.
type Decoder func(ids []trajectory.Token) ([]string, error)

// Options tune a [Viewer]. The zero value is usable.
type Options struct {
	// Decoder finds the decoder of an exact run; nil, or an error, which the page shows:
	// tokens are shown by number.
	Decoder func(m rundir.Manifest) (Decoder, error)
	// Lazy opens a run when it is looked at first. One that cannot be opened is listed with
	// its error. Else all are opened at once, and each must be good.
	Lazy bool
	Log  *slog.Logger // nil means silent
}

// Viewer shows some runs. It is safe for concurrent use.
type Viewer struct {
	opt  Options
	runs []*shown
	end  context.CancelFunc

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

// shown is one run on the page.
type shown struct {
	dir, name string
	get       func() (*opened, error) // opens it, once
	ready     atomic.Pointer[opened]  // nil: it was not opened
}

// opened is a run whose log and list are at hand.
type opened struct {
	*runs.Run
	name   string
	index  *index
	decode func() (Decoder, error)
}

// Open opens run directories. Indexes that are not up to date are brought there in the
// background. Close ends it.
func Open(ctx context.Context, dirs []string, o Options) (*Viewer, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if len(dirs) == 0 {
		return nil, errors.New("no run to view")
	}
	v := &Viewer{opt: o}
	ctx, v.end = context.WithCancel(context.WithoutCancel(ctx))
	for _, dir := range dirs {
		s := &shown{dir: dir, name: nameOf(dir, dirs)}
		s.get = sync.OnceValues(func() (*opened, error) { return v.open(ctx, s) })
		v.runs = append(v.runs, s)
		if o.Lazy {
			continue
		}
		if _, err := s.get(); err != nil {
			return nil, errors.Join(err, v.Close())
		}
	}
	return v, nil
}

// open opens one run and begins to follow its log.
func (v *Viewer) open(ctx context.Context, s *shown) (*opened, error) {
	r, list, err := openRun(s.dir)
	if err != nil {
		return nil, err
	}
	x, err := openIndex(r, list, v.opt.Log)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	o := &opened{Run: r, name: s.name, index: x, decode: sync.OnceValues(func() (Decoder, error) { return v.decoder(r) })}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errors.Join(errors.New("the page is closed"), r.Close())
	}
	s.ready.Store(o)
	v.work.Go(func() { x.follow(ctx) })
	return o, nil
}

// Close ends what runs in the background and closes the runs.
func (v *Viewer) Close() error {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.end()
	v.work.Wait()
	var errs []error
	for _, s := range v.runs {
		if o := s.ready.Load(); o != nil {
			errs = append(errs, o.Close())
		}
	}
	return errors.Join(errs...)
}

// Indexed returns when everything that is in the logs now is in the indexes.
func (v *Viewer) Indexed(ctx context.Context) error {
	for _, s := range v.runs {
		o, err := s.get()
		if err != nil {
			return err
		}
		if err := o.index.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// decoder finds the decoder of the tokens of a run.
func (v *Viewer) decoder(r *runs.Run) (Decoder, error) {
	if v.opt.Decoder == nil {
		return nil, errors.New("there is no tokenizer")
	}
	return v.opt.Decoder(r.Manifest)
}

// Listen opens a loopback address: HOST:PORT, or a port alone.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	return guard.Listen(ctx, "listen on", addr, "the page shows everything to whoever reaches it")
}

// end is how long answers may go on when the page is ended.
const end = 2 * time.Second

// Serve answers on l until ctx ends, then closes l. It returns nil after a shutdown.
func (v *Viewer) Serve(ctx context.Context, l net.Listener) error {
	if err := guard.Local(end).On(ctx, l, shield(v.pages())).Wait(); err != nil {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}

// nameOf is what a run is called: by its folder, or where two have the same name by its path.
func nameOf(dir string, all []string) string {
	base, twice := filepath.Base(dir), 0
	for _, d := range all {
		if filepath.Base(d) == base {
			twice++
		}
	}
	if twice > 1 {
		return filepath.Clean(dir)
	}
	return base
}

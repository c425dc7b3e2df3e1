// Package viewer shows run directories on a page of this machine: list, filter, search,
// sort, one trajectory with its tokens and branches, artifacts, the difference of two.
//
// The page is ours alone (embedded, no framework, nothing fetched from elsewhere) and what
// models wrote reaches it as text only. The list comes out of an index that is built once
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
	// Decoder finds the decoder of an exact run; nil, or an error, which the page tells:
	// tokens are shown by number.
	Decoder func(m rundir.Manifest) (Decoder, error)
	Log     *slog.Logger // nil means silent
}

// Viewer shows some runs. It is safe for concurrent use.
type Viewer struct {
	opt  Options
	runs []*shown
	end  context.CancelFunc
	work sync.WaitGroup
}

// shown is one run on the page.
type shown struct {
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
		r, list, err := openRun(dir)
		if err != nil {
			return nil, errors.Join(err, v.Close())
		}
		s := &shown{Run: r, name: nameOf(dir, dirs), decode: sync.OnceValues(func() (Decoder, error) { return v.decoder(r) })}
		v.runs = append(v.runs, s)
		if s.index, err = openIndex(r, list, o.Log); err != nil {
			return nil, errors.Join(err, v.Close())
		}
		v.work.Go(func() { s.index.follow(ctx) })
	}
	return v, nil
}

// Close ends what runs in the background and closes the runs.
func (v *Viewer) Close() error {
	v.end()
	v.work.Wait()
	var errs []error
	for _, s := range v.runs {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Indexed returns when everything that stands in the logs now is in the indexes.
func (v *Viewer) Indexed(ctx context.Context) error {
	for _, s := range v.runs {
		if err := s.index.wait(ctx); err != nil {
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

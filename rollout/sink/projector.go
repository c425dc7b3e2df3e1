package sink

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/rollout/journal"
	"hermes/rollout/listing"
	"hermes/rollout/rundir"
	"hermes/trajectory/sharegpt"
	"hermes/trajectory/stats"
)

const positionsName = "projections.json"

// Options tune a [Projector]. The zero value is usable.
type Options struct {
	Every time.Duration // at most one commit in this time while following; 0 means 1 s
	FS    journal.FS    // nil means the real file system
	Log   *slog.Logger  // nil means silent
}

// Projector keeps the projections of one run directory. Follow and Finish may be called
// from one goroutine; Err from any.
type Projector struct {
	log    *journal.Journal
	dir    string
	man    rundir.Manifest
	sorter *Sorter
	opt    Options
	setup  string // what the projections depend on beside the log
	sinks  []Sink
	books  *books

	places []place // of the sinks, in their order
	ready  bool    // the sinks are at their places
	at     journal.Offset

	stop   context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	err    error
	latest stats.Statistics // as of the last commit
}

// place is how far a sink has come.
type place struct {
	Offset journal.Offset  `json:"offset"`
	State  json.RawMessage `json:"state"`
}

type positions struct {
	Setup string           `json:"setup"`
	Sinks map[string]place `json:"sinks"`
}

// New makes the projector of a run directory.
func New(j *journal.Journal, dir string, m rundir.Manifest, o Options) (*Projector, error) {
	if o.FS == nil {
		o.FS = journal.OS{}
	}
	o.Every = cmp.Or(o.Every, time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	sorter, err := NewSorter(j, m)
	if err != nil {
		return nil, err
	}
	setup, err := json.Marshal(struct {
		Books rundir.Books
		Tools []string
	}{m.Books, m.Tools})
	if err != nil {
		return nil, err
	}
	layout := sharegpt.Options{Preamble: m.Books.Preamble}
	model, _ := m.Identity.Get("model")
	p := &Projector{log: j, dir: dir, man: m, sorter: sorter, opt: o, setup: string(setup)}
	formats := m.Books.Formats
	if len(formats) == 0 {
		formats = []string{"sharegpt", "messages"}
	}
	for _, f := range formats {
		switch f {
		case "sharegpt":
			p.sinks = append(p.sinks, ShareGPT(o.FS, dir, m.Tools, layout))
		case "messages":
			p.sinks = append(p.sinks, Messages(o.FS, dir))
		default:
			return nil, fmt.Errorf("format %q (have sharegpt, messages)", f)
		}
	}
	if m.Books.Parquet {
		p.sinks = append(p.sinks, Parquet(o.FS, dir, "hermes", m.Books.LogProbs))
	}
	p.sinks = append(p.sinks, Listing(o.FS, dir, m.Created))
	p.books = &books{
		dir: dir, fs: o.FS, log: j, tools: m.Tools, planned: m.Extent.Planned, layout: layout, sorter: sorter,
		head: reportHead{filepath.Base(dir), m.Version, m.Books.Mode, model, m.Books.Accept},
	}
	p.sinks = append(p.sinks, p.books)
	return p, nil
}

// resume brings the sinks to where they were committed.
func (p *Projector) resume(ctx context.Context) error {
	have := positions{}
	b, err := journal.ReadFile(p.opt.FS, filepath.Join(p.dir, positionsName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && (json.Unmarshal(b, &have) != nil || have.Setup != p.setup) {
		p.opt.Log.Warn("the projections are made again: run.yaml changed", "dir", p.dir)
		have = positions{}
	}
	p.places = make([]place, len(p.sinks))
	for i, s := range p.sinks {
		at, ok := have.Sinks[s.Name()]
		if !ok || at.Offset > p.log.Synced() {
			at = place{}
		}
		err := s.Resume(ctx, at.State)
		if errors.Is(err, ErrStale) {
			p.opt.Log.Warn("a projection is made again: its output is not what was committed", "dir", p.dir, "projection", s.Name())
			at = place{}
			err = s.Resume(ctx, nil)
		}
		if err != nil {
			return fmt.Errorf("projection %s: %w", s.Name(), err)
		}
		p.places[i] = at
	}
	p.at = slices.MinFunc(p.places, func(a, b place) int { return cmp.Compare(a.Offset, b.Offset) }).Offset
	p.ready = true
	return nil
}

// step projects what is on disk and commits. After an error the next step begins where
// the last commit was.
func (p *Projector) step(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			p.ready = false
		}
	}()
	fresh := !p.ready
	if fresh {
		if err := p.resume(ctx); err != nil {
			return err
		}
	}
	upTo, synced := p.at, p.log.Synced()
	for e, err := range p.log.Follow(ctx, p.at) {
		if err != nil {
			return err
		}
		if err := p.write(ctx, e); err != nil {
			return err
		}
		upTo, fresh = e.Next, true
	}
	p.at = max(upTo, synced) // what lies between holds no entries
	if !fresh {
		return nil
	}
	for i, s := range p.sinks {
		p.places[i].Offset, p.places[i].State, err = s.Commit(ctx, max(p.at, p.places[i].Offset))
		if err != nil {
			return fmt.Errorf("projection %s: %w", s.Name(), err)
		}
	}
	latest := p.books.totals.Statistics(p.books.planned)
	p.mu.Lock()
	p.latest = latest
	p.mu.Unlock()
	return p.save()
}

// Books are the statistics as of the last commit, for those who watch a run. Any goroutine
// may ask.
func (p *Projector) Books() stats.Statistics {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

func (p *Projector) write(ctx context.Context, e journal.Entry) error {
	it := Item{Entry: e}
	var err error
	if e.Kind == journal.KindFinal || e.Kind == journal.KindAttempt {
		it.Record, err = e.Record()
		if err != nil {
			return err
		}
	}
	if e.Kind == journal.KindFinal {
		it.Entered, err = p.sorter.Enter(it.At, it.Record)
		if err != nil {
			return err
		}
	}
	for i, s := range p.sinks {
		if e.At < p.places[i].Offset {
			continue // it is there already
		}
		if err := s.Write(ctx, it); err != nil {
			return fmt.Errorf("projection %s: %w", s.Name(), err)
		}
	}
	return nil
}

func (p *Projector) save() error {
	all := positions{Setup: p.setup, Sinks: map[string]place{}}
	for i, s := range p.sinks {
		all.Sinks[s.Name()] = p.places[i]
	}
	b, err := json.Marshal(all)
	if err == nil {
		err = journal.WriteFile(p.opt.FS, filepath.Join(p.dir, positionsName), b)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", positionsName, err)
	}
	return nil
}

// followBytes bounds the records that wait in memory for a projector that follows the log, by
// their size there. Where it falls behind by more it reads the log.
const followBytes = 32 << 20

// Follow projects in the background until Finish. A failure does not stop the run: Err returns
// it, and Finish tries again.
func (p *Projector) Follow(ctx context.Context) {
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	p.done = make(chan struct{})
	p.log.Remember(followBytes)
	go func() {
		defer close(p.done)
		if err := p.follow(ctx); err != nil && ctx.Err() == nil {
			p.opt.Log.Error("the projections stand still", "dir", p.dir, "err", err)
			p.mu.Lock()
			p.err = err
			p.mu.Unlock()
		}
	}()
}

func (p *Projector) follow(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		begun := time.Now()
		// A step that has begun is not cut off: what it has taken from memory would be read from the log again.
		if err := p.step(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		// Committing must stay cheap beside what it commits.
		pause.Reset(max(p.opt.Every, 10*time.Since(begun)))
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		if err := p.log.Wait(ctx, p.at); err != nil {
			return nil
		}
	}
}

// Err says why the projections do not go on, or nil.
func (p *Projector) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Finish projects the rest, writes what is at the end of a run and returns the
// statistics. It works after cancellation, too. Books that do not balance are an error.
// Where the projections cannot be written the statistics are those of the log.
func (p *Projector) Finish(ctx context.Context) (stats.Statistics, error) {
	if p.stop != nil {
		p.stop()
		<-p.done
		p.stop = nil
		p.ready = false // somebody may have deleted an output meanwhile
		defer p.log.Remember(0)
	}
	ctx = context.WithoutCancel(ctx)
	if err := p.step(ctx); err != nil {
		s, cerr := Count(ctx, p.log, p.man)
		return s, errors.Join(fmt.Errorf("project %s: %w", p.dir, err), cerr)
	}
	p.ready = false
	var errs []error
	for _, s := range p.sinks {
		if err := s.Finish(ctx); err != nil {
			errs = append(errs, fmt.Errorf("projection %s: %w", s.Name(), err))
		}
		errs = append(errs, s.Close())
	}
	s := p.books.totals.Statistics(p.books.planned)
	return s, errors.Join(append(errs, s.Balance())...)
}

// Rebuild deletes the projections of a run directory and makes them again out of the log.
// The bytes are the same.
func Rebuild(ctx context.Context, j *journal.Journal, dir string, m rundir.Manifest, o Options) (stats.Statistics, error) {
	p, err := New(j, dir, m, o)
	if err != nil {
		return stats.Statistics{}, err
	}
	if err := remove(p.opt.FS, dir); err != nil {
		return stats.Statistics{}, err
	}
	return p.Finish(ctx)
}

// remove deletes the projections, the file of positions first.
func remove(fsys journal.FS, dir string) error {
	names := []string{positionsName, "trajectories.jsonl", "messages.jsonl", "failed_trajectories.jsonl", "statistics.json", "report.md", listing.FileName}
	parquet, err := fsys.List(filepath.Join(dir, "parquet"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, n := range parquet {
		if strings.HasPrefix(n, "part-") {
			names = append(names, filepath.Join("parquet", n))
		}
	}
	for _, n := range names {
		if err := fsys.Remove(filepath.Join(dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Package backendtest is the suite that every back-end passes, and a fake box.
//
// Its rows are data: [Run] makes a subtest of each, [Check] runs them without go test,
// for `hermes sandbox check`. A row that a back-end cannot be asked is skipped with the
// reason. Run compares the skipped rows with a list that the driver's test keeps, so
// that coverage cannot shrink unseen. Every row opens its own boxes. No row needs more
// of a box than a POSIX shell and the usual small programs.
package backendtest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"hermes/backends"
)

// Options tell the suite what the back-end is promised to do and how to harm it.
// Everything is optional but the back-end itself, which is an argument elsewhere.
type Options struct {
	// Enforces lists the limits of Spec that the boxes enforce: "memory", "processes", "disk".
	Enforces []string
	// Secret is a text that only the host's process knows, Token the one that slotd wants.
	Secret, Token string
	// Allowed is HOST:PORT of a web server that boxes may reach through their proxy,
	// Refused one of a server that answers too and that they may not.
	Allowed, Refused string
	// Kill ends a box from outside, as a machine that dies would. Cut breaks its
	// connections and leaves it alive.
	Kill func(box backends.Sandbox) error
	Cut  func(box backends.Sandbox) error
	// Heavy asks for the long forms: a million files.
	Heavy bool
	// Shallow says that boxes are removed by an engine that cannot remove deep trees where it may
	// open few files: a row that makes one removes it itself.
	Shallow bool
	// Skips are the numbers of the rows that this back-end is expected to skip.
	Skips []int
}

// T is what a row needs of *testing.T.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Row is one promise of a box.
type Row struct {
	Number int
	Name   string
	Left   string            // why the row cannot be asked of any back-end yet; then run is nil
	needs  func(*Env) string // the reason to skip, or ""
	run    func(*Env)
}

// Title names the row in reports.
func (r Row) Title() string { return fmt.Sprintf("%02d %s", r.Number, r.Name) }

// Run runs the row against a back-end and closes the boxes that it opened.
func (r Row) Run(ctx context.Context, t T, b backends.Backend, o Options) {
	t.Helper()
	e := &Env{T: t, ctx: ctx, back: b, traits: b.Traits(), opt: o}
	if r.run == nil {
		t.Skipf("%s", r.Left)
		return
	}
	if r.needs != nil {
		if why := r.needs(e); why != "" {
			t.Skipf("%s", why)
			return
		}
	}
	defer e.cleanup()
	r.run(e)
}

// Rows lists the suite in the order of its numbers.
func Rows() []Row {
	all := slices.Concat(execRows(), killRows(), fileRows(), isolationRows(), lifeRows(), poolRows(), moreRows(), reportRows(), hangRows(), leftRows())
	slices.SortFunc(all, func(a, b Row) int { return a.Number - b.Number })
	return all
}

// Run runs the whole suite. open is called once.
func Run(t *testing.T, open func(t *testing.T) backends.Backend, o Options) {
	b := open(t)
	var skipped []int
	ran := 0
	for _, r := range Rows() {
		t.Run(strings.ReplaceAll(r.Title(), " ", "_"), func(t *testing.T) {
			ran++
			defer func() {
				if t.Skipped() {
					skipped = append(skipped, r.Number)
				}
			}()
			r.Run(t.Context(), t, b, o)
		})
	}
	if t.Failed() || ran < len(Rows()) { // some rows were asked for by name
		return
	}
	if want := slices.Sorted(slices.Values(o.Skips)); !slices.Equal(skipped, want) {
		t.Errorf("rows skipped: %v\nexpected:     %v", skipped, want)
	}
}

// Report is the outcome of one row.
type Report struct {
	Row     Row
	Failed  bool
	Skipped bool
	Text    string // what the row said
	Took    time.Duration
}

// Check runs the rows one after the other without go test.
func Check(ctx context.Context, b backends.Backend, o Options, each func(Report)) {
	for _, r := range Rows() {
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		p := &plain{}
		done := make(chan struct{})
		go func() { // Fatalf and Skipf end this goroutine
			defer close(done)
			defer func() {
				if v := recover(); v != nil {
					p.failed = true
					p.Logf("panic: %v", v)
				}
			}()
			r.Run(ctx, p, b, o)
		}()
		<-done
		each(Report{r, p.failed, p.skipped, strings.TrimSpace(p.text.String()), time.Since(began)})
	}
}

// plain is a T outside of go test.
type plain struct {
	text            strings.Builder
	failed, skipped bool
}

func (p *plain) Helper()                         {}
func (p *plain) Logf(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }
func (p *plain) Errorf(format string, args ...any) {
	p.failed = true
	p.Logf(format, args...)
}
func (p *plain) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	runtime.Goexit()
}
func (p *plain) Skipf(format string, args ...any) {
	p.skipped = true
	p.Logf(format, args...)
	runtime.Goexit()
}

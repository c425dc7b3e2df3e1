// Package serve feeds a trainer through Atropos' trajectory API: it registers its
// environments, rolls out groups while the trainer's queue has room, shapes their rewards
// and posts them with their exact tokens.
//
// When the queue is full, nothing new is begun and nothing that runs is cancelled. A group
// that fails, is too short or teaches nothing is counted with its reason and never sent
// half. How far the rows have come is kept in the run's journal for each trainer step: a
// trainer that goes back to a checkpoint gets the rows that followed it.
//
// A [Server] is used once; its methods other than Run are safe for concurrent use.
package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"hermes/datasets"
	"hermes/internal/atropos/client"
	"hermes/internal/atropos/shape"
	"hermes/rollout"
	"hermes/rollout/engine"
	"hermes/rollout/event"
	"hermes/trajectory"
)

// Runner rolls out one sample of an environment.
type Runner interface {
	Run(ctx context.Context, j rollout.Job) (*trajectory.Record, error)
}

// Journal is the log of the run.
type Journal interface {
	engine.Log
	Cursor(ctx context.Context, data []byte) error
}

// Env is one environment that is served.
type Env struct {
	Name    string
	Weight  float64 // its share of the groups, relative to the others; more than 0
	Desired string  // name to register under; "": Name
	Runner  Runner
	// Rows yields the rows of an epoch, from 0, in the same order each time.
	Rows     func(ctx context.Context, epoch int) iter.Seq2[datasets.Row, error]
	Toolsets func(r *mathrand.Rand) []string // drawn once a group; nil: none
	// Finish scores a group as a whole and adds what trainers get beside the rewards. nil:
	// the scores of the records.
	Finish func(ctx context.Context, row datasets.Row, recs []*trajectory.Record) (Finished, error)
	// Evaluate rolls out the evaluation split; nil: the environment has none.
	Evaluate func(ctx context.Context) (map[string]float64, error)
}

// Finished is a group as its environment leaves it; the lists have an entry for each
// record.
type Finished struct {
	Scores []trajectory.Score
	Notes  []Annotation   // empty: none
	Group  map[string]any // group_overrides; nil: none
}

// Annotation is what an environment says about one sample beside its reward. RefLogProbs,
// DistillTokens and DistillLogProbs have an entry for each token of the sequence, or are
// empty.
type Annotation struct {
	Overrides       map[string]any
	RefLogProbs     []float64
	DistillTokens   [][]int
	DistillLogProbs [][]float64
}

// EvalHandling says what happens to training rollouts during an evaluation.
type EvalHandling string

// StopTrain admits none, LimitTrain a share, NoHandling all of them.
const (
	StopTrain  EvalHandling = "STOP_TRAIN"
	LimitTrain EvalHandling = "LIMIT_TRAIN"
	NoHandling EvalHandling = "NONE"
)

// Options tune a [Server]. GroupSize and Dir must be set.
type Options struct {
	GroupSize      int
	Rules          shape.Rules // checked
	MaxTokenLength int         // that environments register with; 0: 2048
	MinAllocation  *float64    // share of each batch that each environment wants; nil: none
	OffPolicy      int         // batches in the queue beyond which admission pauses; 0: 3, negative: never
	TotalSteps     int64       // trainer steps after which it ends; 0: the trainer's number; negative: none
	StepsPerEval   int64       // 0: no evaluation
	EvalHandling   EvalHandling
	EvalLimit      float64        // of LimitTrain; 0: 0.5
	LogAfter       int            // groups sent before metrics are written; 0: 2
	MaxStale       int            // groups in a row that no trainer can use, behind which it ends; 0: never
	Messages       bool           // send the conversations too
	Generation     map[string]any // sampling parameters that are sent along
	Seed           int64
	Replicas       int           // processes that share the weight; 0: 1
	Wait           time.Duration // for a trainer, at the start; 0: 5 minutes
	Poll           time.Duration // between looks at the queue; 0: 250 ms
	Dir            string        // the run directory
	Before         []Cursor      // of earlier starts, in order
	GroupsFile     string        // groups that were sent are also written here; "": nowhere
	Log            *slog.Logger
	Say            func(string)              // sentences for people; nil: none
	Engine         engine.Options            // Rollouts, Toolsets and Observer are the server's
	Observer       event.Observer            // also gets the events of the rollouts; nil: none
	Calls          *Calls                    // an observer of the runners, whose times are reported; nil: none
	Planned        func(samples int64) error // called before more samples than ever are begun; nil: none
	// Figures is called with every line of metrics.jsonl, its number and the trainer's step.
	// It must not wait. It may be nil.
	Figures func(line, step int64, values map[string]float64)
	// Begun is called with the engine before it runs, so that the caller can steer the engine
	// and use [Server.SetConcurrency]. What it returns is called after the end. It may be nil.
	Begun func(*engine.Engine) (ended func())
}

// ErrTrainer says that there is no trainer, or one whose numbers do not fit: nothing was
// begun.
var ErrTrainer = errors.New("no training")

// ErrStale says that too many groups in a row came to nothing.
var ErrStale = errors.New("nothing to train on")

// Server serves environments.
type Server struct {
	c    *client.Client
	o    Options
	log  Journal
	envs []*env
	met  *metrics
	file *ledger

	stop  context.CancelCauseFunc // ends admission, with a reason
	quit  func()                  // ends all waiting for the server
	ready chan *group
	evals sync.WaitGroup

	instance string // of this run directory, to a server that knows such

	mu       sync.Mutex
	wake     chan struct{} // closed and replaced when anything changes that somebody waits for
	online   bool          // the environments are registered, and the server answers
	doubts   int           // grows when a request failed: the server may be another one
	done     bool          // the trainer has all it wants
	step     int64
	batch    int
	maxLen   int
	total    int64
	gen      int    // of keys: grows at each start and when the trainer goes back
	series   string // of posts: another one when the trainer goes back
	begun    int64
	planned  int64
	groups   map[string]*group // in flight, by name
	backlog  []*group          // go on before anything new begins
	rejected int               // posts in a row
	stale    int               // groups in a row, of all environments, that came to nothing
	reasons  map[string]int64  // why
	history  []Cursor          // one for each step, the first of it

	forgotten []*group // by a rewind, not booked yet
}

// env is an environment with its session and its place in the rows.
type env struct {
	Env
	id         int
	name       string // as registered
	status     client.Status
	posted     int // groups since the status was asked for
	sent       int64
	dry        int   // groups in a row that were not sent
	extra      int64 // turns that went to nothing, beyond what is patience
	evaluating bool
	place      place
	stale      bool    // the place was changed: rows must be read again
	rows       *puller // of the goroutine that admits groups
}

// group is one row in flight.
type group struct {
	env     *env
	row     datasets.Row
	at      Position
	name    string
	gen     int
	again   int // how often it was resampled
	sample  int // the next sample's number
	open    int // samples that have not ended
	recs    []*trajectory.Record
	jobs    []rollout.Job // to be begun
	started time.Time
	step    int64 // of the trainer, when it was begun
}

// New checks the options.
func New(c *client.Client, log Journal, envs []Env, o Options) (*Server, error) {
	if len(envs) == 0 || o.GroupSize < 1 || o.Dir == "" {
		return nil, fmt.Errorf("serve: %d environments, group size %d, run directory %q", len(envs), o.GroupSize, o.Dir)
	}
	o.MaxTokenLength = cmp.Or(o.MaxTokenLength, 2048)
	o.OffPolicy = cmp.Or(o.OffPolicy, 3)
	o.EvalLimit = cmp.Or(o.EvalLimit, 0.5)
	o.LogAfter = cmp.Or(o.LogAfter, 2)
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.EvalHandling = cmp.Or(o.EvalHandling, StopTrain)
	o.Wait, o.Poll = cmp.Or(o.Wait, 5*time.Minute), cmp.Or(o.Poll, 250*time.Millisecond)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Say == nil {
		o.Say = func(string) {}
	}
	o.Engine.InFlight = cmp.Or(o.Engine.InFlight, 64)
	if err := o.fits(o.Engine.InFlight); err != nil {
		return nil, err
	}
	s := &Server{c: c, o: o, log: log, wake: make(chan struct{}), groups: map[string]*group{}, ready: make(chan *group, 2*mostInFlight+1)}
	for _, e := range envs {
		if !(e.Weight > 0) || e.Weight > 1e6 {
			return nil, fmt.Errorf("environment %s: weight %g: want more than 0", e.Name, e.Weight)
		}
		if e.Toolsets == nil {
			e.Toolsets = func(*mathrand.Rand) []string { return nil }
		}
		e.Desired = cmp.Or(e.Desired, e.Name)
		s.envs = append(s.envs, &env{Env: e, place: place{open: map[Position]bool{}, done: map[Position]bool{}}})
	}
	s.met = newMetrics(s.envs)
	s.history = firsts(o.Before)
	s.instance = rand.Text()
	for _, c := range o.Before {
		s.instance = cmp.Or(c.Instance, s.instance)
	}
	return s, nil
}

// mostInFlight is the largest concurrency.
const mostInFlight = 1 << 15

// fits reports whether groups can be rolled out with a concurrency.
func (o *Options) fits(inFlight int) error {
	if n := o.GroupSize + o.Rules.Oversample; inFlight < n {
		return fmt.Errorf("a group needs %d rollouts at once (group size %d, oversample %d), but --concurrency is %d", n, o.GroupSize, o.Rules.Oversample, inFlight)
	}
	if inFlight > mostInFlight {
		return fmt.Errorf("concurrency %d: want at most %d in one process; start several, which share the weight", inFlight, mostInFlight)
	}
	return nil
}

// SetConcurrency changes how many rollouts groups are begun for. The engine has its own
// setting, which the caller must change too.
func (s *Server) SetConcurrency(n int) error {
	if err := s.o.fits(n); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.o.Engine.InFlight = n
	s.changed()
	return nil
}

// settlers is how many groups are shaped and posted at once.
const settlers = 4

// Run serves until the trainer has its steps, drain is closed or something stops it. Errors
// that are ErrTrainer were found before anything was begun; of a run that was drained the
// summary says so.
func (s *Server) Run(ctx context.Context, drain <-chan struct{}) (sum engine.Summary, err error) {
	if err := s.connect(ctx, drain); err != nil {
		return sum, err
	}
	s.file, err = openLedger(s.o.Dir, s.o.GroupsFile)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, s.file.close()) }()
	if err := s.begin(ctx); err != nil {
		return sum, err
	}

	actx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.stop = stop
	o := s.o.Engine
	o.Observer = event.All(event.Func(s.observe), cmp.Or(s.o.Observer, event.Discard))
	eng, err := engine.New(runnerFunc(s.play), s.log, o)
	if err != nil {
		return sum, err
	}
	if s.o.Begun != nil {
		defer s.o.Begun(eng)()
	}
	wctx, quit := context.WithCancel(ctx) // of those who serve the engine
	defer quit()
	s.quit = quit
	cctx, leave := context.WithCancel(ctx)
	defer leave()
	ectx, cut := context.WithCancel(ctx)
	defer cut()
	var conductor, workers sync.WaitGroup
	conductor.Go(func() { s.conduct(cctx, ectx) })
	for range settlers {
		workers.Go(func() {
			var r room
			for g := range s.ready {
				s.settle(wctx, g, &r)
			}
		})
	}
	sum = eng.RunJobs(ctx, drain, func(admit context.Context) iter.Seq2[rollout.Job, error] { return s.jobs(admit, actx) })
	if sum.Stopped == nil {
		sum.Stopped = context.Cause(actx)
	}
	close(s.ready)
	late := time.AfterFunc(cmp.Or(o.Drain, time.Minute), quit) // a server that is gone must not hold the end up
	workers.Wait()
	late.Stop()
	leave()
	conductor.Wait()
	s.awaitEvals(ectx, cut, sum.Stopped != nil, drain)
	return sum, s.end(context.WithoutCancel(ctx))
}

type runnerFunc func(context.Context, rollout.Job) (*trajectory.Record, error)

func (f runnerFunc) Run(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
	return f(ctx, j)
}

// play rolls out a sample with its own environment.
func (s *Server) play(ctx context.Context, j rollout.Job) (*trajectory.Record, error) {
	s.mu.Lock()
	g := s.groups[j.Group]
	s.mu.Unlock()
	if g == nil {
		return nil, fmt.Errorf("group %s is not in flight", j.Group)
	}
	return g.env.Runner.Run(ctx, j)
}

// observe takes finished samples.
func (s *Server) observe(ev event.Event) {
	e, ok := ev.(event.RolloutEnded)
	if !ok || e.Record == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[e.Record.Group]
	if g == nil {
		return
	}
	g.recs = append(g.recs, e.Record)
	g.open--
	if g.open == 0 && len(g.jobs) == 0 {
		s.ready <- g // never full: admission bounds the groups in flight
	}
}

// changed wakes everybody who waits. The caller holds mu.
func (s *Server) changed() {
	close(s.wake)
	s.wake = make(chan struct{})
}

// end leaves the books as they are and says good-bye to the server.
func (s *Server) end(ctx context.Context) error {
	s.mu.Lock()
	online := s.online
	left := slices.Collect(maps.Values(s.groups))
	s.mu.Unlock()
	for _, g := range left {
		s.drop(g, "unfinished")
	}
	for _, e := range s.envs {
		if e.rows != nil {
			e.rows.stop()
		}
	}
	err := s.keep(ctx, false)
	if online {
		for _, e := range s.envs {
			s.disconnect(ctx, e.id, e.name)
		}
	}
	return errors.Join(err, s.report(true))
}

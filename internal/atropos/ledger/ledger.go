// Package ledger is the state of a trajectory server: who is registered, which groups are
// queued, buffered, in a batch or leased, and which step it is. It does no input or output:
// each change is also written as an event, and replaying the events gives the same state.
//
// A State follows Atropos' server in what it answers. Where that server stalls without a
// word, a State says why, unless it is strict.
//
// A State is not safe for concurrent use; its owner locks it.
package ledger

import (
	"time"

	"hermes/internal/atropos/store"
)

// Ref is a group in the ledger; its bytes are in the store.
type Ref struct {
	ID        uint64
	At        store.Pos
	Sequences int
	Tokens    int
	Env       int64 // means nothing unless HasEnv
	HasEnv    bool
	NonFinite bool // it cannot be sent as JSON

	uses  int  // one for the list it is in, one for being the latest
	taken bool // it has been put into a batch, while events are replayed
}

// Env is a registered environment.
type Env struct {
	MaxContext int64    `json:"max_context"`
	Weight     float64  `json:"weight"`
	Desired    string   `json:"desired"`
	Instance   string   `json:"instance,omitempty"` // "": Atropos' clients name none
	Name       string   `json:"name"`
	Minimum    *float64 `json:"minimum,omitempty"`
	GroupSize  int64    `json:"group_size"`
	Gone       bool     `json:"gone,omitempty"`

	seen time.Time // last request that named it; not kept
}

// Registration is what a trainer says of itself.
type Registration struct {
	Group      string `json:"wandb_group"`
	Project    string `json:"wandb_project"`
	Batch      int64  `json:"batch_size"`
	MaxTokens  int64  `json:"max_token_len"`
	Checkpoint string `json:"checkpoint_dir"`
	Interval   int64  `json:"save_checkpoint_interval"`
	Start      int64  `json:"starting_step"`
	Steps      int64  `json:"num_steps"`
}

// Batch is a batch that was formed and is not delivered yet.
type Batch struct {
	ID     uint64
	Groups []*Ref

	holder  string    // who is to acknowledge it; "" for a client that does not
	until   time.Time // when the lease ends; zero before it was written whole
	writers int       // answers that it is being written to
}

// Options tune a [State]. The zero value is usable.
type Options struct {
	Strict bool          // answer as Atropos' server does, stalls included
	FIFO   bool          // deliver batches in the order of forming, not the newest first
	Lease  time.Duration // how long a batch waits for its acknowledgement; 0 means 10 minutes
	Silent time.Duration // after how long without a word a starving environment is an error; 0 means 2 minutes
}

// settings are the part of a state that is small.
type settings struct {
	Known     bool         `json:"known"`     // a trainer has registered, or data were reset
	HasQueue  bool         `json:"has_queue"` // Atropos' server takes this for "initialised"
	Active    bool         `json:"active"`    // a trainer is registered
	Started   bool         `json:"started"`   // it has asked for a batch
	Names     bool         `json:"names"`     // Group and Project count
	Reg       Registration `json:"reg"`
	Step      int64        `json:"step"`
	Envs      []*Env       `json:"envs,omitempty"`
	NextGroup uint64       `json:"next_group"`
	NextBatch uint64       `json:"next_batch"`
	InHand    uint64       `json:"in_hand,omitempty"` // last batch that a client without acknowledgements has whole, until it asks again
	Totals    Totals       `json:"totals"`
}

// Totals count since the directory was made.
type Totals struct {
	Groups, Sequences, Tokens int64 // accepted
	Batches                   int64 // delivered
	Delivered                 int64 // sequences of them
	Again                     int64 // batches delivered once more because a connection broke or a lease ended
	Discarded                 int64 // groups dropped by resets
	Lost                      int64 // at most so many batches died with trainers that do not acknowledge: see State.bury
}

// State is the state.
type State struct {
	opt Options
	settings
	queue   []*Ref
	buffer  map[int64][]*Ref
	ready   []*Batch // formed, not handed out; the newest last
	out     map[uint64]*Batch
	latest  *Ref
	tally   tally
	tried   bool   // forming gave nothing and nothing has changed since
	shape   uint64 // grows when what was formed of the queue would not hold any more
	starved int64  // environment whose lack of packs ended the last try, -1 for none
	stall   string
	keys    keyring

	byID   map[uint64]*Ref // while events are replayed
	events []byte
	freed  []store.Pos
	bytes  int64
	kept   int // groups in queue, buffer and batches
}

// New is the state of a server that has just been installed.
func New(o Options) *State {
	if o.Lease <= 0 {
		o.Lease = 10 * time.Minute
	}
	if o.Silent <= 0 {
		o.Silent = 2 * time.Minute
	}
	s := &State{opt: o, buffer: map[int64][]*Ref{}, out: map[uint64]*Batch{}, keys: newKeyring()}
	s.Reg.Batch, s.Reg.MaxTokens = -1, -1
	s.NextGroup, s.NextBatch = 1, 1
	s.tally.clear()
	return s
}

// Take returns the events since the last call as one frame of a log, nil for none, and
// the groups that go out of use with them.
func (s *State) Take() (frame []byte, freed []store.Pos) {
	frame, freed = s.events, s.freed
	s.events, s.freed = nil, nil
	return frame, freed
}

// Bytes are the sizes of all groups that are kept, and how many they are.
func (s *State) Bytes() (int64, int) { return s.bytes, s.kept }

// Info is what everybody may know.
type Info struct {
	Active, Started bool
	Group, Project  *string
	Reg             Registration
	Step            int64
	Queue           int // groups
	Queued          int // sequences of them
	Buffered        int // groups that wait for others of their environment
	Ready, Leased   int // batches
	Envs            []EnvInfo
	Totals          Totals
	Stall           string
}

// EnvInfo is what everybody may know of an environment.
type EnvInfo struct {
	Env
	Queued int
	Silent time.Duration // since it was heard of; negative: not since the server started
}

// Info tells about the state at a time. It shares nothing with the state that changes.
func (s *State) Info(now time.Time) Info {
	i := Info{Active: s.Active, Started: s.Started, Reg: s.Reg, Step: s.Step, Queue: len(s.queue), Queued: s.tally.total,
		Ready: len(s.ready), Leased: len(s.out), Totals: s.Totals, Stall: s.stall}
	if s.Names {
		group, project := s.Reg.Group, s.Reg.Project
		i.Group, i.Project = &group, &project
	}
	for _, list := range s.buffer {
		i.Buffered += len(list)
	}
	for id, e := range s.Envs {
		silent := time.Duration(-1)
		if !e.seen.IsZero() {
			silent = now.Sub(e.seen)
		}
		i.Envs = append(i.Envs, EnvInfo{Env: *e, Queued: s.tally.of(envKey{int64(id), true}).sequences, Silent: silent})
	}
	return i
}

// Latest is the newest group that was queued, nil before the first.
func (s *State) Latest() *Ref { return s.latest }

// envKey is an environment or its absence.
type envKey struct {
	env int64
	has bool
}

func (r *Ref) key() envKey {
	if !r.HasEnv {
		return envKey{}
	}
	return envKey{r.Env, true}
}

// tally counts the queue, so that a question about it does not walk through it.
type tally struct {
	total int
	sizes map[int]int // groups by size
	envs  map[envKey]*envTally
}

type envTally struct {
	sequences int
	sizes     map[int]int
}

func (t *tally) clear() { *t = tally{sizes: map[int]int{}, envs: map[envKey]*envTally{}} }

func (t *tally) add(r *Ref, n int) {
	t.total += n * r.Sequences
	e := t.envs[r.key()]
	if e == nil {
		e = &envTally{sizes: map[int]int{}}
		t.envs[r.key()] = e
	}
	e.sequences += n * r.Sequences
	for _, m := range []map[int]int{t.sizes, e.sizes} {
		m[r.Sequences] += n
		if m[r.Sequences] == 0 {
			delete(m, r.Sequences)
		}
	}
	if len(e.sizes) == 0 {
		delete(t.envs, r.key())
	}
}

func (t *tally) of(k envKey) envTally {
	if e := t.envs[k]; e != nil {
		return *e
	}
	return envTally{}
}

func largest(sizes map[int]int) int {
	n := 0
	for s := range sizes {
		n = max(n, s)
	}
	return n
}

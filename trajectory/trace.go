package trajectory

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"
)

// Mode says whether a trace knows its tokens. It is fixed at birth.
type Mode string

// Text traces know messages only; Exact ones every token with its log-probability.
const (
	ModeText  Mode = "text"
	ModeExact Mode = "exact"
)

// Span says from which sampled token on a version of the weights was in use.
type Span struct {
	From    int    `json:"from"`
	Version string `json:"version"`
}

// Run is a run of sampled tokens: From up to, not with, To; both count the sampled tokens
// of one message.
type Run struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Block is a named tensor about sampled tokens (routed experts, top-k log-probs),
// stored as a blob.
type Block struct {
	Name  string `json:"name"`
	Dtype string `json:"dtype"`
	Shape []int  `json:"shape"`
	Blob  string `json:"blob"`
}

// Delta is one message and exactly the tokens that it added to the sequence:
// Tokens[:Given] were given, Tokens[Given:] were sampled.
type Delta struct {
	Message  Message   `json:"message"`
	Tokens   []Token   `json:"-"`
	Given    int       `json:"given,omitempty"`
	LogProbs []float32 `json:"-"`                // one per sampled token
	Masked   []Run     `json:"masked,omitempty"` // sampled tokens whose log-prob is not known: 0 there, and not trained
	Versions []Span    `json:"versions,omitempty"`
	Extras   []Block   `json:"extras,omitempty"`
}

// Finish says why a model stopped.
type Finish string

// The ways in which a turn ends.
const (
	FinishStop    Finish = "stop"
	FinishCalls   Finish = "tool_calls"
	FinishLength  Finish = "length"
	FinishFilter  Finish = "content_filter"
	FinishAborted Finish = "aborted"
)

// Usage counts tokens and money of one or more model calls. Cost is in US dollars;
// CostKnown is false where no price is known.
type Usage struct {
	Prompt     int64   `json:"prompt"`
	Completion int64   `json:"completion"`
	Reasoning  int64   `json:"reasoning"`
	Cached     int64   `json:"cached"`
	Cost       float64 `json:"cost,omitempty"`
	CostKnown  bool    `json:"cost_known,omitempty"`
}

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Prompt: u.Prompt + v.Prompt, Completion: u.Completion + v.Completion,
		Reasoning: u.Reasoning + v.Reasoning, Cached: u.Cached + v.Cached,
		Cost: u.Cost + v.Cost, CostKnown: u.CostKnown || v.CostKnown,
	}
}

// Turn is what one model call adds: the new context, then the answer.
type Turn struct {
	Fork    bool // the history could not be extended: start a new root
	Given   []Delta
	Sampled Delta
	Finish  Finish
	Faults  []Fault // what could not be read of the answer; the states of its calls are in them
	Usage   Usage
	Model   string // the model that answered, if the server says so

	Took     time.Duration // of the model call, without waiting for a permit
	Replayed bool          // the answer came from the log
}

// NodeID names a node of a trace; None is the place before any root.
type NodeID int

// None is the parent of a root.
const None NodeID = -1

// Why says why a head was moved back.
type Why string

// Branch leaves the old path as a leaf; Abandoned drops it from training.
const (
	Branch    Why = "branch"
	Abandoned Why = "abandoned"
)

// Node is one message in the tree of a trace.
type Node struct {
	Parent    NodeID  `json:"parent"`
	Delta     Delta   `json:"delta"`
	Finish    Finish  `json:"finish,omitempty"` // sampled nodes only
	Faults    []Fault `json:"faults,omitempty"` // what could not be read of the answer
	Model     string  `json:"model,omitempty"`
	Abandoned bool    `json:"abandoned,omitempty"`
}

// Sampled reports whether a model wrote the node.
func (n Node) Sampled() bool { return n.Finish != "" }

// ErrMisaligned says that a turn contradicts its own tokens or the trace's mode.
var ErrMisaligned = errors.New("turn is misaligned")

// Trace is the tree of one rollout.
type Trace struct {
	Mode    Mode       `json:"mode"`
	Tools   []ToolSpec `json:"-"`
	Nodes   []Node     `json:"nodes"`
	Head    NodeID     `json:"head"`
	Pending []Message  `json:"pending,omitempty"` // unanswered messages, kept as text by Finish
	Usage   Usage      `json:"usage"`
	Sealed  bool       `json:"sealed,omitempty"`

	way []NodeID // the path to Head, grown with it
}

// New returns an empty trace.
func New(m Mode, tools []ToolSpec) *Trace {
	return &Trace{Mode: m, Tools: tools, Head: None}
}

// Commit appends a whole turn or, on error, nothing at all.
func (t *Trace) Commit(turn Turn) (NodeID, error) {
	if t.Sealed {
		return None, fmt.Errorf("%w: the trace is sealed", ErrMisaligned)
	}
	if turn.Finish == "" {
		return None, fmt.Errorf("%w: a turn needs a finish", ErrMisaligned)
	}
	for i, d := range turn.Given {
		if d.Given != len(d.Tokens) || len(d.LogProbs) > 0 {
			return None, fmt.Errorf("%w: given message %d has sampled tokens", ErrMisaligned, i)
		}
		if err := t.check(d); err != nil {
			return None, err
		}
	}
	if err := t.check(turn.Sampled); err != nil {
		return None, err
	}
	t.follow()
	if turn.Fork {
		t.Head, t.way = None, nil
	}
	for _, d := range turn.Given {
		t.grow(Node{Delta: d})
	}
	t.grow(Node{Delta: turn.Sampled, Finish: turn.Finish, Faults: turn.Faults, Model: turn.Model})
	t.Usage = t.Usage.Add(turn.Usage)
	return t.Head, nil
}

func (t *Trace) grow(n Node) {
	n.Parent = t.Head
	t.Nodes = append(t.Nodes, n)
	t.Head = NodeID(len(t.Nodes) - 1)
	t.way = append(t.way, t.Head)
}

// follow makes sure that way leads to Head, also in a trace that was read from a file.
func (t *Trace) follow() {
	if n := len(t.way); (n == 0) != (t.Head == None) || n > 0 && t.way[n-1] != t.Head {
		t.way = t.path(t.Head)
	}
}

func (t *Trace) check(d Delta) error {
	if t.Mode != ModeExact {
		if len(d.Tokens) > 0 || len(d.LogProbs) > 0 {
			return fmt.Errorf("%w: tokens in a %s trace", ErrMisaligned, t.Mode)
		}
		return nil
	}
	if d.Given < 0 || d.Given > len(d.Tokens) {
		return fmt.Errorf("%w: %d of %d tokens given", ErrMisaligned, d.Given, len(d.Tokens))
	}
	if n := len(d.Tokens) - d.Given; n != len(d.LogProbs) {
		return fmt.Errorf("%w: %d sampled tokens but %d log-probs", ErrMisaligned, n, len(d.LogProbs))
	}
	for i, p := range d.LogProbs {
		if math.IsNaN(float64(p)) || math.IsInf(float64(p), 0) {
			return fmt.Errorf("%w: log-prob %d is %v", ErrMisaligned, i, p)
		}
	}
	at := 0
	for _, r := range d.Masked {
		if r.From < at || r.To <= r.From || r.To > len(d.LogProbs) {
			return fmt.Errorf("%w: masked tokens %d to %d of %d", ErrMisaligned, r.From, r.To, len(d.LogProbs))
		}
		for at = r.From; at < r.To; at++ {
			if d.LogProbs[at] != 0 {
				return fmt.Errorf("%w: the masked token %d has the log-prob %v", ErrMisaligned, at, d.LogProbs[at])
			}
		}
	}
	return nil
}

// Rewind moves the head back to a node on its own path (or to None); nothing is
// deleted. With Abandoned, what is left behind trains no model.
func (t *Trace) Rewind(to NodeID, why Why) error {
	if t.Sealed {
		return errors.New("rewind: the trace is sealed")
	}
	at := t.Head
	for at != to {
		if at == None {
			return fmt.Errorf("rewind: node %d is not on the path to node %d", to, t.Head)
		}
		at = t.Nodes[at].Parent
	}
	if why == Abandoned {
		for at = t.Head; at != to; at = t.Nodes[at].Parent {
			t.Nodes[at].Abandoned = true
		}
	}
	t.Head, t.way = to, t.path(to) // a copy: prefixes that were given out keep theirs
	return nil
}

// Finish seals the trace. Messages that no model has answered are kept as text.
func (t *Trace) Finish(pending []Message) {
	t.Pending = slices.Clone(pending)
	t.Sealed = true
}

// Prefix is the read-only path from the root to the head of a trace.
type Prefix struct {
	trace *Trace
	path  []NodeID
}

// Prefix returns the path to the head, at no cost. It stays valid and unchanged when
// the trace grows.
func (t *Trace) Prefix() Prefix {
	t.follow()
	return Prefix{trace: t, path: t.way[:len(t.way):len(t.way)]}
}

func (t *Trace) path(leaf NodeID) []NodeID {
	n := 0
	for at := leaf; at != None; at = t.Nodes[at].Parent {
		n++
	}
	path := make([]NodeID, n)
	for at := leaf; at != None; at = t.Nodes[at].Parent {
		n--
		path[n] = at
	}
	return path
}

// Head is the last node of the path, or None.
func (p Prefix) Head() NodeID {
	if len(p.path) == 0 {
		return None
	}
	return p.path[len(p.path)-1]
}

// Len is the number of messages.
func (p Prefix) Len() int { return len(p.path) }

// ID is the name of the i-th node of the path.
func (p Prefix) ID(i int) NodeID { return p.path[i] }

// Node returns the i-th node of the path and its name.
func (p Prefix) Node(i int) (NodeID, Node) { return p.path[i], p.trace.Nodes[p.path[i]] }

// Messages yields the messages in order.
func (p Prefix) Messages() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for _, id := range p.path {
			if !yield(p.trace.Nodes[id].Delta.Message) {
				return
			}
		}
	}
}

// Tokens yields the tokens of each message in order.
func (p Prefix) Tokens() iter.Seq[[]Token] {
	return func(yield func([]Token) bool) {
		for _, id := range p.path {
			if !yield(p.trace.Nodes[id].Delta.Tokens) {
				return
			}
		}
	}
}

// Sequence is one training sequence: a path from a root to a leaf. Nodes before
// Fresh belong to an earlier sequence and are context only, so that each sampled
// token trains once.
type Sequence struct {
	Leaf  NodeID
	Nodes []NodeID
	Fresh int
}

// Sequences yields one sequence for each leaf that is not abandoned, in the order
// in which the leaves were made.
func (t *Trace) Sequences() iter.Seq[Sequence] {
	return func(yield func(Sequence) bool) {
		inner := make([]bool, len(t.Nodes))
		for _, n := range t.Nodes {
			if n.Parent != None && !n.Abandoned {
				inner[n.Parent] = true
			}
		}
		seen := make([]bool, len(t.Nodes))
		for i, n := range t.Nodes {
			if inner[i] || n.Abandoned {
				continue
			}
			s := Sequence{Leaf: NodeID(i), Nodes: t.path(NodeID(i))}
			for s.Fresh < len(s.Nodes) && seen[s.Nodes[s.Fresh]] {
				s.Fresh++
			}
			for _, id := range s.Nodes[s.Fresh:] {
				seen[id] = true
			}
			if !yield(s) {
				return
			}
		}
	}
}

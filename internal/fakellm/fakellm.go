// Package fakellm is a scripted model server: it speaks the HTTP forms of the servers
// that hermes meets (OpenAI chat and completions, SGLang and vLLM generate) and answers
// from a script, so that tests, demos and benchmarks need neither a model nor a GPU.
//
// What the model says at a turn comes from the first of: the script inside the request
// (body key hermes_script), a script of [Options.Scripts] that matches the first user
// message, [Options.Default], and a small built-in agent that calls the tools which the
// request offers. The turn is the number of assistant messages already in the request,
// so the server keeps no conversation state.
//
// Everything random (latency, faults) is a function of the seed, the digest of the
// request's messages and how often that digest was asked: a run can be repeated exactly
// and a retry may succeed. The server's own log ([Server.Stats], [Server.Entries],
// [Options.Log]) says which requests were answered completely; tests use it as judge.
//
// What the model says is package model's, which knows no HTTP; this one has the forms, the
// faults and the log. A [Server] is safe for concurrent use.
package fakellm

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"hermes/internal/fakellm/model"
)

// Parts of the model that options name.
type (
	Script    = model.Script
	Turn      = model.Turn
	Call      = model.Call
	Tokenizer = model.Tokenizer
	Bytes     = model.Bytes
	Markup    = model.Markup
	Latency   = model.Latency
)

// ChatML is the markup of the Hermes and Qwen models.
var ChatML = model.ChatML

// ReadScripts reads scripts, one JSON object {match, turns} a line. An error names the line.
func ReadScripts(r io.Reader) ([]Script, error) { return model.ReadScripts(r, allFaults()) }

// Options say how a [Server] behaves. The zero value answers every model name at once,
// without faults, with the built-in agent.
type Options struct {
	Models        []string // names that are served; none: any name is accepted
	Key           string   // bearer token that is demanded; empty: none
	Like          string   // a name of [LikeNames]: whose ways it has; empty: plain
	ContextLength int      // tokens; 0: unlimited
	MaxBody       int64    // bytes; 0: 64 MiB
	Closed        []string // paths that are answered with 403, as vLLM does unless it is started with --enable-scale-out

	Scripts []Script // tried in order against the first user message
	Default []Turn   // used when no script matches; nil: the built-in agent

	Seed       uint64
	Latency    Latency
	Capacity   int                // requests worked on at once, the others wait; 0: unlimited
	Degrade    float64            // service time grows by this share for each capacity that is in flight above the first
	Limit      int                // requests in flight above which 429 is answered; 0: none
	RetryAfter time.Duration      // sent with 429 in whole seconds, rounded up; 0: header left out
	Faults     map[string]float64 // share of requests by fault name, see [FaultNames] and [TokenFaultNames]
	SlowStep   time.Duration      // pause between the pieces of a slow stream; 0: 50 ms

	Tokenizer Tokenizer // nil: one id a byte
	Markup    *Markup   // how prompts and answers look as text; nil: ChatML with Hermes tool calls

	// Score is the log-probability of id after the tokens before it; nil: made up, but
	// the same every time.
	Score func(before []int32, id int32) float64
	// KeepTokens puts what was sent and returned into the entries of the log.
	KeepTokens bool

	Log    io.Writer // one JSON line a request is written here; nil: none
	Record bool      // keep every entry in memory for [Server.Entries]
	Now    func() time.Time
}

// Server is a model server as an [http.Handler].
type Server struct {
	opt    Options
	ways   ways
	model  *model.Model
	markup Markup
	mux    *http.ServeMux
	faults faultTable
	log    *ledger
	slots  chan struct{} // nil: unlimited
	bodies sync.Pool

	flying, running, waiting atomic.Int64
	promptTokens, outTokens  atomic.Int64
	weights                  atomic.Pointer[string]
}

// SetVersion names the weights that answers are sampled from; at first "default".
func (s *Server) SetVersion(v string) { s.weights.Store(&v) }

// New returns a server, or an error that names the option that makes no sense.
func New(opt Options) (*Server, error) {
	if opt.Capacity < 0 || opt.Limit < 0 || opt.ContextLength < 0 || opt.MaxBody < 0 || opt.Degrade < 0 {
		return nil, fmt.Errorf("capacity %d, limit %d, context length %d, body limit %d, degrade %g: none may be negative",
			opt.Capacity, opt.Limit, opt.ContextLength, opt.MaxBody, opt.Degrade)
	}
	if err := opt.Latency.Validate(); err != nil {
		return nil, err
	}
	table, err := newFaultTable(opt.Faults)
	if err != nil {
		return nil, err
	}
	if opt.Tokenizer == nil {
		opt.Tokenizer = Bytes{}
	}
	markup := ChatML
	if opt.Markup != nil {
		markup = *opt.Markup
	}
	m, err := model.New(opt.Scripts, opt.Default, markup, opt.Tokenizer, allFaults())
	if err != nil {
		return nil, err
	}
	w, err := waysOf(opt.Like)
	if err != nil {
		return nil, err
	}
	opt.MaxBody = cmp.Or(opt.MaxBody, 64<<20)
	opt.SlowStep = cmp.Or(opt.SlowStep, 50*time.Millisecond)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	s := &Server{opt: opt, ways: w, model: m, markup: markup, faults: table, log: newLedger(opt.Log, opt.Record)}
	if opt.Capacity > 0 {
		s.slots = make(chan struct{}, opt.Capacity)
	}
	s.SetVersion("default")
	s.mux = s.routes()
	return s, nil
}

// Stats returns the figures so far.
func (s *Server) Stats() Stats { return s.log.stats() }

// Entries returns the log in the order in which requests ended; nil without [Options.Record].
func (s *Server) Entries() []Entry { return s.log.list() }

// Package servetest is a trajectory server with a trainer for tests: what an environment
// sees of Atropos' run-api, with its arithmetic, in memory. It takes groups of one size
// and forms batches of them in the order of their arrival. It can be made as bad as a test
// needs: restarted, full, silent.
//
// A [Server] is safe for concurrent use.
package servetest

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
)

// Group is a group as it was received: all keys must be there.
type Group struct {
	Tokens            [][]int          `json:"tokens"`
	Masks             [][]int          `json:"masks"`
	Scores            []float64        `json:"scores"`
	Advantages        [][]float64      `json:"advantages"`
	RefLogprobs       [][]float64      `json:"ref_logprobs"`
	Messages          [][]any          `json:"messages"`
	GenerationParams  map[string]any   `json:"generation_params"`
	InferenceLogprobs [][]float64      `json:"inference_logprobs"`
	Overrides         []map[string]any `json:"overrides"`
	GroupOverrides    map[string]any   `json:"group_overrides"`
	EnvID             *int             `json:"env_id"`
	DistillTokenIDs   [][][]int        `json:"distill_token_ids"`
	DistillLogprobs   [][][]float64    `json:"distill_logprobs"`

	Keys int `json:"-"` // that the group came with
}

// Env is a registered environment.
type Env struct {
	MaxTokenLength int      `json:"max_token_length"`
	DesiredName    string   `json:"desired_name"`
	Weight         float64  `json:"weight"`
	GroupSize      int      `json:"group_size"`
	MinAllocation  *float64 `json:"min_batch_allocation"`
	Connected      bool     `json:"-"`
}

// Server is the server and its state.
type Server struct {
	// Answer, when set, is asked before each request; a status other than 0 is answered
	// instead of what the server would say. -1 cuts the connection after the request was
	// carried out.
	Answer func(r *http.Request) int
	// Keys has the server know posts by their keys, as hermes' own does.
	Keys bool

	mu      sync.Mutex
	started bool
	known   bool // a trainer has registered
	batch   int
	maxLen  int
	steps   int64
	step    int64
	queue   []Group
	envs    []Env
	got     []Group        // all that were ever received
	early   int            // posts before a trainer registered: upstream's server never recovers
	posts   map[string]any // the answers to posts with keys
	changed chan struct{}
}

// once carries out a post with a key once.
func (s *Server) once(h http.Header, key string, handle func() (int, any)) (int, any) {
	s.mu.Lock()
	known, ok := s.posts[key]
	s.mu.Unlock()
	if ok {
		h.Set("Idempotent-Replayed", "true")
		return 200, known
	}
	code, out := handle()
	if s.Keys && key != "" && code == 200 {
		s.mu.Lock()
		s.posts[key] = out
		s.mu.Unlock()
	}
	return code, out
}

// New returns a server that no trainer has registered with.
func New() *Server { return &Server{posts: map[string]any{}, changed: make(chan struct{})} }

// Register is the trainer's: sequences in a batch, longest sequence (0: any), the step it
// begins at, and its number of steps (-1: no end).
func (s *Server) Register(batch, maxLen int, step, steps int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = true
	s.batch = batch
	s.maxLen = maxLen
	s.step = step
	s.steps = steps
	s.queue = nil
	s.envs = nil
	s.started = false
}

// Restart is what a new process of the server knows: nothing.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = false
	s.started = false
	s.batch = 0
	s.step = 0
	s.queue = nil
	s.envs = nil
}

// Batch is the trainer's: the groups of the next batch, or nil.
func (s *Server) Batch() []Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	n, sum := 0, 0
	for _, g := range s.queue {
		if sum == s.batch {
			break
		}
		n, sum = n+1, sum+len(g.Tokens)
	}
	if !s.known || sum != s.batch {
		return nil
	}
	out := s.queue[:n]
	s.queue = append([]Group(nil), s.queue[n:]...)
	s.step++
	s.notify()
	return out
}

func (s *Server) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed is closed at the next change.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Received are all groups so far, in order.
func (s *Server) Received() []Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Group(nil), s.got...)
}

// Queue is how many groups wait; Early how many came before a trainer had registered.
func (s *Server) Queue() (groups, early int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue), s.early
}

// Envs are the environments that have registered since the trainer did.
func (s *Server) Envs() []Env {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Env(nil), s.envs...)
}

// Step is the trainer's.
func (s *Server) Step() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.step
}

// ServeHTTP answers environments.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status := 0
	if s.Answer != nil {
		status = s.Answer(r)
	}
	if status > 0 {
		http.Error(w, "as asked", status)
		return
	}
	body, err := s.body(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.Keys {
		w.Header().Set("Hermes-Features", "Idempotency-Key")
	}
	code, out := s.once(w.Header(), r.Header.Get("Idempotency-Key"), func() (int, any) { return s.handle(r.Method+" "+r.URL.Path, body) })
	if status < 0 {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(out) // a client that went away is the test's affair
}

func (s *Server) body(r *http.Request) ([]byte, error) {
	var in io.Reader = r.Body
	if strings.Contains(r.Header.Get("Content-Encoding"), "gzip") {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		in = z
	}
	return io.ReadAll(in)
}

func (s *Server) handle(what string, body []byte) (int, any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch what {
	case "GET /info":
		if !s.known {
			return 200, map[string]int{"batch_size": -1, "max_token_len": -1}
		}
		return 200, map[string]int{"batch_size": s.batch, "max_token_len": s.maxLen}
	case "GET /wandb_info":
		return 200, map[string]any{"group": nil, "project": nil}
	case "POST /register-env":
		return s.register(body)
	case "POST /disconnect-env", "GET /status-env":
		var in struct {
			ID int `json:"env_id"`
		}
		if err := json.Unmarshal(body, &in); err != nil {
			return 422, map[string]string{"detail": err.Error()}
		}
		if in.ID >= len(s.envs) {
			return 500, "Internal Server Error"
		}
		if what == "POST /disconnect-env" {
			s.envs[in.ID].Connected = false
			s.notify()
			return 200, map[string]string{"status": "success"}
		}
		return 200, s.status(in.ID)
	case "POST /scored_data":
		return s.take(body)
	}
	return 404, map[string]string{"detail": "Not Found"}
}

func (s *Server) register(body []byte) (int, any) {
	var e Env
	if err := json.Unmarshal(body, &e); err != nil || e.DesiredName == "" {
		return 422, map[string]string{"detail": fmt.Sprint("bad registration: ", err)}
	}
	if !s.started || !s.known {
		return 200, map[string]string{"status": "wait for trainer to start"}
	}
	n := 0
	for _, x := range s.envs {
		if x.DesiredName == e.DesiredName {
			n++
		}
	}
	e.Connected = true
	s.envs = append(s.envs, e)
	s.notify()
	return 200, map[string]any{"status": "success", "env_id": len(s.envs) - 1, "wandb_name": fmt.Sprintf("%s_%d", e.DesiredName, n),
		"checkpoint_dir": "", "starting_step": s.step, "checkpoint_interval": -1, "num_steps": s.steps}
}

// status is the protocol's arithmetic, without minimum allocations.
func (s *Server) status(id int) any {
	largest, own := 1, 0
	others := map[int]int{}
	for _, g := range s.queue {
		largest = max(largest, len(g.Tokens))
		if *g.EnvID == id {
			own += len(g.Tokens)
		} else {
			others[*g.EnvID] += len(g.Tokens)
		}
	}
	available, total := 0, 0.0
	if largest > 1 {
		for _, n := range others {
			available += (n + largest - 1) / largest * largest
		}
	}
	for _, e := range s.envs {
		if e.Connected {
			total += float64(e.MaxTokenLength) * math.Max(0, e.Weight)
		}
	}
	e := s.envs[id]
	return map[string]any{"current_step": s.step, "queue_size": (own + available) / e.GroupSize, "unallocated_fraction": 1.0, "self_queue_size": own / e.GroupSize,
		"max_group_size": largest, "env_weight": math.Max(0.01, float64(e.MaxTokenLength)*e.Weight/total)}
}

func (s *Server) take(body []byte) (int, any) {
	var keys map[string]json.RawMessage
	var g Group
	if err := json.Unmarshal(body, &keys); err != nil {
		return 422, map[string]string{"detail": err.Error()}
	}
	if err := json.Unmarshal(body, &g); err != nil {
		return 422, map[string]string{"detail": err.Error()}
	}
	g.Keys = len(keys)
	if !s.known || g.EnvID == nil || *g.EnvID >= len(s.envs) {
		s.early++
		return 200, map[string]string{"status": "received"}
	}
	s.queue, s.got = append(s.queue, g), append(s.got, g)
	s.notify()
	return 200, map[string]string{"status": "received"}
}

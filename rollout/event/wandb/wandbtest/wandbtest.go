// Package wandbtest is a server that takes runs as W&B's does, for tests: the mutation
// that creates a run and the stream of its files. W&B's own `wandb sync` uploads to it.
package wandbtest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Entity owns the runs that name no entity.
const Entity = "tester"

// Run is what the server knows of a run.
type Run struct {
	Vars     map[string]any // of the mutation that made it
	History  []map[string]any
	Summary  map[string]any
	Complete bool
	Exit     *int
	Beats    int // requests of the stream
}

// Server is the fake.
type Server struct {
	URL string
	Key string

	mu     sync.Mutex
	runs   map[string]*Run // ENTITY/PROJECT/NAME
	asked  []string
	broken func(r *http.Request) int
}

// New starts a server that takes a key until the test ends.
func New(t testing.TB, key string) *Server {
	s := &Server{Key: key, runs: map[string]*Run{}}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	s.URL = web.URL
	return s
}

// Break has f say with which status a request is answered; 0: as it should be.
func (s *Server) Break(f func(r *http.Request) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = f
}

// Runs are the runs so far, as ENTITY/PROJECT/NAME.
func (s *Server) Runs() map[string]Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Run{}
	for name, r := range s.runs {
		c := *r
		c.History, c.Summary = append([]map[string]any{}, r.History...), maps.Clone(r.Summary)
		out[name] = c
	}
	return out
}

// Asked are the requests so far.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.asked...)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		return
	}
	s.mu.Lock()
	status := s.broken
	s.mu.Unlock()
	if status != nil {
		if code := status(r); code != 0 {
			http.Error(w, "broken", code)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	if _, key, ok := r.BasicAuth(); !ok || key != s.Key {
		http.Error(w, "user is not logged in", http.StatusUnauthorized)
		return
	}
	var answer any
	switch path := r.URL.Path; {
	case path == "/graphql":
		answer = s.graphql(body)
	case strings.HasPrefix(path, "/files/") && strings.HasSuffix(path, "/file_stream"):
		run := s.runs[strings.TrimSuffix(strings.TrimPrefix(path, "/files/"), "/file_stream")]
		if run == nil {
			http.Error(w, "no such run", http.StatusNotFound)
			return
		}
		if err := run.stream(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer = map[string]any{"exitcode": nil, "limits": map[string]any{}}
	default: // what W&B's client asks beside it
		answer = map[string]any{}
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

func (s *Server) graphql(body []byte) any {
	var q struct {
		Query     string         `json:"query"`
		Variables map[string]any `json:"variables"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return map[string]any{"errors": []any{map[string]any{"message": err.Error()}}}
	}
	text := func(name string) string { v, _ := q.Variables[name].(string); return v }
	switch {
	case strings.Contains(q.Query, "upsertBucket"):
		entity := text("entity")
		project := text("project")
		name := text("name")
		if entity == "" {
			entity = Entity
		}
		id := entity + "/" + project + "/" + name
		run, known := s.runs[id]
		if !known {
			run = &Run{Vars: q.Variables, Summary: map[string]any{}}
			s.runs[id] = run
		}
		return map[string]any{"data": map[string]any{"upsertBucket": map[string]any{"inserted": !known, "bucket": map[string]any{
			"id": "B:" + id, "name": name, "displayName": text("displayName"), "config": q.Variables["config"], "historyLineCount": len(run.History),
			"project": map[string]any{"id": "P:" + project, "name": project, "entity": map[string]any{"id": "E:" + entity, "name": entity}}}}}}
	case strings.Contains(q.Query, "viewer"):
		return map[string]any{"data": map[string]any{"viewer": map[string]any{"id": "V", "entity": Entity, "username": Entity, "flags": "{}", "teams": map[string]any{"edges": []any{}}}}}
	}
	return map[string]any{"data": map[string]any{}}
}

// stream takes lines at their offset, so that the same request twice is taken once.
func (r *Run) stream(body []byte) error {
	var q struct {
		Files map[string]struct {
			Offset  int      `json:"offset"`
			Content []string `json:"content"`
		} `json:"files"`
		Complete *bool `json:"complete"`
		Exit     *int  `json:"exitcode"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	r.Beats++
	if h, ok := q.Files["wandb-history.jsonl"]; ok {
		for i, line := range h.Content {
			var row map[string]any
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				return err
			}
			if at := h.Offset + i; at < len(r.History) {
				r.History[at] = row
			} else {
				r.History = append(r.History, row)
			}
		}
	}
	if h, ok := q.Files["wandb-summary.json"]; ok && len(h.Content) > 0 {
		r.Summary = map[string]any{}
		if err := json.Unmarshal([]byte(h.Content[len(h.Content)-1]), &r.Summary); err != nil {
			return err
		}
	}
	if q.Complete != nil {
		r.Complete, r.Exit = *q.Complete, q.Exit
	}
	return nil
}

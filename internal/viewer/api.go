package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hermes/internal/control"
	"hermes/internal/guard"
	"hermes/rollout/journal"
	"hermes/rollout/listing"
	"hermes/rollout/runs"
	"hermes/trajectory"
)

// pages serves the page and the JSON behind it, to GET requests.
func (v *Viewer) pages() http.Handler {
	mux := http.NewServeMux()
	static := func(pattern, kind string, read func() ([]byte, error)) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			b, err := read()
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			w.Write(b)
		})
	}
	static("/{$}", "text/html", func() ([]byte, error) { return page.ReadFile("page/index.html") })
	static("/app.js", "text/javascript", script)
	static("/style.css", "text/css", func() ([]byte, error) { return page.ReadFile("page/style.css") })
	mux.HandleFunc("GET /api/runs", v.answer(v.listRuns))
	mux.HandleFunc("GET /api/run", v.answer(v.overview))
	mux.HandleFunc("GET /api/tasks", v.answer(v.listTasks))
	mux.HandleFunc("GET /api/raw", v.answer(v.raw))
	mux.HandleFunc("GET /api/list", v.answer(v.listRows))
	mux.HandleFunc("GET /api/search", v.answer(v.search))
	mux.HandleFunc("GET /api/record", v.answer(v.record))
	mux.HandleFunc("GET /api/diff", v.answer(v.diff))
	mux.HandleFunc("GET /artifact", v.artifact)
	mux.HandleFunc("GET /blob", v.blob)
	return mux
}

// script is the program of the page: its parts in order, in one scope.
func script() ([]byte, error) {
	out := []byte("\"use strict\";\n(async () => {\n")
	for _, name := range []string{"dom.js", "bundle.js", "markdown.js", "detail.js", "runs.js", "app.js"} {
		b, err := page.ReadFile("page/" + name)
		if err != nil {
			return nil, err
		}
		out = append(append(out, b...), '\n')
	}
	return append(out, "})();\n"...), nil
}

// Handler serves them to requests that name this machine as their host and that no page of
// another origin has sent.
func (v *Viewer) Handler() http.Handler { return shield(guard.Local(end).Wrap(v.pages())) }

// shield sets the headers that keep the page to itself.
func shield(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-DNS-Prefetch-Control", "off") // no name of a link that a model wrote is looked up before a click
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// apiError is an error that the page gets, with its HTTP status.
type apiError struct {
	status int
	text   string
}

func (e *apiError) Error() string { return e.text }

func (v *Viewer) answer(f func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out, err := f(r)
		status := http.StatusOK
		var known *apiError
		switch {
		case errors.As(err, &known):
			status, out = known.status, map[string]string{"error": known.text}
		case err != nil:
			v.opt.Log.Warn("the page was not served", "path", r.URL.Path, "err", err)
			status, out = http.StatusInternalServerError, map[string]string{"error": err.Error()}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(out); err != nil && r.Context().Err() == nil {
			v.opt.Log.Debug("an answer was not sent", "path", r.URL.Path, "err", err)
		}
	}
}

// run finds the run that a request names by its place, and opens it.
func (v *Viewer) run(text string) (*opened, error) {
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= len(v.runs) {
		return nil, &apiError{http.StatusNotFound, "no run " + strconv.Quote(text)}
	}
	return v.runs[i].get()
}

// rowView is a row of the list as JSON.
type rowView struct {
	At      int64              `json:"at"`
	Key     trajectory.Key     `json:"key"`
	ID      string             `json:"id"`
	Sample  int                `json:"sample"`
	Attempt int                `json:"attempt"`
	Outcome trajectory.Outcome `json:"outcome"`
	Book    string             `json:"book"`
	Reason  string             `json:"reason,omitempty"`
	Reward  *float64           `json:"reward"`
	Turns   int                `json:"turns"`
	Tokens  int64              `json:"tokens"`
	Cost    *float64           `json:"cost"`
	Seconds float64            `json:"seconds"`
	Started time.Time          `json:"started"`
	Model   string             `json:"model,omitempty"`
	Task    string             `json:"task"`
	Answer  string             `json:"answer"`
	Tools   []string           `json:"tools,omitempty"`
	Old     bool               `json:"old,omitempty"`
}

func viewOf(w listing.Row) rowView {
	t := w.Texts()
	return rowView{At: int64(w.At), Key: w.Key, ID: t.ID, Sample: int(w.Sample), Attempt: int(w.Attempt), Outcome: w.Outcome, Book: w.Book, Reason: t.Reason,
		Reward: known(w.Reward), Turns: int(w.Turns), Tokens: w.Tokens, Cost: known(w.Cost), Seconds: w.Seconds, Started: w.Start(), Model: t.Model,
		Task: t.Task, Answer: t.Answer, Tools: t.Tools, Old: w.Old}
}

// known is a number, nil where it is not known.
func known(f float64) *float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

func views(rows []listing.Row) []rowView {
	out := make([]rowView, len(rows))
	for i, w := range rows {
		out[i] = viewOf(w)
	}
	return out
}

// state asks the process of a run for its state; empty: no process answers.
func state(ctx context.Context, dir string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := control.Dial(ctx, dir)
	if err != nil {
		return ""
	}
	defer c.Close()
	a, err := c.Ask(ctx, control.Request{Do: "status"})
	if err != nil || a.Status == nil {
		return ""
	}
	return a.Status.State
}

func (v *Viewer) chosen(r *http.Request) (*opened, query, error) {
	s, err := v.run(r.FormValue("run"))
	if err != nil {
		return nil, query{}, err
	}
	q, err := parseQuery(r.Form)
	if err != nil {
		return nil, q, &apiError{http.StatusBadRequest, err.Error()}
	}
	return s, q, nil
}

func (v *Viewer) listRows(r *http.Request) (any, error) {
	s, q, err := v.chosen(r)
	if err != nil {
		return nil, err
	}
	s.index.look()
	rows, total := s.index.find(q)
	return map[string]any{"rows": views(rows), "total": total}, nil
}

// search looks through whole records, a second at a time.
func (v *Viewer) search(r *http.Request) (any, error) {
	s, q, err := v.chosen(r)
	if err != nil {
		return nil, err
	}
	rows, next, err := s.scan(r.Context(), q, q.offset)
	if err != nil {
		return nil, err
	}
	s.index.mu.RLock()
	defer s.index.mu.RUnlock()
	return map[string]any{"rows": views(rows), "next": next, "of": len(s.index.list.Rows)}, nil
}

// find reads the record that run and key name, or the one of an earlier attempt at `at`.
// A final record needs no index: the log knows the place of the final record of each key.
func (v *Viewer) find(run, key, at string) (*opened, journal.Entry, *trajectory.Record, error) {
	s, err := v.run(run)
	if err != nil {
		return nil, journal.Entry{}, nil, err
	}
	missing := &apiError{http.StatusNotFound, "no record of " + strconv.Quote(key)}
	var k trajectory.Key
	if k.UnmarshalText([]byte(key)) != nil {
		return nil, journal.Entry{}, nil, missing
	}
	place, ok := s.Journal.FinalAt(k)
	if !ok {
		w, _, _, found := s.index.of(k)
		place, ok = w.At, found
	}
	if at != "" {
		_, attempts, _, _ := s.index.of(k)
		ok = false
		for _, w := range attempts {
			if strconv.FormatInt(int64(w.At), 10) == at {
				place, ok = w.At, true
			}
		}
	}
	if !ok {
		return nil, journal.Entry{}, nil, missing
	}
	e, err := s.Journal.At(place)
	if err != nil {
		return nil, e, nil, err
	}
	rec, err := e.Record()
	return s, e, rec, err
}

func (v *Viewer) record(r *http.Request) (any, error) {
	s, e, rec, err := v.find(r.FormValue("run"), r.FormValue("key"), r.FormValue("at"))
	if err != nil {
		return nil, err
	}
	return s.recordView(e, rec)
}

// recordView is a record with what is beside it.
func (s *opened) recordView(e journal.Entry, rec *trajectory.Record) (*recordView, error) {
	var decode Decoder
	var problem error
	if rec.Trace != nil && rec.Trace.Mode == trajectory.ModeExact {
		decode, problem = s.decode()
	}
	out := newRecordView(rec, decode, problem)
	out.Run = s.name
	out.At = int64(e.At)
	out.Why = rec.Reason
	if _, attempts, group, ok := s.index.of(rec.Key); ok {
		out.Attempts, out.Samples = views(attempts), views(group)
		for _, w := range attempts {
			if w.At == e.At {
				out.Book, out.Why = w.Book, w.Texts().Reason
			}
		}
	}
	out.Scorer = s.scorer(rec)
	var err error
	out.Files, err = s.artifacts(rec)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return out, nil
}

// raw is a record as the log holds it.
func (v *Viewer) raw(r *http.Request) (any, error) {
	_, _, rec, err := v.find(r.FormValue("run"), r.FormValue("key"), r.FormValue("at"))
	return rec, err
}

// mostDiff bounds each side of a difference, in bytes.
const mostDiff = 1 << 20

func (v *Viewer) diff(r *http.Request) (any, error) {
	var name, text [2]string
	for i, side := range []string{"a", "b"} {
		run, key, _ := strings.Cut(r.FormValue(side), ":")
		s, _, rec, err := v.find(run, key, "")
		if err != nil {
			return nil, err
		}
		var b strings.Builder
		if err := runs.Transcript(&b, rec); err != nil {
			return nil, err
		}
		name[i], text[i] = s.name+"/"+rec.Row+"/"+strconv.Itoa(rec.Sample), b.String()
		if len(text[i]) > mostDiff {
			text[i] = text[i][:mostDiff] + "\n(the rest is too long to be compared)\n"
		}
	}
	return map[string]string{"a": name[0], "b": name[1], "diff": unified(name, text)}, nil
}

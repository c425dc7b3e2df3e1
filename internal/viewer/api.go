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

	"hermes/envs/grade/figures"
	"hermes/internal/control"
	"hermes/internal/guard"
	"hermes/rollout/journal"
	"hermes/rollout/listing"
	"hermes/rollout/rundir"
	"hermes/rollout/runs"
	"hermes/trajectory"
)

// pages serves the page and the JSON behind it, to GET requests.
func (v *Viewer) pages() http.Handler {
	mux := http.NewServeMux()
	static := func(pattern, name, kind string) {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			b, err := page.ReadFile("page/" + name)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", kind+"; charset=utf-8")
			w.Write(b)
		})
	}
	static("/{$}", "index.html", "text/html")
	static("/app.js", "app.js", "text/javascript")
	static("/dom.js", "dom.js", "text/javascript")
	static("/detail.js", "detail.js", "text/javascript")
	static("/style.css", "style.css", "text/css")
	mux.HandleFunc("GET /api/runs", v.answer(v.listRuns))
	mux.HandleFunc("GET /api/list", v.answer(v.listRows))
	mux.HandleFunc("GET /api/search", v.answer(v.search))
	mux.HandleFunc("GET /api/record", v.answer(v.record))
	mux.HandleFunc("GET /api/diff", v.answer(v.diff))
	mux.HandleFunc("GET /artifact", v.artifact)
	mux.HandleFunc("GET /blob", v.blob)
	return mux
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
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// apiError is what the page is told, with its status.
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

// run finds the run that a request names by its place.
func (v *Viewer) run(text string) (*shown, error) {
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= len(v.runs) {
		return nil, &apiError{http.StatusNotFound, "no run " + strconv.Quote(text)}
	}
	return v.runs[i], nil
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
	known := func(f float64) *float64 {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil
		}
		return &f
	}
	t := w.Texts()
	return rowView{At: int64(w.At), Key: w.Key, ID: t.ID, Sample: int(w.Sample), Attempt: int(w.Attempt), Outcome: w.Outcome, Book: w.Book, Reason: t.Reason,
		Reward: known(w.Reward), Turns: int(w.Turns), Tokens: w.Tokens, Cost: known(w.Cost), Seconds: w.Seconds, Started: w.Start(), Model: t.Model,
		Task: t.Task, Answer: t.Answer, Tools: t.Tools, Old: w.Old}
}

func views(rows []listing.Row) []rowView {
	out := make([]rowView, len(rows))
	for i, w := range rows {
		out[i] = viewOf(w)
	}
	return out
}

// runView is one run as the page gets it.
type runView struct {
	Name     string            `json:"name"`
	Dir      string            `json:"dir"`
	Model    string            `json:"model"`
	Mode     string            `json:"mode"` // batch, env, eval
	Created  time.Time         `json:"created"`
	Planned  int64             `json:"planned"`
	Records  int               `json:"records"` // in the index
	Books    map[string]int    `json:"books"`   // of the records in force
	Outcomes map[string]int    `json:"outcomes"`
	Tools    []string          `json:"tools"`
	Reward   *float64          `json:"reward"`          // mean of the scored
	Indexed  float64           `json:"indexed"`         // share of the log
	State    string            `json:"state,omitempty"` // of the process that works on it
	Error    string            `json:"error,omitempty"`
	Identity map[string]string `json:"identity"`
}

func (v *Viewer) listRuns(r *http.Request) (any, error) {
	out := []runView{}
	for _, s := range v.runs {
		out = append(out, s.view(r.Context()))
	}
	return out, nil
}

func (s *shown) view(ctx context.Context) runView {
	s.index.look()
	model, _ := s.Manifest.Identity.Get("model")
	w := runView{Name: s.name, Dir: s.Dir, Model: model, Mode: s.Manifest.Books.Mode, Created: s.Manifest.Created, Planned: s.Manifest.Extent.Planned,
		Books: map[string]int{}, Outcomes: map[string]int{}, Tools: s.Manifest.Tools, Indexed: 1, Identity: map[string]string{}}
	if m, err := rundir.Read(journal.OS{}, s.Dir); err == nil { // it may have been amended
		w.Planned = m.Extent.Planned
	}
	for _, f := range s.Manifest.Identity {
		w.Identity[f.Name] = f.Value
	}
	s.index.mu.RLock()
	var sum figures.Total
	scored := 0
	for i := range s.index.list.Rows {
		o := &s.index.list.Rows[i]
		if o.Old {
			continue
		}
		w.Books[o.Book]++
		w.Outcomes[string(o.Outcome)]++
		if !math.IsNaN(o.Reward) {
			sum.Add(o.Reward)
			scored++
		}
	}
	w.Records = len(s.index.list.Rows)
	if s.index.end > 0 {
		w.Indexed = min(1, float64(s.index.list.Next)/float64(s.index.end))
	}
	if s.index.err != nil {
		w.Error = s.index.err.Error()
	}
	s.index.mu.RUnlock()
	if scored > 0 {
		mean := sum.Over(float64(scored))
		w.Reward = &mean
	}
	w.State = state(ctx, s.Dir)
	return w
}

// state asks the process of a run how it stands; empty: there is none.
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

func (v *Viewer) chosen(r *http.Request) (*shown, query, error) {
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
// It needs no index: the log knows where the last word on a key stands.
func (v *Viewer) find(run, key, at string) (*shown, journal.Entry, *trajectory.Record, error) {
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
	var decode Decoder
	var problem error
	if rec.Trace != nil && rec.Trace.Mode == trajectory.ModeExact {
		decode, problem = s.decode()
	}
	out := newRecordView(rec, decode, problem)
	out.Run, out.At, out.Why = s.name, int64(e.At), rec.Reason
	if _, attempts, group, ok := s.index.of(rec.Key); ok {
		out.Attempts, out.Samples = views(attempts), views(group)
		for _, w := range attempts {
			if w.At == e.At {
				out.Book, out.Why = w.Book, w.Texts().Reason
			}
		}
	}
	if out.Files, err = s.artifacts(rec); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return out, nil
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

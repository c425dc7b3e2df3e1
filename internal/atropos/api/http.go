package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"hermes/internal/atropos/group"
	"hermes/internal/atropos/ledger"
	"hermes/internal/guard"
)

// ServeHTTP answers one request in the manner of Atropos' framework: JSON for unknown
// paths and methods, a redirect for a slash at the end. Pages of other origins are the
// affair of the guard in front; but a GET that changes the state is refused to every page,
// the server's own included: a link or a picture is enough to send it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.count.requests.Add(1)
	w.Header().Set(featureHeader, keyHeader)
	methods, ok := s.routes[r.URL.Path]
	if !ok {
		if bare := strings.TrimSuffix(r.URL.Path, "/"); bare != r.URL.Path && s.routes[bare] != nil {
			to := url.URL{Path: guard.Path(r, bare), RawQuery: r.URL.RawQuery}
			http.Redirect(w, r, to.String(), http.StatusTemporaryRedirect)
			return
		}
		reply(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
		return
	}
	h, ok := methods[r.Method]
	if !ok {
		w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(methods)), ", "))
		reply(w, http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
		return
	}
	if r.Method == http.MethodGet && s.changing[r.URL.Path] && guard.FromPage(r) {
		detail(w, http.StatusForbidden, "GET "+r.URL.Path+" changes the state and is for trainers and environments, not for pages")
		return
	}
	h(w, r)
}

// reply writes a small JSON answer. An error in writing is the client's loss.
func reply(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"detail":"the answer has no form in JSON"}`)
	}
	replyRaw(w, status, b)
}

func replyRaw(w http.ResponseWriter, status int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// detail is an error's answer in the form of Atropos' framework.
func detail(w http.ResponseWriter, status int, text string) {
	reply(w, status, map[string]string{"detail": text})
}

// broken answers what the server itself could not do.
func (s *Server) broken(w http.ResponseWriter, err error) {
	s.opt.Log.Error("request failed", "err", err)
	if s.opt.Strict {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	detail(w, http.StatusInternalServerError, err.Error())
}

// errBody is a body that cannot be taken for a reason other than what it says.
type errBody struct {
	status int
	text   string
	plain  bool
}

func (e *errBody) Error() string { return e.text }

// refuse answers a request whose body or meaning is wrong.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	var f *group.Fault
	var b *errBody
	var r *ledger.Refused
	switch {
	case errors.As(err, &b):
		if b.plain {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(b.status)
			fmt.Fprint(w, b.text)
			return
		}
		if b.status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "5")
		}
		detail(w, b.status, b.text)
	case errors.As(err, &r):
		s.count.refused.Add(1)
		s.opt.Log.Warn("request refused", "reason", r.Text)
		detail(w, http.StatusUnprocessableEntity, r.Text)
	case errors.As(err, &f):
		s.count.faults.Add(1)
		if f.Crash && s.opt.Strict {
			http.Error(w, "Internal Server Error", http.StatusInternalServerError)
			return
		}
		reply(w, http.StatusUnprocessableEntity, map[string]any{"detail": []any{faultBody(f)}})
	default:
		s.broken(w, err)
	}
}

func faultBody(f *group.Fault) map[string]any {
	body := map[string]any{"type": f.Type, "loc": append([]any{"body"}, f.Loc...), "msg": f.Msg}
	if f.Type == "json_invalid" {
		body["msg"] = "JSON decode error"
		body["input"] = map[string]any{}
		body["ctx"] = map[string]string{"error": f.Msg}
	}
	return body
}

// notUTF8 turns the fault of a body that is not text at all into what the framework says.
func notUTF8(err error, body []byte) error {
	if f, ok := err.(*group.Fault); ok && f.Type == "json_invalid" && !utf8.Valid(body) {
		return &errBody{status: http.StatusBadRequest, text: "There was an error parsing the body"}
	}
	return err
}

package fakellm

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/internal/fakellm/model"
	"hermes/internal/fakellm/rawjson"
	"hermes/internal/guard"
)

func (s *Server) routes() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("POST /v1/chat/completions", s.form(formChat))
	m.HandleFunc("POST /v1/completions", s.form(formCompletion))
	m.HandleFunc("POST /generate", s.form(formSGLang))
	m.HandleFunc("POST /inference/v1/generate", s.form(formInference))
	m.HandleFunc("POST /completion", s.form(formLlamacpp))
	m.HandleFunc("POST /tokenize", s.tokenize)
	m.HandleFunc("POST /detokenize", s.detokenize)
	m.HandleFunc("GET /v1/models", s.models)
	m.HandleFunc("GET /v1/models/{id...}", s.oneModel)
	m.HandleFunc("GET /metrics", s.metrics)
	m.HandleFunc("GET /stats", s.statsPage)
	m.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]string{"version": "fake"}) })
	for _, p := range []string{"/health", "/healthz"} {
		m.HandleFunc("GET "+p, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]string{"status": "ok"}) })
	}
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, 404, "invalid_request_error", "", fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.URL.Path))
	})
	return m
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	public := r.URL.Path == "/health" || r.URL.Path == "/healthz" || r.URL.Path == "/stats" || r.URL.Path == "/metrics"
	if s.opt.Key != "" && !public && !s.allowed(r) {
		s.log.refuse()
		s.fail(w, 401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided.")
		return
	}
	switch r.URL.Path { // the way of a benchmark, without the pattern matcher
	case "/v1/chat/completions":
		if r.Method == http.MethodPost {
			s.handle(formChat, w, r)
			return
		}
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) allowed(r *http.Request) bool {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(key), []byte(s.opt.Key)) == 1
}

// Running is a server that listens.
type Running = guard.Running

// Listen serves on an address of the loopback (port 0: any) until ctx is cancelled, which
// also ends requests in flight.
func (s *Server) Listen(ctx context.Context, addr string) (*Running, error) {
	return s.Serve(ctx, addr, guard.Options{})
}

// Serve is Listen for those whom the guard lets in.
func (s *Server) Serve(ctx context.Context, addr string, o guard.Options) (*Running, error) {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		o.Port, err = strconv.Atoi(port)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %q: want HOST:PORT", addr)
	}
	o.Host = host
	if host == "" {
		o.Host = "0.0.0.0" // as net.Listen takes it
	}
	o.MaxBody, o.Grace = s.opt.MaxBody, time.Nanosecond
	g, err := guard.New(o)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return g.On(ctx, l, s), nil
}

// body returns an empty buffer, used again when the request is over.
func (s *Server) body() *bytes.Buffer {
	if b, ok := s.bodies.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

func (s *Server) form(f form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.handle(f, w, r) }
}

// handle reads a request, refuses what no server would take, and runs the rest.
func (s *Server) handle(f form, w http.ResponseWriter, r *http.Request) {
	if slices.Contains(s.opt.Closed, r.URL.Path) {
		s.log.refuse()
		s.fail(w, 403, "Forbidden", "", "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to use "+r.URL.Path)
		return
	}
	buf := s.body()
	defer func() {
		if buf.Cap() <= 1<<20 {
			buf.Reset()
			s.bodies.Put(buf)
		}
	}()
	if _, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, s.opt.MaxBody)); err != nil {
		s.log.refuse()
		status := 400
		var big *http.MaxBytesError
		switch {
		case errors.As(err, &big):
			status = 413
		case errors.Is(err, guard.ErrSlow):
			status = 408
		}
		s.fail(w, status, "invalid_request_error", "", "The body could not be read.")
		return
	}
	q, err := s.parse(f, buf.Bytes(), r)
	if err != nil {
		s.log.refuse()
		s.fail(w, 400, "invalid_request_error", "", "We could not parse the JSON body of your request: "+err.Error())
		return
	}
	if s.refusesMax(q) {
		s.log.refuse()
		s.fail(w, 400, "invalid_request_error", "unsupported_parameter", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
		return
	}
	if len(s.opt.Models) > 0 && !slices.Contains(s.opt.Models, q.name) && (q.name != "" || f == formChat || f == formCompletion) {
		s.log.refuse()
		s.fail(w, 404, "invalid_request_error", "model_not_found", fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", q.name))
		return
	}
	s.exchange(w, r, q)
}

// exchange answers a request that could be read.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, q *request) {
	dig := q.digest()
	flying := s.flying.Add(1)
	defer s.flying.Add(-1)
	before := s.log.ask(dig, flying, r.ContentLength)
	x := &exchange{s: s, w: w, ctx: r.Context(), q: q, dig: dig, dice: model.NewDice(s.opt.Seed ^ dig.low() ^ uint64(before.asked)<<32)}
	x.entry = Entry{Path: q.path, Turn: q.Talk.Turns, Ask: int(before.asked), Status: 200}
	if s.opt.Record || s.opt.Log != nil {
		x.entry.Conversation = q.conversation()
	}
	defer func() { s.log.end(dig, &x.entry, x.limited) }()
	x.run(before, flying)
}

// fail answers with an error as OpenAI words it.
func fail(w http.ResponseWriter, status int, kind, code, message string) {
	b := rawjson.Quote([]byte(`{"error":{"message":`), message)
	b = rawjson.Quote(append(b, `,"type":`...), kind)
	b = append(b, `,"param":null,"code":`...)
	if code == "" {
		b = append(b, "null"...)
	} else {
		b = rawjson.Quote(b, code)
	}
	send(w, status, append(b, "}}"...))
}

func reply(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil { // only our own plain values come here
		panic(fmt.Sprintf("fakellm: encode %T: %v", v, err))
	}
	send(w, status, b)
}

var jsonType = []string{"application/json"}

func send(w http.ResponseWriter, status int, body []byte) bool {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err == nil
}

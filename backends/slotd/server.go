package slotd

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"hermes/backends"
)

// ServerOptions describe a server and the host behind it.
type ServerOptions struct {
	Options
	Token string // bearer token that every call but health needs; empty: none
}

// server is a Host behind HTTP.
type server struct {
	h     *Host
	token [32]byte
	open  bool
	execs *execs
	boot  string
	began time.Time
}

// Serve answers on l until ctx ends, and then ends every process of the box. It
// returns nil when it was ctx that ended it.
func Serve(ctx context.Context, l net.Listener, o ServerOptions) error {
	h, err := NewHost(o.Options)
	if err != nil {
		l.Close()
		return err
	}
	s := &server{h: h, token: sha256.Sum256([]byte(o.Token)), open: o.Token == "", execs: newExecs(), boot: NewID(), began: time.Now()}
	web := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { web.Close() })
	defer stop()
	err = web.Serve(l)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	closed := h.Close(end)
	s.execs.wait()
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, closed)
}

// routes is the table of calls.
func (s *server) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/health", s.health)
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/info":               s.info,
		"POST /v1/exec/{eid}":        s.exec,
		"GET /v1/exec/{eid}":         s.attach,
		"DELETE /v1/exec/{eid}":      s.cancel,
		"GET /v1/file":               s.getFile,
		"PUT /v1/file":               s.putFile,
		"GET /v1/tar":                s.getTar,
		"PUT /v1/tar":                s.putTar,
		"GET /v1/stat":               s.stat,
		"GET /v1/list":               s.list,
		"POST /v1/search":            s.search,
		"POST /v1/process":           s.start,
		"GET /v1/process/{id}":       s.output,
		"GET /v1/process/{id}/wait":  s.wait,
		"PUT /v1/process/{id}/stdin": s.stdin,
		"PUT /v1/process/{id}/size":  s.resize,
		"DELETE /v1/process/{id}":    s.kill,
		"POST /v1/forward":           s.forward,
	} {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !s.authorized(r) {
				http.Error(w, "unauthorized", http.StatusUnauthorized)
				return
			}
			if err := f(w, r); err != nil {
				sendFault(w, err)
			}
		})
	}
	return m
}

// authorized compares tokens in constant time.
func (s *server) authorized(r *http.Request) bool {
	got, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum := sha256.Sum256([]byte(got))
	return s.open || ok && subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1
}

// sendFault answers with an error: 422, so that no proxy takes it for its own.
func sendFault(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	json.NewEncoder(w).Encode(toFault(err))
}

func sendJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // an error here is the client's going away
	return nil
}

// Health is the answer of /v1/health.
type Health struct {
	OK     bool   `json:"ok"`
	Proto  int    `json:"proto"`
	Boot   string `json:"boot"` // changes when the server starts anew
	Execs  int    `json:"execs"`
	Uptime int64  `json:"uptime_ms"`
}

func (s *server) health(w http.ResponseWriter, r *http.Request) {
	sendJSON(w, Health{OK: true, Proto: Proto, Boot: s.boot, Execs: s.execs.running(), Uptime: time.Since(s.began).Milliseconds()})
}

// Info is the answer of /v1/info.
type Info struct {
	ID      string `json:"id"`
	Dir     string `json:"dir"`
	Home    string `json:"home"`
	UID     int    `json:"uid"`
	Arch    string `json:"arch"`
	CPUs    int    `json:"cpus"`
	PTY     bool   `json:"pty"`
	OOM     int64  `json:"oom"` // kills so far; -1: unknown
	Version string `json:"go"`
}

// Info tells about the host.
func (h *Host) Info() Info {
	i := Info{ID: h.id, Dir: h.dir, Home: h.opt.Home, UID: os.Geteuid(), Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), OOM: -1, Version: runtime.Version()}
	if u := h.opt.User; u != nil {
		i.UID = int(u.UID)
	}
	if h.opt.OOM != nil {
		i.OOM = h.opt.OOM()
	}
	_, err := os.Stat("/dev/ptmx")
	i.PTY = err == nil
	return i
}

func (s *server) info(w http.ResponseWriter, r *http.Request) error { return sendJSON(w, s.h.Info()) }

// readCommand reads the body of exec and start.
func readCommand(r *http.Request) (body []byte, c backends.Cmd, o backends.StartOptions, err error) {
	body, err = io.ReadAll(http.MaxBytesReader(nil, r.Body, 4+maxRequest+maxStdin))
	if err == nil {
		c, o, err = decodeCommand(body)
	}
	if err != nil {
		err = fmt.Errorf("read command: %w", err)
	}
	return body, c, o, err
}

// number reads a parameter of the query; absent means 0.
func number(r *http.Request, name string) (int64, error) {
	v := r.URL.Query().Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parameter %s: %w", name, err)
	}
	return n, nil
}

// beatUntil sends a heartbeat now and then while done is open.
func beatUntil(w http.ResponseWriter, r *http.Request, done <-chan struct{}) error {
	w.Header().Set("Content-Type", "application/x-hermes-frames")
	c := http.NewResponseController(w)
	select {
	case <-done: // no need for a packet of its own
		return nil
	default:
	}
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-r.Context().Done():
			return r.Context().Err()
		case <-tick.C:
			if err := errors.Join(writeFrame(w, frameBeat, nil), c.Flush()); err != nil {
				return err
			}
		}
	}
}

// sendResult writes outputs and the exit frame, or an error frame.
func sendResult(w io.Writer, r backends.Result, err error) {
	if err != nil {
		text, _ := json.Marshal(toFault(err))
		writeFrame(w, frameError, text)
		return
	}
	text, _ := json.Marshal(exit{r.Code, r.Signal, r.TimedOut, r.OOM, r.OutBytes, r.ErrBytes, r.Dropped, r.Took, r.CPU})
	for kind, data := range map[byte][]byte{frameOut: r.Stdout, frameErr: r.Stderr} {
		for len(data) > 0 {
			n := min(len(data), 1<<20)
			if writeFrame(w, kind, data[:n]) != nil {
				return
			}
			data = data[n:]
		}
	}
	writeFrame(w, frameExit, text)
}

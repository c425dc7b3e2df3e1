package backendtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Meddler is between a driver and the HTTP service that it calls, and makes calls go
// wrong. The faults are drawn with a seed: a call is refused without an answer, answered
// late, answered to one half, carried out and not answered, carried out twice (as by a
// client that did not hear the first answer), or turned away because of a quota.
//
// It is an http.Handler and safe for concurrent use.
type Meddler struct {
	to    url.URL
	trips http.RoundTripper
	pass  http.Handler

	mu       sync.Mutex
	rand     *rand.Rand
	share    float64
	injected map[string]int
}

// Bounds of what a Meddler holds of a call, and of how late it lets an answer come.
const (
	mostBody = 64 << 20
	mostLate = 200 * time.Millisecond
)

// NewMeddler returns a Meddler in front of the service at base that dial reaches. It passes
// calls on as they are until Begin.
func NewMeddler(base url.URL, dial func(ctx context.Context, network, address string) (net.Conn, error), seed uint64) *Meddler {
	trips := &http.Transport{DialContext: dial, DisableCompression: true, DisableKeepAlives: true}
	return &Meddler{to: base, trips: trips, pass: &httputil.ReverseProxy{Transport: trips, FlushInterval: -1,
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&base) },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }},
		rand: rand.New(rand.NewPCG(seed, 11)), injected: map[string]int{}}
}

// Begin makes calls go wrong with the given probability.
func (m *Meddler) Begin(share float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.share = share
}

// Heal ends the faults.
func (m *Meddler) Heal() { m.Begin(0) }

// Injected counts the faults so far.
func (m *Meddler) Injected() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.injected {
		n += k
	}
	return n
}

// Kinds tells how many faults of each kind there were.
func (m *Meddler) Kinds() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprint(m.injected)
}

// draw decides what goes wrong with a call, and how late its answer is.
func (m *Meddler) draw(r *http.Request) (kind string, late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rand.Float64() >= m.share {
		return "", 0
	}
	kinds := []string{"refused", "slow", "half answer", "no answer", "quota"}
	if slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodDelete}, r.Method) {
		kinds = append(kinds, "twice", "no answer") // what changes something is where that hurts
	}
	kind = kinds[m.rand.IntN(len(kinds))]
	m.injected[kind]++
	return kind, time.Duration(m.rand.Int64N(int64(mostLate)))
}

// ServeHTTP implements http.Handler.
func (m *Meddler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, late := m.draw(r)
	switch kind {
	case "":
		m.pass.ServeHTTP(w, r)
	case "refused":
		panic(http.ErrAbortHandler)
	case "quota":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"message":"quota exceeded: too many boxes for this account"}`)
	case "slow":
		timer := time.NewTimer(late)
		defer timer.Stop()
		select {
		case <-timer.C:
			m.pass.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	default:
		m.halfDone(w, r, kind)
	}
}

// halfDone carries a call out, and answers as kind says.
func (m *Meddler) halfDone(w http.ResponseWriter, r *http.Request, kind string) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	status, head, answer, err := m.call(r, body)
	if kind == "twice" && err == nil {
		status, head, answer, err = m.call(r, body)
	}
	if err != nil || kind == "no answer" {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), head)
	w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
	w.WriteHeader(status)
	if kind == "half answer" {
		w.Write(answer[:len(answer)/2])
		panic(http.ErrAbortHandler)
	}
	w.Write(answer)
}

// call makes a call of the service to its end, whoever waits for the answer.
func (m *Meddler) call(r *http.Request, body []byte) (status int, head http.Header, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), patience)
	defer cancel()
	out := r.Clone(ctx)
	out.URL.Scheme, out.URL.Host, out.RequestURI = m.to.Scheme, m.to.Host, ""
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp, err := m.trips.RoundTrip(out)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, mostBody))
	return resp.StatusCode, resp.Header, answer, err
}

// Serve answers on l until the returned function is called, which waits for the calls
// under way.
func (m *Meddler) Serve(l net.Listener) (stop func()) {
	srv := &http.Server{Handler: m, ReadHeaderTimeout: patience}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // a listener of the test
		}
	}()
	return func() {
		srv.Close()
		<-ended
		m.trips.(*http.Transport).CloseIdleConnections()
	}
}

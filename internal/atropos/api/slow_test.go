package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hermes/internal/atropos/api"
	"hermes/internal/guard"
)

// pipes is a listener whose connections are in memory, so that their time is the bubble's.
type pipes struct {
	conns chan net.Conn
	shut  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.shut:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.shut) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000} }

// paced gives so many bytes each second, and counts them. It is JSON's white space, so that all
// of it is read.
type paced struct {
	left, rate, gave int
	ended            chan struct{}
}

// Close is called when the client sends no more.
func (p *paced) Close() error { close(p.ended); return nil }

func (p *paced) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := min(p.rate/10, p.left, len(b))
	copy(b, strings.Repeat(" ", n))
	p.left -= n
	p.gave += n
	<-time.NewTimer(time.Second * time.Duration(n) / time.Duration(p.rate)).C // by the bubble's clock
	return n, nil
}

// TestPaceOfBodies posts gigabytes to the server behind its guard, by a clock of the test: one
// megabyte a second is never cut, though the gigabyte takes 18 minutes; 10 KiB a second are cut
// within 20 seconds; and what brings just enough not to be is cut after half an hour. The memory
// of each is given back.
func TestPaceOfBodies(t *testing.T) {
	for _, tt := range []struct {
		name       string
		size, rate int
		status     int
		from, to   time.Duration
	}{
		{"honest", 1 << 30, 1_000_000, 422, 1000 * time.Second, 1200 * time.Second}, // white space is no group
		{"dribbler", 1 << 30, 10 << 10, 408, 0, 20 * time.Second},
		{"patient dribbler", 1 << 30, 20 << 10, 408, 29 * time.Minute, 31 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s, _, err := api.Open(api.Options{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				g, err := guard.New(guard.Options{MaxBody: 1 << 30})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				l := &pipes{conns: make(chan net.Conn), shut: make(chan struct{})}
				running := g.On(ctx, l, s)
				tr := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					l.conns <- there
					return here, nil
				}}
				began := time.Now()
				body := &paced{left: tt.size, rate: tt.rate, ended: make(chan struct{})}
				q, err := http.NewRequestWithContext(ctx, "POST", "http://127.0.0.1:8000/scored_data", body)
				if err != nil {
					t.Fatal(err)
				}
				q.ContentLength = int64(tt.size)
				q.Header.Set("Content-Type", "application/json")
				resp, err := tr.RoundTrip(q)
				took := time.Since(began)
				what := fmt.Sprint(err)
				if err == nil {
					text, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					what = fmt.Sprintf("%d %s", resp.StatusCode, text)
				}
				if !strings.HasPrefix(what, fmt.Sprint(tt.status)) || took < tt.from || took > tt.to {
					t.Errorf("after %v and %d bytes: %.300s", took, body.gave, what)
				}
				synctest.Wait()
				if n := api.Held(s); n != 0 {
					t.Errorf("%d bytes are held", n)
				}
				t.Logf("%.60q after %v, %d bytes", what, took, body.gave)
				tr.CloseIdleConnections()
				cancel()
				<-body.ended
				if err := running.Wait(); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

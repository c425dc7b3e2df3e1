package wire

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Under TLS requests go over HTTP/2 where the server knows it, else over kept connections,
// and answers may be packed; one that is cancelled harms no other.
func TestTLS(t *testing.T) {
	for _, second := range []bool{true, false} {
		t.Run(fmt.Sprintf("HTTP/2=%v", second), func(t *testing.T) {
			var dialed atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				if string(raw) == "hang" {
					<-r.Context().Done()
					return
				}
				if want := map[bool]int{true: 2, false: 1}[second]; r.ProtoMajor != want || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
					t.Errorf("%s with the encodings %q", r.Proto, r.Header.Get("Accept-Encoding"))
				}
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = z.Write(raw)
				z.Close()
			}))
			s.EnableHTTP2 = second
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					dialed.Add(1)
				}
			}
			s.StartTLS()
			defer s.Close()
			o := Options{Bases: []string{s.URL + "/v1"}, Retries: -1, Connect: time.Minute, Concurrency: 8}
			to := newTransport(o)
			to.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
			o.Transport = to
			c, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // against hanging only
			defer cancel()
			ask := func(ctx context.Context, body string) (string, error) {
				r := &Request{Path: "/chat/completions", Body: func() Body { return &spoken{strings.NewReader(body)} }}
				a, err := c.Do(ctx, r, func(ctx context.Context, d Doer) error {
					_, err := d.Whole(ctx)
					return err
				})
				if err != nil {
					return "", err
				}
				return string(a.Raw), nil
			}
			for n := range 5 {
				body := strings.Repeat(fmt.Sprint(n, " "), 20_000)
				if got, err := ask(ctx, body); err != nil || got != body {
					t.Fatalf("request %d: %d bytes of %d, %v", n, len(got), len(body), err)
				}
			}
			if n := dialed.Load(); n != 1 {
				t.Errorf("%d connections for requests one after the other", n)
			}
			short, end := context.WithTimeout(ctx, 20*time.Millisecond)
			if _, err := ask(short, "hang"); err != context.DeadlineExceeded {
				t.Errorf("a request that is cancelled: %v", err)
			}
			end()
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					body := strings.Repeat(fmt.Sprint(i, "."), 1000*i)
					if got, err := ask(ctx, body); err != nil || got != body {
						t.Errorf("request %d at once: %d bytes of %d, %v", i, len(got), len(body), err)
					}
				})
			}
			all.Wait()
		})
	}
}

// spoken is a body of text.
type spoken struct{ *strings.Reader }

func (b *spoken) Len() int64   { return int64(b.Reader.Len()) }
func (b *spoken) Close() error { return nil }

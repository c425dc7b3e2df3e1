package guard_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hermes/internal/guard"
)

// TestShield: every answer, a refusal too, has the headers that keep it from the pages of
// others.
func TestShield(t *testing.T) {
	for _, host := range []string{"127.0.0.1:8000", "evil.example"} {
		h := asked(t, guard.Options{}, "GET", "/x", host).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("host %s: %s is %q, want %q", host, name, got, want)
			}
		}
	}
}

// TestLongBodies: the bound holds for a body that says its length and for one that does not.
func TestLongBodies(t *testing.T) {
	g, err := guard.New(guard.Options{MaxBody: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int64{11, -1} {
		var got error
		h := g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, got = io.ReadAll(r.Body) }))
		r := httptest.NewRequest("POST", "/x", strings.NewReader("12345678901"))
		r.Host, r.ContentLength = "127.0.0.1", length
		h.ServeHTTP(httptest.NewRecorder(), r)
		if long := (*http.MaxBytesError)(nil); !errors.As(got, &long) {
			t.Errorf("length %d: %v", length, got)
		}
	}
}

// TestRefusedBody: the body of a request that is refused is not read, whether it says its
// length or not.
func TestRefusedBody(t *testing.T) {
	g, err := guard.New(guard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int64{3, -1} {
		body := strings.NewReader("abc")
		r := httptest.NewRequest("POST", "/x", body)
		r.Host, r.ContentLength = "evil.example", length
		w := httptest.NewRecorder()
		g.Wrap(http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || w.Header().Get("Connection") != "close" || body.Len() != 3 {
			t.Errorf("length %d: %d %v, %d bytes left", length, w.Code, w.Header(), body.Len())
		}
	}
}

// TestLongHeader: a request's header is bounded.
func TestLongHeader(t *testing.T) {
	g, err := guard.New(guard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Serve(t.Context(), http.NotFoundHandler())
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Long", strings.Repeat("a", 100<<10))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(resp.Status)
	}
}

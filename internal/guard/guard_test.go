package guard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"hermes/internal/guard"
)

func TestBeyondTheLoopback(t *testing.T) {
	some := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	tests := []struct {
		o  guard.Options
		ok bool
	}{
		{guard.Options{}, true}, {guard.Options{Host: "localhost"}, true}, {guard.Options{Host: "::1"}, true},
		{guard.Options{Host: "0.0.0.0"}, false}, {guard.Options{Host: "::"}, false}, {guard.Options{Host: "example.org"}, false},
		{guard.Options{Host: "0.0.0.0", Token: "x"}, true}, {guard.Options{Host: "0.0.0.0", Allow: some}, true},
		{guard.Options{Host: "0.0.0.0", Insecure: true}, true}, {guard.Options{Token: "a/b"}, false}, {guard.Options{Port: 70000}, false},
		{guard.Options{Origins: []string{"http://a:3000", "https://b/"}}, true}, {guard.Options{Origins: []string{"*"}}, false},
		{guard.Options{Origins: []string{"null"}}, false},
		{guard.Options{Origins: []string{"http://a/page"}}, false},
		{guard.Options{Origins: []string{"file:///a"}}, false},
		{guard.Options{Names: []string{"box.example"}}, true},
		{guard.Options{Names: []string{"http://box"}}, false},
		{guard.Options{Names: []string{""}}, false},
	}
	for _, tt := range tests {
		if _, err := guard.New(tt.o); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.o, err)
		}
	}
}

func TestWhoComesIn(t *testing.T) {
	g, err := guard.New(guard.Options{Host: "0.0.0.0", Token: "sesame", Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, MaxBody: 4})
	if err != nil {
		t.Fatal(err)
	}
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, "", http.StatusRequestEntityTooLarge)
			return
		}
		io.WriteString(w, r.URL.Path)
	}))
	tests := []struct {
		path, from, header, body string
		status                   int
		want                     string
	}{
		{"/batch", "10.1.1.1:5", "Bearer sesame", "", 200, "/batch"},
		{"/t/sesame/batch", "10.1.1.1:5", "", "", 200, "/batch"},
		{"/t/sesame", "127.0.0.1:5", "", "", 200, "/"},
		{"/t/sesamex/batch", "10.1.1.1:5", "", "", 401, ""},
		{"/batch", "10.1.1.1:5", "", "", 401, ""},
		{"/batch", "10.1.1.1:5", "Bearer no", "", 401, ""},
		{"/batch", "11.1.1.1:5", "Bearer sesame", "", 403, ""},
		{"/batch", "[::ffff:10.1.1.1]:5", "Bearer sesame", "", 200, "/batch"},
		{"/healthz", "11.1.1.1:5", "", "", 200, `{"status":"ok"}`},
		{"/batch", "10.1.1.1:5", "Bearer sesame", "12345", 413, ""},
	}
	for _, tt := range tests {
		r := httptest.NewRequest("POST", tt.path, strings.NewReader(tt.body))
		r.RemoteAddr, r.Host = tt.from, "10.0.0.1:8000"
		if tt.header != "" {
			r.Header.Set("Authorization", tt.header)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s from %s: %d %s, want %d %s", tt.path, tt.from, w.Code, w.Body, tt.status, tt.want)
		}
	}
}

// TestShutdownFinishesRequests ends the server while a request is in it.
func TestShutdownFinishesRequests(t *testing.T) {
	ill := errors.New("the disk is full")
	g, err := guard.New(guard.Options{Healthy: func() error { return ill }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	run, err := g.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stop()
		io.WriteString(w, "done")
	}))
	if err != nil {
		t.Fatal(err)
	}
	health, err := http.Get(run.URL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(health.Body)
	health.Body.Close()
	if health.StatusCode != 503 || !strings.Contains(string(text), ill.Error()) {
		t.Errorf("health: %d %s %v", health.StatusCode, text, err)
	}
	resp, err := http.Get(run.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "done" {
		t.Errorf("%q, %v", b, err)
	}
	if err := run.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(run.URL); err == nil {
		t.Error("the server still answers")
	}
}

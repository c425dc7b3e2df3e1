package client_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hermes/internal/atropos/client"
)

func open(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := client.New(s.URL+"/t/secret/", client.Options{Token: "bearer", Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStatusIsAGetWithABody(t *testing.T) {
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if r.Method != "GET" || r.URL.Path != "/t/secret/status-env" || string(raw) != `{"env_id":3}` || r.Header.Get("Content-Type") != "application/json" ||
			r.Header.Get("Authorization") != "Bearer bearer" {
			t.Errorf("%s %s %s %v", r.Method, r.URL, raw, r.Header)
		}
		_, _ = io.WriteString(w, `{"current_step":5,"queue_size":2,"unallocated_fraction":0.5,"self_queue_size":1,"max_group_size":8,"env_weight":0.25}`)
	})
	got, err := c.Status(t.Context(), 3)
	if want := (client.Status{Step: 5, Queue: 2, Unallocated: 0.5, Own: 1, MaxGroup: 8, Weight: 0.25}); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
}

func TestRegister(t *testing.T) {
	var answer atomic.Pointer[string]
	say := func(text string) { answer.Store(&text) }
	say(`{"status":"wait for trainer to start"}`)
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		var in map[string]any
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in["desired_name"] != "e" || in["weight"] != 0.5 || in["min_batch_allocation"] != nil ||
			in["group_size"] != 4.0 || in["max_token_length"] != 100.0 {
			t.Errorf("%v %v", in, err)
		}
		_, _ = io.WriteString(w, *answer.Load())
	})
	in := client.Registration{MaxTokenLength: 100, DesiredName: "e", Weight: 0.5, GroupSize: 4}
	if _, err := c.Register(t.Context(), in); !errors.Is(err, client.ErrWait) {
		t.Errorf("%v, want ErrWait", err)
	}
	say(`{"status":"success","env_id":2,"wandb_name":"e_1","checkpoint_dir":"/c","starting_step":7,"checkpoint_interval":-1,"num_steps":50}`)
	got, err := c.Register(t.Context(), in)
	if want := (client.Registered{
		Status:             "success",
		EnvID:              2,
		Name:               "e_1",
		CheckpointDir:      "/c",
		StartingStep:       7,
		CheckpointInterval: -1,
		NumSteps:           50,
	}); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	say(`{"status":"odd"}`)
	if _, err := c.Register(t.Context(), in); err == nil || !strings.Contains(err.Error(), "odd") {
		t.Errorf("%v", err)
	}
}

// TestRepeats: what may be repeated is sent three times; a post is not, and its fate is reported.
func TestRepeats(t *testing.T) {
	var asked atomic.Int32
	var status atomic.Int32
	const cutOff = 1
	c := open(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if status.Load() == cutOff {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, `{"detail":[{"type":"missing"}]}`)
	})
	for _, tt := range []struct {
		name   string
		status int32
		call   func() error
		asks   int32
		fate   client.Fate
	}{
		{"info, 500", 500, func() error { _, err := c.Info(t.Context()); return err }, 3, client.Refused},
		{"info, 404", 404, func() error { _, err := c.Info(t.Context()); return err }, 1, client.Refused},
		{"info, 429", 429, func() error { _, err := c.Info(t.Context()); return err }, 3, client.Refused},
		{"info, cut", cutOff, func() error { _, err := c.Info(t.Context()); return err }, 3, client.Unknown},
		{"register, cut", cutOff, func() error { _, err := c.Register(t.Context(), client.Registration{}); return err }, 1, client.Unknown},
		{"register, 500", 500, func() error { _, err := c.Register(t.Context(), client.Registration{}); return err }, 3, client.Refused},
		{"post, cut", cutOff, func() error { _, err := c.Post(t.Context(), "k", []byte(`{}`)); return err }, 1, client.Unknown},
		{"post, 422", 422, func() error { _, err := c.Post(t.Context(), "k", []byte(`{}`)); return err }, 1, client.Refused},
		{"post, 500", 500, func() error { _, err := c.Post(t.Context(), "k", []byte(`{}`)); return err }, 1, client.Refused},
		{"post, 502", 502, func() error { _, err := c.Post(t.Context(), "k", []byte(`{}`)); return err }, 1, client.Unknown},
	} {
		asked.Store(0)
		status.Store(tt.status)
		err := tt.call()
		// The transport itself repeats a GET whose kept connection was closed.
		if err == nil || asked.Load() < tt.asks || asked.Load() > tt.asks && tt.name != "info, cut" || client.FateOf(err) != tt.fate ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: asked %d times, fate %d: %v", tt.name, asked.Load(), client.FateOf(err), err)
		}
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := client.New("http://"+addr, client.Options{Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Post(t.Context(), "k", []byte(`{}`)); client.FateOf(err) != client.Unsent {
		t.Errorf("fate %d: %v", client.FateOf(err), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Info(ctx); err == nil {
		t.Error("an answer without a server")
	}
}

// TestBigBodiesAreCompressed, but not those for this machine.
func TestBigBodiesAreCompressed(t *testing.T) {
	group := []byte(`{"tokens":[[` + strings.Repeat("1,", 3000) + `1]]}`)
	for _, compress := range []bool{false, true} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var body io.Reader = r.Body
			if packed := r.Header.Get("Content-Encoding") == "gzip"; packed != compress {
				t.Errorf("compress %t: headers %v", compress, r.Header)
			} else if packed {
				z, err := gzip.NewReader(r.Body)
				if err != nil {
					t.Error(err)
					return
				}
				body = z
			}
			raw, err := io.ReadAll(body)
			if err != nil || string(raw) != string(group) {
				t.Errorf("%d bytes, %v", len(raw), err)
			}
			_, _ = io.WriteString(w, `{"status":"buffered","buffer_size":3}`)
		}))
		defer s.Close()
		c, err := client.New(s.URL, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if compress {
			c.Leave()
		}
		if p, err := c.Post(t.Context(), "k", group); err != nil || p.Buffered != 3 {
			t.Errorf("%+v %v", p, err)
		}
	}
}

// late is a transport that goes on with a body after the answer has come, as net/http does
// where a server answers before it has read everything.
type late struct{ after func() }

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	go func() {
		<-r.Context().Done()
		l.after()
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"status":"received"}`)), Request: r}, nil
}

// TestBodyIsGivenBack: a group is not read any more when Post has returned, so that its memory
// can be used again.
func TestBodyIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New("http://127.0.0.1:1", client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.Through(late{func() { time.Sleep(time.Second) }})
		group := []byte(`{"tokens":[[1]]}`)
		begun := time.Now()
		if _, err := c.Post(t.Context(), "k", group); err != nil {
			t.Fatal(err)
		}
		clear(group)
		if took := time.Since(begun); took < time.Second {
			t.Errorf("returned after %v, while the group was being read", took)
		}
	})
}

// TestKeys: the key of a post is sent, and the client knows whether the server makes
// anything of it.
func TestKeys(t *testing.T) {
	var own atomic.Bool
	c := open(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Idempotency-Key"); got != "k" {
			t.Errorf("key %q", got)
		}
		if own.Load() {
			w.Header().Set("Hermes-Features", "Idempotency-Key")
			w.Header().Set("Idempotent-Replayed", "true")
		}
		_, _ = io.WriteString(w, `{"status":"received"}`)
	})
	for _, want := range []bool{false, true, false} {
		own.Store(want)
		if p, err := c.Post(t.Context(), "k", []byte(`{}`)); err != nil || c.Keyed() != want || p.Again != want {
			t.Errorf("keyed %v, again %v, want %v: %v", c.Keyed(), p.Again, want, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:8000", "ftp://x", "http://", "http://x/?q=1", "http://x/%zz"} {
		if _, err := client.New(bad, client.Options{}); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
}

package fakellm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hermes/internal/fakellm"
)

// Each fault of a script shows itself once; the retry succeeds and is booked.
func TestFaultsAndRetry(t *testing.T) {
	url, s := start(t, fakellm.Options{Record: true, SlowStep: time.Millisecond})
	for _, stream := range []bool{false, true} {
		for _, name := range fakellm.FaultNames() {
			body, _ := json.Marshal(obj{"model": "m", "stream": stream, "messages": user(fmt.Sprint(name, stream)),
				"hermes_script": []obj{{"content": "a good answer of some length, so that it has several pieces", "fault": name}}})
			what := ask(url, body)
			if what == "good" && name != fakellm.FaultSlow {
				t.Errorf("%s, stream %v: the first answer was good", name, stream)
			}
			if name == fakellm.FaultReset && what != "reset" {
				t.Errorf("reset looked like %s", what)
			}
			if again := ask(url, body); again != "good" {
				t.Errorf("%s, stream %v: the retry was %s", name, stream, again)
			}
		}
	}
	st := s.Stats()
	n := int64(len(fakellm.FaultNames()))
	if st.Requests != 4*n || st.Answers != 2*n+2 || st.Duplicates != 2 { // a slow answer is an answer
		t.Errorf("stats %+v", st)
	}
	if got := len(s.Entries()); got != int(4*n) {
		t.Errorf("%d entries", got)
	}
}

// ask says what a client sees.
func ask(url string, body []byte) string {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	resp, err := http.DefaultClient.Do(r)
	if errors.Is(err, syscall.ECONNRESET) {
		return "reset"
	}
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	if resp.ContentLength < 0 && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return "stall" // headers without a length: nothing will follow
	}
	raw, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err.Error()
	case resp.StatusCode != 200:
		return resp.Status
	case strings.Contains(string(raw), `"stop"`) && strings.Contains(string(raw), "a good answer") &&
		(json.Valid(raw) || strings.HasSuffix(string(raw), "data: [DONE]\n\n")):
		return "good"
	}
	return string(raw)
}

// The same seed gives the same faults, another seed others; shares are kept roughly.
func TestFaultsAreSeeded(t *testing.T) {
	run := func(seed uint64) string {
		s, err := fakellm.New(fakellm.Options{Seed: seed, Faults: map[string]float64{"500": 0.3, "empty": 0.2}})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for i := range 200 {
			w := httptest.NewRecorder()
			body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d"}]}`, i/2) // each twice
			s.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
			fmt.Fprint(&out, w.Code, strings.Contains(w.Body.String(), `"content":""`), " ")
		}
		if n := s.Stats().Faults["500"]; n < 30 || n > 90 {
			t.Errorf("seed %d: 500 drawn %d times of 200", seed, n)
		}
		return out.String()
	}
	if first, again := run(1), run(1); first != again || first == run(2) {
		t.Error("the seed does not decide the faults")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, opt := range []fakellm.Options{
		{Capacity: -1}, {Faults: map[string]float64{"nope": 1}}, {Faults: map[string]float64{"500": 1.5}},
		{Faults: map[string]float64{"500": 0.6, "502": 0.6}},
		{Latency: fakellm.Latency{Fixed: -1}},
		{Scripts: []fakellm.Script{{Match: "/(/", Turns: []fakellm.Turn{{}}}}},
	} {
		if _, err := fakellm.New(opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
	}
	if _, err := fakellm.ParseFaults("429=0.1,reset=x"); err == nil {
		t.Error("a share that is no number was accepted")
	}
}

// Ten requests of one second each through two places take five seconds of (fake) time.
func TestCapacityAndLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := fakellm.New(fakellm.Options{Capacity: 2, Limit: 10, RetryAfter: 1500 * time.Millisecond, Latency: fakellm.Latency{Fixed: time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		one := func(i int) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d"}]}`, i)
			s.ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
			return w
		}
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() { one(i) })
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if m := w.Body.String(); !strings.Contains(m, `running{model_name="fake"} 2`) || !strings.Contains(m, `waiting{model_name="fake"} 8`) {
			t.Errorf("metrics: %s", m)
		}
		if w := one(99); w.Code != 429 || w.Header().Get("Retry-After") != "2" {
			t.Errorf("the eleventh got %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
		wg.Wait()
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
		if st := s.Stats(); st.MaxInFlight != 11 || st.Answers != 10 || st.Limited != 1 {
			t.Errorf("stats %+v", st)
		}
	})
}

func TestLogLinesAndListen(t *testing.T) {
	var log bytes.Buffer
	s, err := fakellm.New(fakellm.Options{Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	chat(t, r.URL, obj{"model": "m", "messages": user("hi"), "hermes_conversation": "row-7"})
	cancel()
	if err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	var e fakellm.Entry
	if err := json.Unmarshal(log.Bytes(), &e); err != nil || e.Conversation != "row-7" || !e.Complete || e.Status != 200 {
		t.Errorf("%v: %s", err, log.String())
	}
}

// A rate of tokens spreads a stream over the time of generation; a lognormal latency is
// drawn by seed and digest, and waiting ends with the client.
func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := func(ctx context.Context, lat fakellm.Latency, stream bool) time.Duration {
			s, err := fakellm.New(fakellm.Options{Latency: lat})
			if err != nil {
				t.Fatal(err)
			}
			body, err := json.Marshal(obj{"model": "m", "stream": stream, "messages": user("x"), "hermes_script": []obj{{"content": strings.Repeat("word", 100)[1:]}}}) // 400 tokens with the end mark
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "POST", "/v1/chat/completions", bytes.NewReader(body)))
			return time.Since(begin)
		}
		ctx := t.Context()
		if got := took(ctx, fakellm.Latency{Fixed: time.Second, TokenRate: 200}, false); got != 3*time.Second {
			t.Errorf("plain: %v", got)
		}
		if got := took(ctx, fakellm.Latency{Fixed: time.Second, TokenRate: 200}, true); got < 2800*time.Millisecond || got > 3*time.Second {
			t.Errorf("stream: %v", got)
		}
		log := fakellm.Latency{Median: time.Second, Sigma: 0.5}
		if a, b := took(ctx, log, false), took(ctx, log, false); a != b || a < 100*time.Millisecond || a > 10*time.Second {
			t.Errorf("lognormal: %v, then %v", a, b)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if got := took(short, fakellm.Latency{Fixed: time.Hour}, false); got != time.Second {
			t.Errorf("given up after %v", got)
		}
	})
}

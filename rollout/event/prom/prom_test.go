package prom_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"hermes/rollout/event"
	"hermes/rollout/event/prom"
	"hermes/trajectory"
)

func TestPage(t *testing.T) {
	m := prom.New()
	m.SetPlanned(3)
	k := trajectory.NewKey("r", 0, 0, 0)
	m.Observe(event.RolloutStarted{Key: k})
	m.Observe(event.RolloutStarted{Key: trajectory.NewKey("r", 0, 0, 1)})
	m.Observe(event.TurnEnded{Key: k, Took: 700 * time.Millisecond, Usage: trajectory.Usage{Prompt: 10, Completion: 5, Cost: 0.5}})
	m.Observe(event.TurnEnded{Key: k, Took: time.Hour, Replay: true, Usage: trajectory.Usage{Prompt: 1000}})
	m.Observe(event.TurnEnded{Key: k, Took: time.Second, Usage: trajectory.Usage{Prompt: 20}, Faults: []trajectory.Fault{{Kind: "truncated"}},
		Message: trajectory.Message{Calls: []trajectory.Call{{Name: "a"}, {Name: "b", State: trajectory.CallTruncated}}}}) // on a bound: belongs below it
	m.Observe(event.CallEnded{Key: k, Call: trajectory.Call{Name: "a\"b\\c\nd"}, Failed: true, Took: time.Millisecond})
	m.Observe(event.CallEnded{Key: k, Call: trajectory.Call{Name: "terminal"}, Took: time.Hour})
	m.Observe(event.Retry{Key: trajectory.NewKey("r", 0, 0, 1), Cause: "box_lost"})
	m.Observe(event.RolloutEnded{Key: k, Record: &trajectory.Record{Outcome: trajectory.Answered}})
	text := string(m.Text())
	for _, want := range []string{
		"hermes_rollouts_planned 3\n",
		"hermes_rollouts_in_flight 0\n",
		`hermes_rollouts_total{outcome="answered"} 1` + "\n",
		`hermes_rollouts_total{outcome="provider"} 0` + "\n",
		`hermes_retries_total{cause="box_lost"} 1` + "\n",
		"hermes_turns_total 3\n",
		"hermes_turns_replayed_total 1\n",
		`hermes_tokens_total{kind="prompt"} 30` + "\n",
		"hermes_cost_usd_total 0.5\n",
		`hermes_calls_total{state="complete"} 1` + "\n",
		`hermes_calls_total{state="recovered"} 0` + "\n",
		`hermes_calls_total{state="truncated"} 1` + "\n",
		`hermes_faults_total{kind="truncated"} 1` + "\n",
		`hermes_tool_calls_total{tool="a\"b\\c\nd",result="failure"} 1` + "\n",
		`hermes_tool_calls_total{tool="terminal",result="success"} 1` + "\n",
		`hermes_model_request_seconds_bucket{le="0.5"} 0` + "\n",
		`hermes_model_request_seconds_bucket{le="1"} 2` + "\n",
		`hermes_model_request_seconds_bucket{le="+Inf"} 2` + "\n",
		"hermes_model_request_seconds_sum 1.7\n",
		`hermes_tool_call_seconds_bucket{le="300"} 1` + "\n",
		"hermes_tool_call_seconds_count 2\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q", want)
		}
	}
	line := regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{([a-z]+="([^"\\\n]|\\.)*",?)+\})? [0-9.e+-]+)$`)
	for l := range strings.Lines(text) {
		if !line.MatchString(strings.TrimSuffix(l, "\n")) {
			t.Errorf("not the exposition format: %q", l)
		}
	}
}

func TestToolNamesAreBounded(t *testing.T) {
	m := prom.New()
	for i := range 2000 {
		m.Observe(event.CallEnded{Call: trajectory.Call{Name: fmt.Sprintf("invented%d", i)}, Failed: true})
	}
	text := string(m.Text())
	if n := strings.Count(text, "hermes_tool_calls_total{"); n > 502 {
		t.Errorf("%d series", n)
	}
	if !strings.Contains(text, `{tool="other",result="failure"} 1500`) {
		t.Error("the rest is not counted as other")
	}
}

func TestListenOnlyOnLoopback(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1:notaport", "", "127.0.0.1:70000"} {
		if l, err := prom.Listen(t.Context(), addr); err == nil && addr != "" {
			l.Close()
			t.Errorf("%q was accepted as %s", addr, l.Addr())
		} else if l != nil {
			l.Close()
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", ":0", "0"} {
		l, err := prom.Listen(t.Context(), addr)
		if err != nil {
			t.Errorf("%q: %v", addr, err)
			continue
		}
		if !strings.HasPrefix(l.Addr().String(), "127.0.0.1:") {
			t.Errorf("%q listens on %s", addr, l.Addr())
		}
		l.Close()
	}
}

func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := prom.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- prom.Serve(ctx, l, prom.New()) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), "hermes_turns_total 0") {
		t.Errorf("%s, %v: %q", resp.Status, err, body)
	}
	if ct := resp.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/plain; version=0.0.4") {
		t.Errorf("content type %q", ct)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestOnlyGet(t *testing.T) {
	w := httptest.NewRecorder()
	prom.New().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

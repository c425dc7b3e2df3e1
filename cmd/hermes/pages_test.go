package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"hermes/internal/house"
	"hermes/rollout/event/prom"
)

// target is a server of ours and what a page would like of it.
type target struct {
	Base   string      `json:"base"`
	Gets   []string    `json:"gets"`
	Posts  [][2]string `json:"posts"`
	states []string    // paths that say whether something was changed, for a program to ask
}

// state is what the server says of itself.
func (x target) state(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, p := range x.states {
		resp, err := http.Get(x.Base + p)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(&all, resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", p, resp.Status, err)
		}
	}
	return regexp.MustCompile(`(?m)^hermes_run_api_(requests|sent_bytes)_total .*$|"metrics":\d+`).ReplaceAllString(all.String(), "")
}

// command runs a command of ours that prints its address first, until the test ends.
func command(t *testing.T, args ...string) string {
	t.Helper()
	c := hermes(t, t.TempDir(), args...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		c.Wait() // by the signal
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(strings.TrimSpace(line), "/")
}

const (
	pageGroup = `{"tokens":[[66,6]],"masks":[[66,6]],"scores":[1]}`
	pageChat  = `{"model":"m","messages":[{"role":"user","content":"from a page"}]}`
)

// targets starts every server of ours, by the folder that makes its guard.
func targets(t *testing.T, friend string) map[string]target {
	t.Helper()
	all := map[string]target{}
	run := command(t, "run-api", "--port", "0", "--allow-origin", friend)
	all["cmd"] = target{Base: run, states: []string{"/status", "/info", "/wandb_info", "/latest_example", "/metrics"},
		Gets: []string{"/reset_data", "/batch", "/status-env?env_id=0", "/status", "/latest_example", "/dashboard", "/metrics", "/healthz", "/status/"},
		Posts: [][2]string{{"/scored_data", pageGroup},
			{"/scored_data_list", "[" + pageGroup + "]"},
			{"/register", trainerWants},
			{"/disconnect-env", `{"env_id":0}`},
			{"/ack", `{"batch_id":1}`},
			{"/reset_data", ""}}}
	for _, call := range [][3]string{{"POST", "/register", trainerWants},
		{"GET", "/batch", ""},
		{"POST", "/register-env", `{"max_token_length":64,"desired_name":"e","weight":1,"group_size":2}`},
		{"POST", "/scored_data", `{"tokens":[[1,2],[1,3]],"masks":[[1,2],[1,3]],"scores":[1,0],"env_id":0}`}} {
		r, err := http.NewRequest(call[0], run+call[1], strings.NewReader(call[2]))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Fatal(call, resp.Status)
		}
	}
	all["internal/fakellm"] = target{Base: command(t, "model", "fake"), states: []string{"/stats"},
		Gets:  []string{"/v1/models", "/stats", "/metrics", "/version", "/health", "/healthz"},
		Posts: [][2]string{{"/v1/chat/completions", pageChat}, {"/generate", `{"text":"x"}`}, {"/tokenize", `{"prompt":"x"}`}}}
	dir := t.TempDir()
	if err := makeRun(t.Context(), filepath.Join(dir, "r"), "m", "", 0, 4); err != nil {
		t.Fatal(err)
	}
	all["internal/viewer"] = target{Base: command(t, "runs", "view", filepath.Join(dir, "r")), states: []string{"/api/list?run=0"},
		Gets: []string{"/", "/app.js", "/style.css", "/api/runs", "/api/list?run=0", "/api/search?run=0&q=done"}, Posts: [][2]string{{"/api/runs", "{}"}}}
	ctx, stop := context.WithCancel(t.Context())
	l, err := prom.Listen(ctx, "0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- prom.Serve(ctx, l, prom.New()) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	all["rollout/event/prom"] = target{
		Base:   "http://" + l.Addr().String(),
		states: []string{"/metrics"},
		Gets:   []string{"/metrics", "/healthz"},
		Posts:  [][2]string{{"/metrics", "x"}},
	}
	return all
}

// TestGuardedServers: a server that is new must be attacked, too.
func TestGuardedServers(t *testing.T) {
	tree, err := house.Load(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	var made []string
	for _, file := range house.Guarded(tree) {
		if dir := path.Dir(file); !slices.Contains(made, dir) {
			made = append(made, dir)
		}
	}
	slices.Sort(made)
	if have := slices.Sorted(maps.Keys(targets(t, "http://friend.example"))); !slices.Equal(made, have) {
		t.Errorf("guards are made in %v, and the servers of %v are attacked by the tests of this file", made, have)
	}
}

// TestPagesOfOthers sends what a page's browser would send, in all ways that a browser
// marks it: every server refuses it, and nothing changes.
func TestPagesOfOthers(t *testing.T) {
	marks := [][2]string{{"Origin", "http://evil.example"},
		{"Origin", "null"},
		{"Origin", "http://127.0.0.1:1"},
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Host", "evil.example"}, {"Host", "evil"}, {"Host", "127.0.0.1.evil.example"}, {"Host", "10.0.0.1"}}
	for name, x := range targets(t, "http://friend.example") {
		before := x.state(t)
		for _, mark := range marks {
			try := func(method, path, body string) {
				r, err := http.NewRequest(method, x.Base+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", "application/json")
				if r.Header.Set(mark[0], mark[1]); mark[0] == "Host" {
					r.Host = mark[1]
				}
				resp, err := http.DefaultTransport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s: %s %s with %s: %s %v", name, method, path, mark, resp.Status, resp.Header)
				}
			}
			for _, p := range x.Gets {
				try("GET", p, "")
				try("OPTIONS", p, "")
			}
			for _, p := range x.Posts {
				try("POST", p[0], p[1])
			}
		}
		if after := x.state(t); after != before {
			t.Errorf("%s: was\n%s\nis\n%s", name, before, after)
		}
	}
}

// TestChromiumAttack opens a hostile page in a real browser: it changes nothing on any of
// our servers and reads nothing, neither from its own origin nor from another name
// that leads to them. A server without a guard shows that the attack is one; a page of a
// listed origin may read and post.
func TestChromiumAttack(t *testing.T) {
	program := os.Getenv("HERMES_TEST_CHROMIUM")
	if program == "" {
		t.Skip("no browser: HERMES_TEST_CHROMIUM is not set (make pages)")
	}
	page, err := os.ReadFile("testdata/attack.html")
	if err != nil {
		t.Fatal(err)
	}
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write(page)
	}))
	defer evil.Close()
	var hits atomic.Int64
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // as run-api was
		hits.Add(1)
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", "content-type")
		io.WriteString(w, `{"status":"read"}`)
	}))
	defer open.Close()
	port := evil.URL[strings.LastIndexByte(evil.URL, ':'):]
	friend := "http://friend.example" + port
	all := targets(t, friend)

	ctx, end := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.DisableGPU,
		chromedp.NoSandbox,
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1"))...) // the page is our own; as root there is no sandbox
	defer end()
	ctx, endTab := chromedp.NewContext(ctx)
	defer endTab()
	eval := func(expression string) string {
		t.Helper()
		text, err := chromedp.Run(ctx, chromedp.Evaluate[string](expression))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	until := func(expression string) {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for wait := time.After(3 * time.Minute); ; {
			if eval("String(!!("+expression+"))") == "true" {
				return
			}
			select {
			case <-tick.C:
			case <-wait:
				t.Fatalf("%s: never true", expression)
			}
		}
	}
	// attack opens the page under an origin and gives what it could read.
	attack := func(origin string, list ...target) (reads []string) {
		t.Helper()
		b, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(origin+"/#"+url.PathEscape(string(b)))); err != nil {
			t.Fatal(err)
		}
		until("window.done")
		if err := json.Unmarshal([]byte(eval("JSON.stringify(window.reads)")), &reads); err != nil {
			t.Fatal(err)
		}
		return reads
	}

	bare := target{Base: open.URL, Gets: []string{"/reset_data"}, Posts: [][2]string{{"/scored_data", pageGroup}}}
	if reads := attack("http://evil.example"+port, bare); len(reads) < 5 || hits.Load() < 15 {
		t.Fatalf("the attack is none: a server without a guard was asked %d times and read %q", hits.Load(), reads)
	}
	for name, x := range all {
		before := x.state(t)
		byName := x
		byName.Base = strings.Replace(x.Base, "127.0.0.1", "localhost", 1)
		for _, origin := range []string{"http://evil.example" + port, "http://127.0.0.1" + port, "http://localhost" + port} {
			if reads := attack(origin, x, byName); len(reads) > 0 {
				t.Errorf("%s: a page of %s could read %q", name, origin, reads)
			}
		}
		// DNS rebinding: what the server says under a name of the page's is of the page's origin.
		rebound := strings.Replace(x.Base, "127.0.0.1", "rebound.example", 1)
		for _, p := range x.Gets {
			if err := chromedp.Do(ctx, chromedp.Navigate(rebound+p)); err != nil {
				t.Fatal(err)
			}
			if said := eval("document.body.innerText"); !strings.Contains(said, "is no name of this server") &&
				!strings.Contains(said, "by a loopback address") {
				t.Errorf("%s under another name: %q", rebound+p, said)
			}
		}
		mine, err := json.Marshal(x.Posts)
		if err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(ctx, chromedp.Navigate(rebound+"/healthz")); err != nil {
			t.Fatal(err)
		}
		eval(`(async () => { window.got = ""; for (const [p, body] of ` + string(mine) + `) { const a = await fetch(p, {method: "POST", body, headers: {"Content-Type": "application/json"}}); if (a.ok) window.got += p + await a.text(); } window.done = true })(), ""`)
		until("window.done")
		if got := eval("window.got"); got != "" {
			t.Errorf("%s: posts under another name were taken: %s", name, got)
		}
		if after := x.state(t); after != before {
			t.Errorf("%s: a page has changed\n%s\nto\n%s", name, before, after)
		}
	}
	// A listed page reads and posts, and still no link of it resets anything.
	x := all["cmd"]
	x.Gets, x.Posts = []string{
		"/status",
		"/reset_data",
		"/batch",
	}, [][2]string{{"/scored_data", `{"tokens":[[6,6],[6,7]],"masks":[[6,6],[6,7]],"scores":[1,0],"env_id":0}`}}
	reads := strings.Join(attack(friend, x), "\n")
	if !strings.Contains(reads, `"queue_size":1`) || !strings.Contains(reads, `post as application/json`) || strings.Contains(reads, "Reset successful") ||
		strings.Contains(reads, "/batch: ") {
		t.Errorf("a listed page read %q", reads)
	}
	if status := x.state(t); !strings.Contains(status, `"current_step":0`) && !strings.Contains(status, fmt.Sprint("hermes_run_api_batches_total ", 0)) {
		t.Error(status)
	}
}

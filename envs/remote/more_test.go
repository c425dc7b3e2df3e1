package remote_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/envs/remote"
	"hermes/rollout/play"
	"hermes/rollout/play/playtest"
	"hermes/trajectory"
)

// TestAtropos wraps a class in the style of Atropos that talks for two turns.
func TestAtropos(t *testing.T) {
	t.Parallel()
	e := open(t, remote.Config{Command: python(t, "testdata/arithmetic.py"), Workers: 2})
	list := rows(t, e, envs.Train, 0)
	if len(list) != 5 {
		t.Fatalf("%d rows", len(list))
	}
	task, err := e.Task(list[2])
	if err != nil {
		t.Fatal(err)
	}
	if m := task.Messages; len(m) != 2 || m[0].Content() != "Answer with a number." || m[1].Content() != "What is 12 + 12?" {
		t.Errorf("opening %+v", m)
	}
	for answers, want := range map[string]float64{"24 24": 1, "23 24": 1, "24 23": -1} {
		var turns []trajectory.Message
		for _, a := range strings.Fields(answers) {
			turns = append(turns, trajectory.Text(trajectory.Assistant, a))
		}
		rec, err := play.Player{}.Play(t.Context(), e, list[2], 0, turns)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Score == nil || rec.Score.Reward != want || rec.Trace.Turns() != 2 {
			t.Errorf("%s: score %v after %d turns (%s), want %v", answers, rec.Score, rec.Trace.Turns(), rec.Reason, want)
		}
	}
	rec, err := play.Player{Turns: 1}.Play(t.Context(), e, list[2], 0, []trajectory.Message{trajectory.Text(trajectory.Assistant, "24")})
	if err != nil || rec.Score != nil || !strings.Contains(rec.Reason, "dropped the sample") {
		t.Errorf("a sample that the environment drops: %v %v %v", rec.Score, rec.Reason, err)
	}
}

// TestNothingIsLeft has a program that does not end by itself, nor when its stdin does.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"closed", "killed"} {
		t.Run(how, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			address := "tcp:" + l.Addr().String()
			if how == "closed" {
				e, err := remote.Open(t.Context(), remote.Config{Command: program(t, "deaf", address), Workers: 1})
				if err != nil {
					t.Fatal(err)
				}
				if err := e.(io.Closer).Close(); err != nil {
					t.Fatal(err)
				}
			} else {
				self, err := os.Executable()
				if err != nil {
					t.Fatal(err)
				}
				host := exec.Command(self, "-test.run=^TestHost$", "-host="+address)
				out, err := host.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := host.Start(); err != nil {
					t.Fatal(err)
				}
				if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
					t.Fatalf("%q, %v", line, err)
				}
				if err := host.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = host.Wait() // it was killed
			}
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("it said something")
			} // returns when the program is gone; a program that stays has the test hang
		})
	}
}

// TestHost is the program that is killed in TestNothingIsLeft.
func TestHost(t *testing.T) {
	if *host == "" {
		t.Skip("started by TestNothingIsLeft alone")
	}
	open(t, remote.Config{Command: program(t, "deaf", *host), Workers: 1})
	fmt.Println("open")
	select {}
}

// TestOverHTTP runs the whole environment of testdata behind its own HTTP server.
func TestOverHTTP(t *testing.T) {
	t.Parallel()
	argv := append(python(t, "testdata/vault.py"), "--http", "0")
	server := exec.Command(argv[0], argv[1:]...)
	errs, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	lines, url := bufio.NewScanner(errs), ""
	for url == "" && lines.Scan() {
		_, url, _ = strings.Cut(lines.Text(), "listening on ")
	}
	go func() {
		for lines.Scan() {
		}
	}()
	e := open(t, remote.Config{URL: url, Settings: map[string]any{"size": 2}})
	envtest.Run(t, e, playtest.New(t), envtest.Options{Rows: 1, Repeats: 2})
}

func TestHTTPMisbehaves(t *testing.T) {
	tries := atomic.Int64{}
	answers := map[string]func(w http.ResponseWriter, id int64){
		"garbage": func(w http.ResponseWriter, _ int64) { fmt.Fprint(w, "<html>hello</html>\n") },
		"other": func(w http.ResponseWriter, id int64) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":1}`+"\n", id+1)
		},
		"cut off": func(w http.ResponseWriter, _ int64) { fmt.Fprint(w, `{"jsonrpc":"2.0",`) },
		"500":     func(w http.ResponseWriter, _ int64) { http.Error(w, "out of memory", http.StatusInternalServerError) },
		"redirects": func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusFound)
		},
		"long": func(w http.ResponseWriter, id int64) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":{"reward":1,"detail":"%s"}}`+"\n", id, strings.Repeat("x", 1<<17))
		},
		"503 once": func(w http.ResponseWriter, id int64) {
			if tries.Add(1) == 1 {
				http.Error(w, "later", http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":1}`+"\n", id)
		},
	}
	for how, want := range map[string]string{
		"garbage":   "no message of the protocol",
		"other":     "when it was asked",
		"cut off":   "lost",
		"500":       `500 Internal Server Error: "out of memory`,
		"redirects": "302 Found",
		"long":      "more than 65536 bytes",
		"503 once":  "",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var q struct {
					ID     int64  `json:"id"`
					Method string `json:"method"`
				}
				if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "application/x-ndjson")
				switch q.Method {
				case "initialize":
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":{"protocol":1,"name":"web"}}`+"\n", q.ID)
				case "rows":
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":{"rows":[{"prompt":"p"}]}}`+"\n", q.ID)
				default:
					answers[how](w, q.ID)
				}
			}))
			t.Cleanup(srv.Close)
			e := open(t, remote.Config{URL: srv.URL, MaxMessage: 64 << 10})
			s, err := scoreOnce(t, e, "x")
			if want == "" && (err != nil || s.Reward != 1) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, %v: want %q", s, err, want)
			}
		})
	}
}

func TestChecker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "rows.jsonl")
	if err := os.WriteFile(data, []byte(`{"id":"a","prompt":"Say 7.","answer":"7","level":3}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := func(text string) []string { return []string{"sh", "-c", text} }
	for _, tt := range []struct {
		name    string
		command []string
		reward  float64
		metrics map[string]float64
		want    string
	}{
		{
			name:    "booleans beside the reward",
			command: sh(`echo '{"reward": 0.5, "rewards": {"style": true}, "metrics": {"first": false, "clean": true, "tries": 3}}'`),
			reward:  0.5,
			metrics: map[string]float64{"first": 0, "clean": 1, "tries": 3},
		},
		{name: "a text among the metrics", command: sh(`echo '{"reward": 0.5, "metrics": {"first": "no"}}'`), want: "first"},
		{name: "number", command: sh(`cat >/dev/null; echo looking; echo 0.25`), reward: 0.25},
		{name: "reward line", command: sh(`echo reward: -1`), reward: -1},
		{name: "object", command: sh(`echo '{"reward": 0.5, "rewards": {"style": 1}}'`), reward: 0.5},
		{name: "sees the episode", command: sh(`grep -q '"answer":"yes"' && echo 1`), reward: 1},
		{name: "nothing", command: sh(`true`), want: "no reward"},
		{name: "exit code", command: sh(`echo 1; echo broken >&2; exit 4`), want: "exit status 4"},
		{name: "text", command: sh(`echo fine`), want: `no reward: "fine"`},
		{name: "hang", command: sh(`sleep 1000 & wait`), want: "did not end within 300ms and was killed"},
		{name: "flood", command: sh(`yes 1`), want: "printed more than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := remote.Config{Checker: tt.command, Dataset: data, Workers: 2, Timeout: time.Minute}
			if tt.name == "hang" {
				c.Timeout = 300 * time.Millisecond
			}
			e := open(t, c)
			s, err := scoreOnce(t, e, "yes")
			if tt.want == "" && (err != nil || s.Reward != tt.reward || tt.metrics != nil && !maps.Equal(s.Metrics, tt.metrics)) ||
				tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, %v: want %v %q", s, err, tt.reward, tt.want)
			}
		})
	}
	e := open(t, remote.Config{Checker: sh(`cat >` + filepath.Join(dir, "seen") + `; echo 1`), Dataset: data})
	if _, err := scoreOnce(t, e, "yes"); err != nil {
		t.Fatal(err)
	}
	var seen struct {
		ID  string
		Row struct {
			Prompt, Answer string
			Level          int
		}
		Answer   string
		Messages []struct{ Role, Content string }
		Stop     struct{ Reason string }
	}
	raw, err := os.ReadFile(filepath.Join(dir, "seen"))
	if err == nil {
		err = json.Unmarshal(raw, &seen)
	}
	if err != nil || seen.ID != "a" || seen.Row.Prompt != "Say 7." || seen.Row.Answer != "7" || seen.Row.Level != 3 || seen.Answer != "yes" ||
		len(seen.Messages) != 2 || seen.Stop.Reason == "" {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestStderrIsBounded counts what a program that writes millions of bytes puts into the log.
func TestStderrIsBounded(t *testing.T) {
	t.Parallel()
	e := open(t, remote.Config{Command: program(t, "flood"), Workers: 1})
	var mu sync.Mutex
	var log strings.Builder
	e.(interface{ LogTo(*slog.Logger) }).LogTo(slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(b)
	}), nil)))
	if _, err := scoreOnce(t, e, "x"); err != nil {
		t.Fatal(err)
	}
	if err := e.(io.Closer).Close(); err != nil { // the program is gone, all of its stderr is read
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if n := strings.Count(log.String(), "\n"); n != 1000 || !strings.Contains(log.String(), "no more of them are shown") || log.Len() > 1<<20 {
		t.Errorf("%d lines, %d bytes", n, log.Len())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func TestNamed(t *testing.T) {
	for name, want := range map[string]string{
		"cmd:python3 my_env.py --level 3": "[python3 my_env.py --level 3]  my_env",
		`cmd:node "a b/my env.js"`:        "[node a b/my env.js]  my_env",
		"./my_env.py":                     "[python3 ./my_env.py]  my_env",
		"my_env.js":                       "[node ./my_env.js]  my_env",
		"./envs/x.go":                     "[go run ./envs/x.go]  x",
		"/opt/game":                       "[/opt/game]  game",
		"http://127.0.0.1:8080/env":       "[] http://127.0.0.1:8080/env 127.0.0.1-8080",
		"https://envs.example.org/a":      "[] https://envs.example.org/a envs.example.org",
		"cmd:":                            "there is no command",
		"cmd:python3 'x":                  "a quote ' is not closed",
		"procedural":                      "",
	} {
		c, stem, ok, err := remote.Named(name)
		got := ""
		if ok {
			got = fmt.Sprint(c.Command, " ", c.URL, " ", stem)
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// TestManyAtOnce has eight workers answer requests from many goroutines.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	e := open(t, remote.Config{Command: program(t, "well"), Workers: 8})
	task, err := e.Task(rows(t, e, envs.Train, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	ep := said(t, "x")
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 20 {
				if s, err := e.Score(t.Context(), task, envs.World{State: &envs.State{}}, ep); err != nil || s.Reward != 1 {
					t.Errorf("%v %v", s, err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkScore scores short episodes with a Python environment of two workers, 64
// rollouts at once.
func BenchmarkScore(b *testing.B) {
	e := open(b, remote.Config{Command: python(b, "examples/hello.py"), Workers: 2})
	task, err := e.Task(rows(b, e, envs.Train, 1)[0])
	if err != nil {
		b.Fatal(err)
	}
	ep := said(b, "hello")
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if s, err := e.Score(b.Context(), task, envs.World{State: &envs.State{}}, ep); err != nil || s.Reward != 1 {
				b.Errorf("%v %v", s, err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "scores/s")
}

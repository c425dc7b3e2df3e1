package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/datasets"
	"hermes/envs"
	"hermes/envs/envtest"
	"hermes/envs/remote"
	"hermes/rollout/play"
	"hermes/rollout/play/playtest"
	"hermes/trajectory"
)

func open(t testing.TB, c remote.Config) envs.Bundled {
	t.Helper()
	e, err := remote.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// have skips where an interpreter is missing.
func have(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
}

// python writes hermes_env.py and hermes_atropos.py beside a file of testdata or the examples and returns the
// command that runs it.
func python(t testing.TB, file string) []string {
	t.Helper()
	have(t, "python3")
	dir := t.TempDir()
	for _, from := range []string{"../../python/hermes_env.py", "../../python/hermes_atropos.py", file} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(from)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"python3", filepath.Join(dir, filepath.Base(file))}
}

func rows(t testing.TB, e envs.Bundled, split envs.Split, limit int64) []datasets.Row {
	t.Helper()
	list, err := read(t.Context(), e, split, limit)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func read(ctx context.Context, e envs.Bundled, split envs.Split, limit int64) (out []datasets.Row, err error) {
	d, err := e.Rows(ctx, split, datasets.Options{Limit: limit})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for row, err := range d.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, nil
}

// said is an episode of one answer.
func said(t testing.TB, text string) envs.Episode {
	t.Helper()
	tr := trajectory.New(trajectory.ModeText, nil)
	_, err := tr.Commit(trajectory.Turn{Given: []trajectory.Delta{{Message: trajectory.Text(trajectory.User, "p")}},
		Sampled: trajectory.Delta{Message: trajectory.Text(trajectory.Assistant, text)}, Finish: trajectory.FinishStop})
	if err != nil {
		t.Fatal(err)
	}
	return envs.Episode{Trace: tr, Stop: trajectory.Stop{Reason: trajectory.StopAnswer}}
}

func scoreOnce(t testing.TB, e envs.Bundled, text string) (trajectory.Score, error) {
	t.Helper()
	list, err := read(t.Context(), e, envs.Train, 1)
	if err != nil {
		return trajectory.Score{}, err
	}
	task, err := e.Task(list[0])
	if err != nil {
		return trajectory.Score{}, err
	}
	return e.Score(t.Context(), task, envs.World{State: &envs.State{}}, said(t, text))
}

func TestHelloInEveryLanguage(t *testing.T) {
	commands := map[string]func(t *testing.T, file string) []string{
		"python":     func(t *testing.T, file string) []string { have(t, "python3"); return []string{"python3", file} },
		"javascript": func(t *testing.T, file string) []string { have(t, "node"); return []string{"node", file} },
		"shell":      func(t *testing.T, file string) []string { have(t, "sh"); return []string{"sh", file} },
		"go": func(t *testing.T, file string) []string {
			have(t, "go")
			out := strings.TrimSuffix(file, ".go")
			if b, err := exec.Command("go", "build", "-o", out, file).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, b)
			}
			return []string{out}
		},
	}
	for _, language := range remote.Languages() {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			files, main, err := remote.Files(language, "hello")
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			lines := 0
			for line := range strings.Lines(files[main]) {
				if strings.TrimSpace(line) != "" {
					lines++
				}
			}
			if lines > 15 {
				t.Errorf("%s has %d lines", main, lines)
			}
			e := open(t, remote.Config{Command: commands[language](t, filepath.Join(dir, main)), Workers: 2})
			envtest.Run(t, e, play.Player{}, envtest.Options{Rows: 1, Repeats: 2}, "hidden")
		})
	}
}

func TestEverything(t *testing.T) {
	t.Parallel()
	e := open(t, remote.Config{Command: python(t, "testdata/vault.py"), Workers: 2, Settings: map[string]any{"size": 3}})
	envtest.Run(t, e, playtest.New(t), envtest.Options{Rows: 2, Repeats: 3})
	if got := len(rows(t, e, envs.Eval, 0)); got != 3 {
		t.Errorf("%d rows with size: 3", got)
	}
	scores := []trajectory.Score{{Reward: 1}, {Reward: 0}}
	task, err := e.Task(rows(t, e, envs.Train, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := e.(envs.GroupScorer).ScoreGroup(t.Context(), task, []envs.Episode{
		said(t, "a"),
		said(t, "b"),
	}, scores); err != nil || scores[0].Reward != 1 || scores[1].Reward != 0.1 {
		t.Errorf("group: %v, %v", scores, err)
	}
	if id := e.(interface{ Identity() string }).Identity(); !strings.HasPrefix(id, "remote vault 1.2 ") {
		t.Error(id)
	}
}

func TestMisbehaviour(t *testing.T) {
	for _, tt := range []struct {
		how  string
		want string // of the error; "" for a score of 1
		not  string
	}{
		{how: "well", want: ""},
		{how: "crash", want: "worker 1 ended (exit status 139) with 1 requests unanswered; the end of its stderr:\nsegmentation fault, so to say"},
		{how: "hang", want: "did not answer score within 8s and was killed"},
		{
			how:  "garbage",
			want: `its stdout holds a line that is no message of the protocol (invalid character 'E' looking for beginning of value): "Epoch 1/10: loss 0.3"; what is meant for people belongs on stderr`,
		},
		{how: "unasked", want: "it answered a request that it was never asked"},
		{how: "nan", want: `"result":{"reward":NaN}}: NaN and Infinity are no JSON`},
		{how: "infinite", want: "1e999"},
		{how: "wordy", want: "it wrote a message of more than 65536 bytes (setting max-message)"},
		{how: "raise", want: "the environment's score: KeyError: 'x'\nline 7"},
		{how: "none", want: "there is no reward"},
		{how: "text", want: `answered "good"`},
		{how: "unscored", want: "nothing to judge"},
		{how: "flood", want: ""},
		{how: "asks for boxes", want: ""},
	} {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			c := remote.Config{Command: program(t, tt.how), Workers: 1, MaxMessage: 64 << 10, Timeout: time.Minute}
			if tt.how == "hang" {
				c.Timeout = 8 * time.Second // the program must have begun
			}
			e := open(t, c)
			s, err := scoreOnce(t, e, "hello")
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.how == "asks for boxes":
				if !strings.Contains(s.Detail, "has no box") || !strings.Contains(s.Detail, `no method \"box/fly\"`) {
					t.Error(s.Detail)
				}
			case tt.want == "" && s.Reward != 1:
				t.Errorf("reward %v", s.Reward)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v %v, want an error with %q", s, err, tt.want)
			case tt.want != "" && !errors.Is(err, envs.ErrFailed):
				t.Errorf("%v is not the environment's", err)
			case err != nil && len(err.Error()) > 10_000:
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if errors.Is(err, envs.ErrUnscored) != (tt.how == "unscored") {
				t.Error("unscored:", err)
			}
		})
	}
}

// TestAnswersTwice: of a request that is answered twice neither answer counts, and those
// that the same worker was asked meanwhile are asked again: one fault costs one sample.
func TestAnswersTwice(t *testing.T) {
	t.Parallel()
	e := open(t, remote.Config{Command: program(t, "twice for x"), Workers: 1})
	const others = 3
	var all sync.WaitGroup
	for range others {
		all.Go(func() {
			if s, err := scoreOnce(t, e, "y"); err != nil || s.Reward != 1 {
				t.Errorf("another sample: %v %v", s, err)
			}
		})
	}
	for range 5 {
		if s, err := scoreOnce(t, e, "x"); err == nil || !errors.Is(err, envs.ErrFailed) ||
			!strings.Contains(err.Error(), "twice, so that neither answer can be trusted") {
			t.Errorf("%v %v", s, err)
		}
		if s, err := scoreOnce(t, e, "y"); err != nil || s.Reward != 1 {
			t.Errorf("the sample after it: %v %v", s, err)
		}
	}
	all.Wait()
}

// TestAnswersTwiceLate: a second answer that comes when the first was believed is never
// taken for that of another request.
func TestAnswersTwiceLate(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "once")
	e := open(t, remote.Config{Command: program(t, "the last one again", mark), Workers: 1})
	for i := range 6 {
		if s, err := scoreOnce(t, e, fmt.Sprint("answer ", i)); err != nil || s.Reward != 1 {
			t.Errorf("sample %d: %v %v", i, s, err)
		}
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error("it did not answer twice:", err)
	}
}

// TestWebAnswersTwice: the same over HTTP.
func TestWebAnswersTwice(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     int
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		say := func(result string) { fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"result":%s}`+"\n", m.ID, result) }
		switch m.Method {
		case "initialize":
			say(`{"protocol":1,"name":"web"}`)
		case "rows":
			say(`{"rows":[{"id":"1","prompt":"p"}]}`)
		default:
			say("1")
			say("0")
		}
	}))
	defer srv.Close()
	e := open(t, remote.Config{URL: srv.URL})
	if s, err := scoreOnce(t, e, "x"); err == nil || !strings.Contains(err.Error(), "went on, so that the answer cannot be trusted") {
		t.Errorf("%v %v", s, err)
	}
}

// TestCrashIsMended has a worker crash once: the request is sent again, to a new worker, and
// that is logged.
func TestCrashIsMended(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "crashed")
	e := open(t, remote.Config{Command: program(t, "crash once", mark), Workers: 1})
	var log bytes.Buffer
	e.(interface{ LogTo(*slog.Logger) }).LogTo(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	defer func() {
		if !strings.Contains(log.String(), "worker 1 is started again") {
			t.Errorf("nothing was logged: %q", &log)
		}
	}()
	if s, err := scoreOnce(t, e, "x"); err != nil || s.Reward != 1 {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error("it did not crash:", err)
	}
}

// TestVoid plays a rollout whose scorer fails: it is the environment's failure, never a
// reward.
func TestVoid(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"crash", "nan", "infinite", "raise", "garbage"} {
		e := open(t, remote.Config{Command: program(t, how), Workers: 1})
		rec, err := play.Player{}.Play(t.Context(), e, rows(t, e, envs.Train, 1)[0], 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Outcome != trajectory.Environment || rec.Score != nil {
			t.Errorf("%s: outcome %s, score %v", how, rec.Outcome, rec.Score)
		}
	}
}

// TestToolCrashes has a tool of the environment crash, which is not asked again.
func TestToolCrashes(t *testing.T) {
	t.Parallel()
	e := open(t, remote.Config{Command: program(t, "crashing tool"), Workers: 1})
	turn := trajectory.Message{Role: trajectory.Assistant, Calls: []trajectory.Call{{Name: "dial", Arguments: "{}"}}}
	rec, err := play.Player{}.Play(t.Context(), e, rows(t, e, envs.Train, 1)[0], 0, []trajectory.Message{turn})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Outcome != trajectory.Environment || rec.Cause != "tool" || rec.Score != nil || !strings.Contains(rec.Reason, "exit status 9") {
		t.Errorf("outcome %s.%s, score %v: %s", rec.Outcome, rec.Cause, rec.Score, rec.Reason)
	}
}

// TestOneByOne has a program take thirty requests and do them one after the other, which
// takes longer than one of them may. A machine that pauses for as long as one may take gets more
// time for each.
func TestOneByOne(t *testing.T) {
	t.Parallel()
	for takes := 100 * time.Millisecond; ; takes *= 4 {
		err := oneByOne(t, takes)
		if err == nil {
			return
		}
		if takes > time.Second {
			t.Fatal(err)
		}
		t.Log(err)
	}
}

// oneByOne asks thirty times at once, of which each may take 25 times what the program needs.
func oneByOne(t *testing.T, takes time.Duration) error {
	e, err := remote.Open(t.Context(), remote.Config{Command: program(t, "one by one", takes.String()), Workers: 1, Timeout: 25 * takes})
	if err != nil {
		return err
	}
	errs := make([]error, 30)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = scoreOnce(t, e, "x") })
	}
	wg.Wait()
	return errors.Join(append(errs, e.(io.Closer).Close())...)
}

func TestBadStart(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		c    remote.Config
		want string
	}{
		{remote.Config{Command: program(t, "old")}, "speaks version 0 of the protocol, this hermes version 1"},
		{remote.Config{Command: program(t, "nameless")}, "has no name"},
		{remote.Config{Command: program(t, "abilities")}, `unknown ability "fly"`},
		{remote.Config{Command: program(t, "bad start")}, "no module named numpy"},
		{remote.Config{Command: program(t, "late greeting"), Timeout: 200 * time.Millisecond}, "did not answer initialize within 200ms"},
		{remote.Config{Command: []string{"no-such-program-here"}}, "no-such-program-here"},
		{remote.Config{}, "want exactly one"},
		{remote.Config{Command: []string{"true"}, URL: "http://127.0.0.1"}, "2 of command, url and checker"},
		{remote.Config{Checker: []string{"true"}}, "set dataset"},
		{remote.Config{Command: []string{"true"}, Workers: 1000}, "workers 1000"},
		{remote.Config{URL: "http://example.com/env"}, "want https://…, or http:// with a host of the loopback"},
		{remote.Config{URL: "https://user:secret@example.com/env"}, "holds a user or password"},
	} {
		e, err := remote.Open(t.Context(), tt.c)
		if err == nil {
			e.(io.Closer).Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "user:secret") {
			t.Errorf("%+v: got %v, want %q", tt.c, err, tt.want)
		}
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	e := open(t, remote.Config{Command: program(t, "hang"), Workers: 1})
	task, err := e.Task(rows(t, e, envs.Train, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	over := errors.New("the run is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go cancel(over)
	if _, err := e.Score(ctx, task, envs.World{State: &envs.State{}}, said(t, "x")); !errors.Is(err, over) {
		t.Error(err)
	}
}

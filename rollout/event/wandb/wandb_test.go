package wandb_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hermes/rollout/event/wandb"
	"hermes/rollout/event/wandb/wandbtest"
)

// key has the length that W&B's own client demands.
const key = "0123456789abcdef0123456789abcdef01234567"

var begun = time.Unix(1_700_000_000, 0)

func info() wandb.Info {
	return wandb.Info{ID: "abcd1234", Project: "tests", Name: "a run", Group: "g", Tags: []string{"x", "y"}, JobType: "eval", Version: "1",
		Config: map[string]any{"model": "m", "temperature": 0.5, "note": strings.Repeat("long ", 20_000)}, Started: begun, Host: "machine"}
}

func open(t *testing.T, dir string, o wandb.Options) *wandb.Run {
	t.Helper()
	o.Now = func() time.Time { return begun.Add(time.Minute) }
	r, err := wandb.Open(t.Context(), dir, info(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func online(s *wandbtest.Server) wandb.Options {
	return wandb.Options{Online: &wandb.Server{URL: s.URL, Key: key}, Pause: time.Millisecond, Tries: 3, Linger: time.Minute, Timeout: time.Minute}
}

// logSome tells three rows; what is no number and what comes late is put right.
func logSome(r *wandb.Run) {
	r.Log(1, map[string]float64{"reward/mean": 0.25, "bad": math.NaN()})
	r.Log(1, map[string]float64{"turns/mean": 2})
	r.Log(10, map[string]float64{"reward/mean": 0.5})
	r.Log(12, map[string]float64{"reward/mean": 0.75})
	r.Log(3, map[string]float64{"eval/s/pass@1": 1})
}

// records reads a .wandb file back by the description of its format.
func records(t *testing.T, name string) (list [][]byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(b[:4]) != ":W&B" || binary.LittleEndian.Uint16(b[4:]) != 0xBEE1 || b[6] != 0 {
		t.Fatalf("header % x", b[:7])
	}
	var part []byte
	for at := 7; at < len(b); {
		if left := 32<<10 - at%(32<<10); left < 7 {
			at += left
			continue
		}
		n, kind := int(binary.LittleEndian.Uint16(b[at+4:])), b[at+6]
		if crc32.ChecksumIEEE(b[at+6:at+7+n]) != binary.LittleEndian.Uint32(b[at:]) {
			t.Fatalf("checksum at %d", at)
		}
		if at/(32<<10) != (at+6+n)/(32<<10) {
			t.Fatalf("the chunk at %d crosses a block", at)
		}
		part = append(part, b[at+7:at+7+n]...)
		at += 7 + n
		if kind == 1 || kind == 4 {
			list, part = append(list, part), nil
		}
	}
	return list
}

func TestOfflineFile(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir, wandb.Options{})
	logSome(r)
	if err := r.Close(3); err != nil {
		t.Fatal(err)
	}
	r.Log(20, map[string]float64{"late": 1}) // after Close: it is dropped
	if got, want := r.Dir(), filepath.Join(dir, "wandb", "offline-run-20231114_221420-abcd1234"); got != want {
		t.Errorf("dir %s, want %s", got, want)
	}
	list := records(t, filepath.Join(r.Dir(), "run-abcd1234.wandb"))
	if len(list) != 7 { // header, run, three rows, summary, exit
		t.Fatalf("%d records", len(list))
	}
	for i, want := range []string{"hermes 1", "a run", "turns/mean", "reward/mean", "eval/s/pass@1", "eval/s/pass@1", ""} {
		if !strings.Contains(string(list[i]), want) {
			t.Errorf("record %d: %.200q", i, list[i])
		}
	}
	if strings.Contains(string(list[2]), "bad") || !strings.Contains(string(list[2]), "0.25") {
		t.Errorf("first row %q", list[2])
	}
	again := open(t, dir, wandb.Options{})
	if again.Dir() == r.Dir() {
		t.Error("a second start writes into the folder of the first")
	}
	if err := again.Close(0); err != nil {
		t.Fatal(err)
	}
}

// Records of every length around the blocks' ends come back whole.
func TestChunksAtTheEndsOfBlocks(t *testing.T) {
	for pad := range 40 {
		i := info()
		i.Config = map[string]any{"pad": strings.Repeat("x", 32<<10-180+pad)}
		r, err := wandb.Open(t.Context(), t.TempDir(), i, wandb.Options{Now: func() time.Time { return begun }})
		if err != nil {
			t.Fatal(err)
		}
		r.Log(1, map[string]float64{"a": 1})
		if err := r.Close(0); err != nil {
			t.Fatal(err)
		}
		if list := records(t, filepath.Join(r.Dir(), "run-abcd1234.wandb")); len(list) != 5 || !strings.Contains(string(list[2]), "_step") {
			t.Fatalf("pad %d: %d records", pad, len(list))
		}
	}
}

func theRun(t *testing.T, s *wandbtest.Server) wandbtest.Run {
	t.Helper()
	r, ok := s.Runs()["tester/tests/abcd1234"]
	if !ok || len(s.Runs()) != 1 {
		t.Fatalf("runs %v", s.Runs())
	}
	return r
}

func checkHistory(t *testing.T, got wandbtest.Run) {
	t.Helper()
	if len(got.History) != 3 || got.History[0]["turns/mean"] != 2.0 || got.History[2]["reward/mean"] != 0.75 || got.History[2]["eval/s/pass@1"] != 1.0 ||
		got.History[1]["_step"] != 10.0 || got.History[0]["_runtime"] != 60.0 {
		t.Errorf("history %v", got.History)
	}
	if got.Summary["reward/mean"] != 0.75 || got.Summary["turns/mean"] != 2.0 {
		t.Errorf("summary %v", got.Summary)
	}
}

func TestOnline(t *testing.T) {
	s := wandbtest.New(t, key)
	var broke atomic.Int32
	s.Break(func(r *http.Request) int { // each request of the stream fails twice
		if strings.HasSuffix(r.URL.Path, "file_stream") && broke.Add(1)%3 != 0 {
			return http.StatusServiceUnavailable
		}
		return 0
	})
	dir := t.TempDir()
	r := open(t, dir, online(s))
	if want := s.URL + "/tester/tests/runs/abcd1234"; r.URL() != want {
		t.Errorf("page %s, want %s", r.URL(), want)
	}
	logSome(r)
	if err := r.Close(3); err != nil {
		t.Fatal(err)
	}
	got := theRun(t, s)
	checkHistory(t, got)
	if !got.Complete || got.Exit == nil || *got.Exit != 3 || got.Vars["displayName"] != "a run" || got.Vars["groupName"] != "g" {
		t.Errorf("%+v", got)
	}
	if !strings.HasPrefix(filepath.Base(r.Dir()), "run-") || len(records(t, filepath.Join(r.Dir(), "run-abcd1234.wandb"))) != 7 {
		t.Errorf("the file of an online run: %s", r.Dir())
	}
	// A second start goes on behind the lines that are there.
	r = open(t, dir, online(s))
	r.Log(20, map[string]float64{"reward/mean": 0.8})
	if err := r.Close(0); err != nil {
		t.Fatal(err)
	}
	if got := theRun(t, s); len(got.History) != 4 || got.History[3]["reward/mean"] != 0.8 || *got.Exit != 0 {
		t.Errorf("after a second start: %+v", got)
	}
}

// While nothing happens the server hears that the run lives.
func TestBeats(t *testing.T) {
	s := wandbtest.New(t, key)
	o := online(s)
	o.Beat = time.Millisecond
	r := open(t, t.TempDir(), o)
	for theRun(t, s).Beats < 3 {
		if t.Context().Err() != nil {
			t.Fatal("no beats")
		}
	}
	if err := r.Close(0); err != nil {
		t.Fatal(err)
	}
}

// A server that is away, ends in the middle, is too slow, or refuses: the run goes on and
// its file is whole.
func TestServerInTrouble(t *testing.T) {
	held := make(chan struct{})
	defer close(held)
	stream := func(code int) func(r *http.Request) int {
		return func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "file_stream") {
				return code
			}
			return 0
		}
	}
	tests := map[string]struct {
		breaks func(r *http.Request) int
		tune   func(o *wandb.Options)
		say    string
	}{
		"away at the start": {breaks: func(*http.Request) int { return 502 }, say: "cannot be reached"},
		"ends":              {breaks: stream(500), say: "wandb sync"},
		"deleted run":       {breaks: stream(410), say: "wandb sync"},
		"key is withdrawn":  {breaks: stream(401), say: "refuses the key"},
		"silent": {breaks: func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "file_stream") {
				select {
				case <-r.Context().Done():
				case <-held:
				}
			}
			return 0
		}, tune: func(o *wandb.Options) { o.Linger = 10 * time.Millisecond }, say: "has not taken everything"},
		"too slow": {breaks: func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "file_stream") {
				select {
				case <-r.Context().Done():
				case <-held:
				}
			}
			return 0
		}, tune: func(o *wandb.Options) { o.Queue = 1 }, say: "too slow"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := wandbtest.New(t, key)
			s.Break(tt.breaks)
			o := online(s)
			if tt.tune != nil {
				tt.tune(&o)
			}
			log, read := logger()
			o.Log = log
			r := open(t, t.TempDir(), o)
			logSome(r)
			want := 7
			if o.Queue == 1 { // more rows than one request takes
				for i := range 1000 {
					r.Log(int64(100+i), map[string]float64{"a": 1})
				}
				want += 1000
			}
			if err := r.Close(0); err != nil {
				t.Fatal(err)
			}
			if list := records(t, filepath.Join(r.Dir(), "run-abcd1234.wandb")); len(list) != want {
				t.Errorf("%d records in the file", len(list))
			}
			if !strings.HasPrefix(filepath.Base(r.Dir()), "offline-run-") {
				t.Errorf("the folder is %s", r.Dir())
			}
			if said := read(); !strings.Contains(said, tt.say) || strings.Contains(said, key) {
				t.Errorf("it said %q", said)
			}
		})
	}
}

func TestWrongKeyIsSaidAtTheStart(t *testing.T) {
	s := wandbtest.New(t, key)
	o := online(s)
	o.Online.Key = strings.Repeat("f", 40)
	_, err := wandb.Open(t.Context(), t.TempDir(), info(), o)
	if !errors.Is(err, wandb.ErrRefused) || strings.Contains(err.Error(), "ffff") {
		t.Fatal(err)
	}
}

// A redirect is not followed: the other server gets no request and no key.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer elsewhere.Close()
	web := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer web.Close()
	r, err := wandb.Open(t.Context(), t.TempDir(), info(), wandb.Options{Online: &wandb.Server{URL: web.URL, Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	if r.URL() != "" || asked.Load() > 0 {
		t.Errorf("page %q, %d requests elsewhere", r.URL(), asked.Load())
	}
	if err := r.Close(0); err != nil {
		t.Fatal(err)
	}
}

func TestNewServer(t *testing.T) {
	for _, bad := range []string{"", "api.wandb.ai", "ftp://x", "https://user@host", "://"} {
		if _, err := wandb.NewServer(bad, key); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := wandb.NewServer("https://api.wandb.ai/", ""); err == nil {
		t.Error("no key was taken")
	}
}

// W&B's own client reads the file and uploads what was logged.
func TestWandbSyncReadsTheFile(t *testing.T) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" || exec.Command(python, "-c", "import wandb").Run() != nil {
		t.Skip("needs ORACLE_PYTHON with the package wandb")
	}
	dir := t.TempDir()
	r := open(t, dir, wandb.Options{})
	logSome(r)
	if err := r.Close(3); err != nil {
		t.Fatal(err)
	}
	s := wandbtest.New(t, key)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, python, "-m", "wandb", "sync", "--yes", r.Dir())
	c.Dir = dir
	c.Env = append(os.Environ(), "WANDB_BASE_URL="+s.URL, "WANDB_API_KEY="+key, "HOME="+dir, "WANDB_ERROR_REPORTING=false")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\nasked %v", err, out, s.Asked())
	}
	got := theRun(t, s)
	checkHistory(t, got)
	if !got.Complete || got.Exit == nil || *got.Exit != 3 || got.Vars["displayName"] != "a run" {
		t.Errorf("%+v\n%s", got, out)
	}
}

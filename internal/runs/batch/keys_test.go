package batch_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hermes/configs"
	"hermes/internal/build"
	"hermes/internal/fakellm"
	"hermes/internal/runs/batch"
	"hermes/internal/runs/rollouts"
	"hermes/internal/settings"
	"hermes/rollout/tool/box"
	"hermes/trajectory/stats"
)

// guarded is a model server that keeps every credential that it was shown.
type guarded struct {
	*fakellm.Server
	url string

	mu   sync.Mutex
	seen []string
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	if a := r.Header.Get("Authorization"); !slices.Contains(g.seen, a) {
		g.seen = append(g.seen, a)
	}
	g.mu.Unlock()
	g.Server.ServeHTTP(w, r)
}

func (g *guarded) keys() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.Sort(g.seen)
	return strings.Join(g.seen, ",")
}

func serve(t *testing.T, o fakellm.Options) *guarded {
	t.Helper()
	s, err := fakellm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{Server: s}
	web := httptest.NewServer(g)
	t.Cleanup(web.Close)
	g.url = web.URL + "/v1"
	return g
}

// roll runs two rows with a rubric through a batch.
func roll(t *testing.T, change func(*settings.Batch)) (stats.Statistics, error) {
	t.Helper()
	return rollTo(t, io.Discard, change)
}

func rollTo(t *testing.T, said io.Writer, change func(*settings.Batch)) (stats.Statistics, error) {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "rows.jsonl")
	if err := os.WriteFile(data, []byte(`{"prompt":"one","rubric":"Right."}`+"\n"+`{"prompt":"two","rubric":"Right."}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := settings.Batch{Datasets: []string{data}}
	b.Backend = "local"
	b.Toolsets = []string{"todo"}
	b.MissingTools = "fail"
	b.Server = "auto"
	b.Affinity = "rollout"
	b.RequestRetries = 0
	b.Out = dir
	b.Rollouts = 1
	b.Concurrency = 2
	b.Faults = "show"
	b.Accept = "all"
	b.Format = []string{"messages"}
	b.FailOnError = "1"
	b.Progress = "none"
	b.Keep = "none"
	b.BadRows = "fail"
	b.APIKeyEnv = []string{"RUN_KEY"}
	b.MaxTurns = 4
	b.ResultChars = 1000
	b.TurnChars = 1000
	change(&b)
	env := map[string]string{"RUN_KEY": "run", "OTHER_KEY": "other", "JUDGE_KEY": "judge"}
	return batch.Run(t.Context(), build.Host{Env: func(n string) string { return env[n] }, Section: func(string) configs.Section { return configs.Section{} },
		In: strings.NewReader(""), Out: io.Discard, Err: said, Version: "test", Backends: build.Backends(nil), Tools: box.Builtin(),
		Handler: func(io.Writer) slog.Handler { return slog.DiscardHandler }}, rollouts.Request{Batch: b})
}

var verdict = []fakellm.Turn{{Content: `{"reason": "so", "score": 1}`, Repeat: true}}

// A key goes to the servers that it is for, and to no other one.
func TestKeysStayAtHome(t *testing.T) {
	for _, bound := range []bool{false, true} {
		broken := serve(t, fakellm.Options{Models: []string{"main"}, Faults: map[string]float64{"500": 1}})
		second := serve(t, fakellm.Options{Models: []string{"second"}})
		wise := serve(t, fakellm.Options{Models: []string{"wise"}, Default: verdict})
		books, err := roll(t, func(b *settings.Batch) {
			b.Model, b.BaseURL = "main", []string{broken.url}
			b.Fallback = []string{"second@" + second.url}
			b.ModelRole = []string{"judge=wise@" + wise.url}
			if bound {
				b.APIKeyEnv = append(b.APIKeyEnv, host(second.url)+"=OTHER_KEY", host(wise.url)+"=JUDGE_KEY")
			}
		})
		if err != nil || books.Accepted != 2 || books.Scored != 2 {
			t.Fatalf("bound %v: %+v, %v", bound, books, err)
		}
		want := [3]string{"Bearer run", "", ""}
		if bound {
			want[1], want[2] = "Bearer other", "Bearer judge"
		}
		if got := [3]string{broken.keys(), second.keys(), wise.keys()}; got != want {
			t.Errorf("bound %v: the servers were shown %q, want %q", bound, got, want)
		}
	}
}

// The run's own server is the same server under another model's name.
func TestKeyOfTheSameServer(t *testing.T) {
	one := serve(t, fakellm.Options{Models: []string{"main", "wise"}, Key: "run", Scripts: []fakellm.Script{{Match: "fair judge", Turns: verdict}}})
	for _, at := range []string{"", "@" + one.url} {
		books, err := roll(t, func(b *settings.Batch) {
			b.Model = "main"
			b.BaseURL = []string{one.url}
			b.ModelRole = []string{"judge=wise" + at}
		})
		if err != nil || books.Scored != 2 {
			t.Errorf("judge%s: %+v, %v", at, books, err)
		}
	}
	if got := one.keys(); got != "Bearer run" {
		t.Errorf("shown %q", got)
	}
	other := serve(t, fakellm.Options{Models: []string{"main"}})
	_, err := roll(t, func(b *settings.Batch) {
		b.Model = "main"
		b.BaseURL = []string{one.url, other.url}
		b.APIKeyEnv = []string{host(one.url) + "=RUN_KEY"}
	})
	if err == nil || !strings.Contains(err.Error(), "other hosts too") || other.keys() != "" {
		t.Errorf("a key bound to one of two hosts: %v, shown %q", err, other.keys())
	}
}

// A fallback is charged at its own price, or at none.
func TestFallbackIsChargedAtItsOwnPrice(t *testing.T) {
	for _, tt := range []struct {
		price []string
		known bool
		least float64
	}{
		{[]string{"1000000,1000000"}, false, 0},
		{[]string{"1000000,1000000", "second=1,1"}, true, 0},
		{[]string{"second=1000000,1000000"}, true, 1},
	} {
		broken := serve(t, fakellm.Options{Models: []string{"main"}, Faults: map[string]float64{"500": 1}})
		second := serve(t, fakellm.Options{Models: []string{"second"}})
		books, err := roll(t, func(b *settings.Batch) {
			b.Model = "main"
			b.BaseURL = []string{broken.url}
			b.Fallback = []string{"second@" + second.url}
			b.Price = tt.price
		})
		if err != nil || books.Accepted != 2 || (books.CostUSD != nil) != tt.known {
			t.Errorf("%v: %+v, %v", tt.price, books, err)
			continue
		}
		if tt.known && (*books.CostUSD < tt.least || tt.least == 0 && *books.CostUSD > 0.1) {
			t.Errorf("%v: the run cost %g dollars", tt.price, *books.CostUSD)
		}
	}
	for _, bad := range [][]string{{"1,2", "3,4"}, {"m=1"}, {"=x"}, {"1,2", "main=3,4"}} {
		main := serve(t, fakellm.Options{Models: []string{"main"}})
		if _, err := roll(t, func(b *settings.Batch) {
			b.Model = "main"
			b.BaseURL = []string{main.url}
			b.Price = bad
		}); err == nil || !strings.Contains(err.Error(), "--price") {
			t.Errorf("--price %q: %v", bad, err)
		}
	}
}

func host(base string) string { return strings.TrimSuffix(strings.TrimPrefix(base, "http://"), "/v1") }

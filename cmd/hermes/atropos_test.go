package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"hermes/internal/atropos/servetest"
	"hermes/internal/build"
	"hermes/internal/fakellm"
)

// atropos is a Python that has Atropos' own package.
func atropos(t *testing.T, module string) string {
	t.Helper()
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" {
		t.Skip("ORACLE_PYTHON names no Python that has atroposlib")
	}
	if out, err := exec.Command(python, "-c", "import "+module).CombinedOutput(); err != nil {
		t.Skipf("%s has no %s: %s", python, module, out)
	}
	return python
}

// trainerWants is a registration for batches of four sequences.
const trainerWants = `{"wandb_group":"","wandb_project":"","batch_size":4,"max_token_len":0,"checkpoint_dir":"","save_checkpoint_interval":0,"starting_step":0,"num_steps":-1}`

// TestAtroposEnvironment lets an environment of Atropos' own package post to run-api: what
// the trainer gets is what it has made, in single posts and lists.
func TestAtroposEnvironment(t *testing.T) {
	python := atropos(t, "atroposlib.envs.base")
	api := &trajectoryServer{t: t, dir: t.TempDir()}
	api.start()
	defer api.kill()
	var answer struct{ Batch []servetest.Group }
	api.insist("POST", "/register", trainerWants, "", &answer)
	api.insist("GET", "/batch", "", "", &answer) // environments may come
	script, err := filepath.Abs("testdata/atropos_env.py")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	env := exec.Command(python, script, *api.url.Load(), t.TempDir())
	env.Stdout, env.Stderr = &log, &log
	if err := env.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- env.Wait() }()
	seen := map[string]bool{}
	for step := 0; step < 3; {
		answer.Batch = nil
		if api.call("GET", "/batch", "", "", &answer) != nil || len(answer.Batch) == 0 {
			select {
			case err := <-ended:
				t.Fatalf("the environment ended before step %d: %v\n%s", step, err, &log)
			default:
			}
			continue
		}
		step++
		for _, g := range answer.Batch {
			if len(g.Tokens) != 2 || g.EnvID == nil || *g.EnvID != 0 {
				t.Fatalf("%+v", g)
			}
			for k, tokens := range g.Tokens {
				last := tokens[3]
				want := fmt.Sprint([]int{tokens[0], 1, 2, last}, []int{-100, -100, 2, last}, []float64{1, 1, -0.5, -0.25 - float64(k)}, float64(k))
				if got := fmt.Sprint(tokens, g.Masks[k], g.InferenceLogprobs[k], g.Scores[k]); got != want || seen[fmt.Sprint(tokens)] ||
					last != 3+k && last != 30+k {
					t.Errorf("%s, want %s, once", got, want)
				}
				seen[fmt.Sprint(tokens)] = true
			}
		}
	}
	if err := env.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	if len(seen) != 12 {
		t.Errorf("%d sequences arrived, want 12\n%s", len(seen), &log)
	}
}

// TestAtroposServer lets `env serve` feed the server of Atropos' own package: every sequence
// that its trainer gets is one that the model server has sampled.
func TestAtroposServer(t *testing.T) {
	python := atropos(t, "atroposlib.api")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(l.Addr().String(), ":")
	l.Close() // it takes no port 0
	var log bytes.Buffer
	api := exec.Command(python, "-m", "atroposlib.cli.run_api", "--host", host, "--port", port)
	api.Stdout, api.Stderr = &log, &log
	if err := api.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		api.Process.Kill()
		api.Wait()
	}()
	base := "http://" + host + ":" + port
	ask := func(method, path, body string, into any) error {
		r, err := http.NewRequest(method, base+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s: %s", method, path, resp.Status)
		}
		return json.NewDecoder(resp.Body).Decode(into)
	}
	var answer struct{ Batch []servetest.Group }
	for ask("POST", "/register", trainerWants, &answer) != nil { // until it listens
		if t.Context().Err() != nil {
			return
		}
	}
	if err := ask("GET", "/batch", "", &answer); err != nil {
		t.Fatal(err)
	}
	tok, err := build.LoadTokenizer("builtin:words")
	if err != nil {
		t.Fatal(err)
	}
	fake, err := build.FakeTokens(tok, fakellm.ChatML.End)
	if err != nil {
		t.Fatal(err)
	}
	model, url := server(t, fakellm.Options{Tokenizer: fake, KeepTokens: true, Seed: 8, Faults: map[string]float64{fakellm.FaultAbort: 0.1}})
	var stderr bytes.Buffer
	c := hermes(t, t.TempDir(), "env", "serve", "procedural", "--api", base, "--group-size", "2", "--model", "fake", "--base-url", url, "--send-scripts",
		"--exact", "--wire", "sglang", "--tokenizer", "builtin:words", "--template", "builtin:chatml", "--max-tokens", "4000", "--max-turns", "4",
		"--equal-scores", "send", "--backend", "local", "--concurrency", "8", "--poll", "2ms", "--run", "s", "--progress", "none", "--json")
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	const steps = 20
	var all []servetest.Group
	for step := 0; step < steps; {
		answer.Batch = nil
		if ask("GET", "/batch", "", &answer) != nil || len(answer.Batch) == 0 {
			select {
			case err := <-ended:
				t.Fatalf("env serve ended at step %d: %v\n%s", step, err, &stderr)
			default:
			}
			continue
		}
		step++
		all = append(all, answer.Batch...)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	if code := c.ProcessState.ExitCode(); code != 143 {
		t.Errorf("exit code %d\n%s", code, &stderr)
	}
	truth, used := judged(model), map[string]int{}
	for _, g := range all {
		for i, tokens := range g.Tokens {
			text := fmt.Sprint(tokens)
			used[text]++
			if used[text] > len(truth[text]) || !slices.ContainsFunc(truth[text], func(want trainee) bool {
				return want.is(tokens, g.Masks[i], g.InferenceLogprobs[i])
			}) {
				t.Errorf("a sequence of %d tokens that the model server has not sampled so, or not so often", len(tokens))
			}
		}
	}
	if len(all) != 2*steps {
		t.Errorf("%d groups in %d batches", len(all), steps)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hermes/backends/backendtest"
	"hermes/backends/ssh/sshtest"
	"hermes/internal/fakellm"
)

// diesInMidRun runs a batch on the back-end that dir/NAME.yaml sets up, and has its service
// die and come back while rollouts use their boxes. Those rollouts are tried again in other
// boxes, none is scored for it, and the books balance. loses says that boxes die with the
// service.
func diesInMidRun(t *testing.T, dir, backend string, loses bool, dies func()) {
	t.Helper()
	s, url := server(t, fakellm.Options{Latency: fakellm.Latency{Fixed: 5 * time.Millisecond}})
	const n = 24
	c := hermes(t, dir, "batch", chaosTasks(t, dir,
		n), "-c", backend+".yaml", "--run", backend, "--out", filepath.Join(dir, "runs"), "--model", "fake", "--base-url", url, "--send-scripts",
		"--concurrency", "8", "--backend", backend, "--progress", "none", "--retries", "5", "--stop-after-failures", "0", "--fail-on-error", "1.0", "--json", "--keep", "all")
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	if waitFor(s, 8, ended) {
		t.Fatalf("it ended at once:\n%s", said.Bytes())
	}
	dies()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("%v\n%s", err, said.Bytes())
		}
	case <-time.After(4 * time.Minute):
		c.Process.Kill()
		t.Fatal("the run did not end")
	}
	b := balanced(t, out.Bytes(), n)
	if b.Accepted != n || b.Scored != n || loses && b.Causes["box_lost"] == 0 {
		t.Errorf("books: %s\n%s", out.Bytes(), said.Bytes())
	}
	judge(t, filepath.Join(dir, "runs", backend), n)
}

func runFile(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSSHHostDiesInMidRun: the host's sshd goes away with all connections, what made the
// boxes there dies, and then sshd comes back.
func TestSSHHostDiesInMidRun(t *testing.T) {
	dir := t.TempDir()
	s, err := sshtest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	there, err := os.MkdirTemp("", "hs") // sockets need short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(there) })
	isolation := "namespace"
	if boxesHere() == "local" {
		isolation = "none"
	}
	runFile(t, dir, "ssh", fmt.Sprintf("backends:\n  ssh: {host: %q, keys: [%q], agent: \"off\", known-hosts: [%q], dir: %q, slotd: %q, isolation: %s}\n",
		"tester@"+s.Addr, s.Key, s.Known, there, slotdLink(t), isolation))
	diesInMidRun(t, dir, "ssh", true, func() {
		s.Stop()
		cards, _ := filepath.Glob(filepath.Join(there, "s", "*", "owner"))
		if len(cards) != 1 {
			t.Fatalf("stations: %q", cards)
		}
		raw, err := os.ReadFile(cards[0])
		var card struct{ PID int }
		if err == nil {
			err = json.Unmarshal(raw, &card)
		}
		if err == nil {
			err = syscall.Kill(card.PID, syscall.SIGKILL)
		}
		if err == nil {
			err = s.Listen(s.Addr)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if out, err := hermes(t, dir, "sandbox", "gc", "-c", "ssh.yaml").CombinedOutput(); err != nil { // what the dead one left
		t.Errorf("gc: %v\n%s", err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(there, "s", "*")); len(left) > 0 {
		t.Errorf("left on the host: %q", left)
	}
}

// TestEngineDiesInMidRun: a separate engine is killed and started again. Boxes live on
// without it, until its start ends those that are still there; no box can be made meanwhile.
func TestEngineDiesInMidRun(t *testing.T) {
	if os.Getenv("HERMES_TEST_DOCKER") == "" {
		t.Skip("no engine: HERMES_TEST_DOCKER is not set (make engine)")
	}
	if os.Geteuid() != 0 {
		t.Skip("starting an engine needs root")
	}
	dir, engine := t.TempDir(), backendtest.OwnEngine(t, t.TempDir())
	host := engine("start")
	defer engine("clean")
	slotd := filepath.Join(dir, "slotd")
	build := exec.Command("go", "build", "-o", slotd, "hermes/cmd/slotd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build slotd: %v\n%s", err, out)
	}
	runFile(t, dir, "docker", fmt.Sprintf("backends:\n  docker: {host: %q, image: \"hermes-test:python\", slotd: %q}\n", host, slotd))
	diesInMidRun(t, dir, "docker", false, func() {
		raw, err := os.ReadFile(filepath.Dir(strings.TrimPrefix(host, "unix://")) + "/pid")
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("kill", "-KILL", strings.TrimSpace(string(raw))).CombinedOutput(); err != nil {
			t.Fatalf("kill the engine: %v %s", err, out)
		}
		if again := engine("start"); again != host {
			t.Fatalf("the engine came back at %s", again)
		}
	})
}

// killedInExec kills hermes while a command runs in a box of a back-end.
func killedInExec(t *testing.T, dir, config, backend string) {
	t.Helper()
	c := hermes(t, dir, "sandbox", "exec", "-c", config, "--backend", backend, "--", "sh", "-c", "echo begun; sleep 1000")
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 5)); err != nil {
		t.Error(err)
	}
	c.Process.Kill()
	c.Wait()
}

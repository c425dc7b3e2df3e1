package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"hermes/internal/fakellm"
)

// TestBaseURLFileChanges: the file behind --base-url @FILE is read again when it changes. A
// running batch moves to the new server.
func TestBaseURLFileChanges(t *testing.T) {
	dir := t.TempDir()
	latency := fakellm.Latency{Fixed: 20 * time.Millisecond}
	first, firstURL := server(t, fakellm.Options{Latency: latency})
	second, secondURL := server(t, fakellm.Options{Latency: latency})
	const n = 100
	name := tasks(t, dir, n)
	write := func(text string) {
		t.Helper()
		tmp := filepath.Join(dir, "urls.tmp")
		if err := os.WriteFile(tmp, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, "urls")); err != nil {
			t.Fatal(err)
		}
	}
	write("# the first one\n" + firstURL + "\n")
	args := []string{
		"batch", name, "--run", "r", "--model", "fake", "--base-url", "@urls", "--send-scripts", "--backend", "local",
		"--progress", "none", "--max-turns", "20",
	}
	c := hermes(t, dir, append(args, "--concurrency", "2")...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	if waitFor(first, 10, ended) {
		t.Fatal("it ended by itself")
	}
	write("# moved\n\n" + secondURL + "\n")
	if waitFor(second, 10, ended) {
		t.Fatalf("it ended with %d requests at the first server and %d at the second", first.Stats().Requests, second.Stats().Requests)
	}
	c.Process.Kill()
	<-ended
	asked := first.Stats().Requests
	if out, err := hermes(t, dir, append(args, "--concurrency", "16")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if now := first.Stats().Requests; now != asked {
		t.Errorf("%d requests to a server that is no longer listed", now-asked)
	}
	eachOnce(t, filepath.Join(dir, "runs", "r", "trajectories.jsonl"), n)
}

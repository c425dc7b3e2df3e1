package main

import (
	"path/filepath"
	"testing"
	"time"

	"hermes/internal/fakellm"
)

// TestShards: one shard is finished, the other killed; the merged run goes on as the whole
// and buys nothing that either has bought.
func TestShards(t *testing.T) {
	dir := t.TempDir()
	s, url := server(t, fakellm.Options{Latency: fakellm.Latency{Median: 10 * time.Millisecond, Sigma: 0.5}})
	const n = 40
	name := tasks(t, dir, n)
	args := func(more ...string) []string {
		return append([]string{"batch", name, "--model", "fake", "--base-url", url, "--send-scripts", "--concurrency", "4",
			"--backend", "local", "--progress", "none", "--max-turns", "20"}, more...)
	}
	if out, err := hermes(t, dir, args("--run", "a", "--shard", "0/2")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := hermes(t, dir, args("--run", "b", "--shard", "1/2")...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	if waitFor(s, len(s.Entries())+15, ended) {
		t.Fatal("the second shard ended by itself")
	}
	c.Process.Kill()
	<-ended
	if out, err := hermes(t, dir, "runs", "merge", "a", "b", "-o", filepath.Join("runs", "whole")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := filepath.Join(dir, "runs", "whole")
	had := stored(t, run)
	finished, begun := 0, 0
	for _, turns := range had {
		if turns < 0 {
			finished++
		} else if turns > 0 {
			begun++
		}
	}
	t.Logf("the merged run holds %d finished and %d begun samples of %d", finished, begun, n)
	if finished < n/4 || finished == n {
		t.Fatal("the second shard was not killed in the middle")
	}
	mark := len(s.Entries())
	if out, err := hermes(t, dir, args("--run", "whole")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checkNotBoughtAgain(t, s.Entries()[mark:], had)
	eachOnce(t, filepath.Join(run, "trajectories.jsonl"), n)
	if out, err := hermes(t, dir, "runs", "verify", "whole").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

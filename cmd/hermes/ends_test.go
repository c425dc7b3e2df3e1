package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// below lists a process's descendants.
func below(pid int) (all []int) {
	parents := map[int]int{}
	found, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range found {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		text := string(raw)
		if f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]); len(f) > 1 {
			p, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			parents[p], _ = strconv.Atoi(f[1])
		}
	}
	for p := range parents {
		for up := parents[p]; up > 1; up = parents[up] {
			if up == pid {
				all = append(all, p)
				break
			}
		}
	}
	return all
}

// running finds a process by a word of its command line.
func running(word string) (pid int) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range found {
		raw, err := os.ReadFile(file)
		if err == nil && slices.Contains(strings.Split(string(raw), "\x00"), word) {
			pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}

// hanging starts a batch whose only row sleeps in its box, and returns it, what it says, and the
// process that sleeps.
func hanging(t *testing.T, dir, backend string) (c *exec.Cmd, said *bufio.Reader, sleeper int) {
	t.Helper()
	word := fmt.Sprintf("9%d%d", os.Getpid(), time.Now().UnixNano()%1_000_000)
	row := fmt.Sprintf(`{"id":"a","prompt":"x","hermes":{"script":[{"calls":[{"name":"terminal","arguments":{"command":"sleep %s","timeout":600}}]},{"content":"a"}]}}`,
		word)
	if err := os.WriteFile(filepath.Join(dir, "hang.jsonl"), []byte(row+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c = hermes(t, dir, "batch", "hang.jsonl", "--model", "scripted", "--backend", backend, "--run", backend, "--progress", "none")
	c.Env = append(c.Env, "TMPDIR="+dir)
	out, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range below(c.Process.Pid) {
			syscall.Kill(p, syscall.SIGKILL)
		}
		c.Process.Kill()
		c.Wait()
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(3 * time.Minute); sleeper == 0 && time.Now().Before(end); sleeper = running(word) {
		<-tick.C
	}
	if sleeper == 0 {
		t.Fatal("the command does not run")
	}
	return c, bufio.NewReader(out), sleeper
}

// heard reads what a hermes says up to the line with text.
func heard(t *testing.T, said *bufio.Reader, text string) {
	t.Helper()
	for all := ""; ; {
		line, err := said.ReadString('\n')
		all += line
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			t.Fatalf("it does not say %q: %v\n%s", text, err, all)
		}
	}
}

// TestEndsByASignal: a hermes in a call that hangs, because everything in the box and around it is
// stopped, ends within ten seconds of the signal that cancels, and at once by a third.
func TestEndsByASignal(t *testing.T) {
	for _, backend := range slices.Compact([]string{"local", boxesHere()}) {
		for _, n := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, %d signals", backend, n), func(t *testing.T) {
				dir := t.TempDir()
				c, said, _ := hanging(t, dir, backend)
				hung := below(c.Process.Pid)
				for _, p := range hung {
					syscall.Kill(p, syscall.SIGSTOP)
				}
				t.Cleanup(func() {
					for _, p := range hung {
						syscall.Kill(p, syscall.SIGKILL)
					}
				})
				c.Process.Signal(os.Interrupt)
				heard(t, said, "once more cancels")
				c.Process.Signal(os.Interrupt)
				heard(t, said, "cancelled")
				if n > 2 {
					c.Process.Signal(os.Interrupt)
				}
				ended := make(chan error, 1)
				go func() { ended <- c.Wait() }()
				select {
				case <-ended:
				case <-time.After(2 * time.Minute): // TestForcedEnd holds the times, in a bubble
					t.Fatal("it does not end")
				}
				if c.ProcessState.ExitCode() != 130 {
					t.Errorf("exit %d", c.ProcessState.ExitCode())
				}
			})
		}
	}
}

// TestNextStartRemovesLocalBoxes: what a killed hermes leaves of boxes without isolation goes when
// the next one starts, whatever back-end that uses.
func TestNextStartRemovesLocalBoxes(t *testing.T) {
	dir := t.TempDir()
	c, _, sleeper := hanging(t, dir, "local")
	c.Process.Kill()
	c.Wait()
	left := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "hermes-local-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if len(left()) != 2 || syscall.Kill(sleeper, 0) != nil { // the box and its owner's lock
		t.Fatalf("left: %v, process: %v", left(), syscall.Kill(sleeper, 0))
	}
	if err := os.WriteFile(filepath.Join(dir, "ok.jsonl"), []byte(`{"id":"b","prompt":"x","hermes":{"script":[{"content":"a"}]}}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	next := hermes(t, dir, "batch", "ok.jsonl", "--model", "scripted", "--backend", boxesHere(), "--progress", "none")
	next.Env = append(next.Env, "TMPDIR="+dir)
	if out, err := next.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", sleeper)); len(left()) != 0 || err == nil && len(env) > 0 {
		t.Errorf("left: %v, process: %q, %v", left(), env, err)
	}
}

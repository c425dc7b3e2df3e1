package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hermes/envs/remote"
)

// straying is an environment whose program leaves children in new sessions: at once,
// twice removed, and without its environment. Its reset never answers, so that hermes must be ended.
const straying = `#!/usr/bin/env python3
import json, os, sys, time
def stray(word, clear=False):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2): os.dup2(null, fd)
            time.sleep(0.05)
            os.execve("/bin/sleep", ["sleep", word], {} if clear else os.environ)
        os._exit(0)
for line in sys.stdin:
    m = json.loads(line)
    if m["method"] == "initialize":
        for w in WORDS[:2]: stray(w)
        stray(WORDS[2], CLEAR)
        os.wait(); os.wait(); os.wait()
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"protocol": 1, "name": "stray", "version": "1"}}), flush=True)
    else:
        open("asked", "w").close()
        time.sleep(600)
`

// strays are the processes that sleep with one of the words.
func strays(words []string) (all []int) {
	for _, w := range words {
		if pid := running(w); pid > 0 {
			all = append(all, pid)
		}
	}
	return all
}

// TestProgramsLeaveNothing: however hermes ends, nothing of its programs goes on: at once when it
// is asked to, at the next start when it was killed.
func TestProgramsLeaveNothing(t *testing.T) {
	born := groupsHere(t)
	for _, tt := range []struct {
		name    string
		signals []os.Signal
		swept   bool // by the next start
	}{
		{"SIGTERM twice", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, false},
		{"three SIGINT", []os.Signal{syscall.SIGINT, syscall.SIGINT, syscall.SIGINT}, false},
		{"SIGKILL", []os.Signal{syscall.SIGKILL}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var words []string
			for i := range 3 {
				words = append(words, fmt.Sprintf("8%d%d%d", os.Getpid(), time.Now().UnixNano()%1_000_000, i))
			}
			t.Cleanup(func() {
				for _, pid := range strays(words) {
					syscall.Kill(pid, syscall.SIGKILL)
				}
			})
			text := strings.NewReplacer("WORDS[", fmt.Sprintf(`["%s"][`, strings.Join(words, `","`)), "CLEAR",
				strings.ToUpper(strconv.FormatBool(born)[:1])+strconv.FormatBool(born)[1:]).Replace(straying)
			if err := os.WriteFile(filepath.Join(dir, "stray.py"), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
			c := hermes(t, dir, "env", "process", "./stray.py", "--groups", "1", "--group-size", "1", "--workers",
				"1", "--model", "scripted", "--backend", "local", "--progress", "none")
			out, err := c.StderrPipe()
			if err == nil {
				err = c.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			said := bufio.NewReader(out)
			eventually(t, "the program was asked, and its children are there", func() bool {
				_, err := os.Stat(filepath.Join(dir, "asked"))
				return err == nil && len(strays(words)) == 3
			})
			for i, s := range tt.signals {
				if err := c.Process.Signal(s); err != nil {
					t.Log(err) // it may have ended
				}
				if i < len(tt.signals)-1 { // two that come together may be one
					heard(t, said, []string{"once more cancels", "cancelled"}[i])
				}
			}
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			select {
			case <-ended:
			case <-time.After(2 * time.Minute):
				c.Process.Kill()
				t.Fatal("hermes does not end")
			}
			if tt.swept {
				if len(strays(words)) == 0 {
					t.Fatal("nothing was left that a start could sweep: the test shows nothing")
				}
				remote.Sweep(context.Background())
			}
			eventually(t, "nothing of the program goes on", func() bool { return len(strays(words)) == 0 })
		})
	}
}

// groupsHere reports whether hermes can make cgroups: then children cannot hide by
// clearing their environment.
func groupsHere(t *testing.T) bool {
	for _, parent := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"} {
		dir := filepath.Join(parent, fmt.Sprint("hermes-test-", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		_, err := os.Stat(filepath.Join(dir, "cgroup.procs")) // else it is a folder beside the mounts of version 1
		if rerr := os.Remove(dir); rerr != nil {
			t.Error(rerr)
		}
		if err == nil {
			return true
		}
	}
	t.Log("no cgroup can be made here: no child clears its environment")
	return false
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(2 * time.Minute); ; {
		if is() {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("never: " + what)
		}
	}
}

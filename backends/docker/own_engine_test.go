//go:build linux

package docker_test

import (
	"context"
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

	"github.com/docker/docker/client"

	"hermes/backends/backendtest"
)

// anEngine is an engine of the test's own.
type anEngine struct {
	host string
	argv []string // of dockerd
	pid  int
	proc *exec.Cmd // nil: the script started it
	log  *os.File
}

// ownEngine has the script start an engine beside any other.
func ownEngine(t *testing.T) *anEngine {
	t.Helper()
	engineHost(t)
	if os.Geteuid() != 0 {
		t.Skip("starting an engine needs root")
	}
	dir := t.TempDir()
	script := backendtest.OwnEngine(t, dir)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	e := &anEngine{host: script("start"), log: log}
	t.Cleanup(func() {
		if e.proc != nil {
			e.proc.Process.Kill()
			e.proc.Wait()
		}
		script("clean")
		log.Close()
	})
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimPrefix(e.host, "unix://")), "pid"))
	if err != nil {
		t.Fatal(err)
	}
	e.pid, err = strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err = os.ReadFile("/proc/" + strconv.Itoa(e.pid) + "/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	e.argv = strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
	return e
}

// again ends dockerd with a signal and starts it with a flag or none. It returns when the
// engine answers.
func (e *anEngine) again(sig syscall.Signal, flag string) error {
	if err := syscall.Kill(e.pid, sig); err != nil {
		return err
	}
	if e.proc != nil {
		e.proc.Wait()
	} else if !within(func() bool { return ended(e.pid) }) {
		return fmt.Errorf("dockerd does not end with %v", sig)
	}
	// Its containerd dies with it. Without an init that collects it, it keeps its number, which
	// the next dockerd takes for a containerd that lives.
	pidfile := filepath.Join(filepath.Dir(strings.TrimPrefix(e.host, "unix://")), "exec/containerd/containerd.pid")
	if raw, err := os.ReadFile(pidfile); err == nil {
		pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err != nil || !within(func() bool { return ended(pid) }) {
			return fmt.Errorf("containerd %q does not end with dockerd: %v", raw, err)
		}
		os.Remove(pidfile)
	}
	argv := slices.Clone(e.argv[1:])
	if flag != "" {
		argv = append(argv, flag)
	}
	e.proc = exec.Command(e.argv[0], argv...)
	e.proc.Stdout, e.proc.Stderr = e.log, e.log // a file: its containerd lives on and writes there
	e.proc.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin"}
	e.proc.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := e.proc.Start(); err != nil {
		return err
	}
	e.pid = e.proc.Process.Pid
	web, err := client.NewClientWithOpts(client.WithHost(e.host), client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer web.Close()
	if !within(func() bool { _, err := web.Ping(context.Background()); return err == nil }) {
		text, _ := os.ReadFile(e.log.Name())
		return fmt.Errorf("dockerd does not answer:\n%s", text[max(0, len(text)-4000):])
	}
	return nil
}

// ended reports whether a process is gone, or is a zombie that its parent has not collected.
func ended(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(raw), ") Z ")
}

// within waits until ok, for two minutes at most.
func within(ok func() bool) bool {
	end := time.NewTimer(2 * time.Minute)
	defer end.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			return false
		}
	}
	return true
}

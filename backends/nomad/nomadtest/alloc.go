//lint:file-ignore ST1005 the texts are those of the real agent

package nomadtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/nomad/api"

	"hermes/backends/trees"
)

// alloc is one allocation and its process.
type alloc struct {
	api.Allocation
	place    int
	memory   int
	replaced bool // it failed, and another takes its place
	followed bool
	task     *api.Task
	process  *os.Process
	port     int
	stop     chan struct{} // closed when it shall end
	hard     bool          // without a TERM before
	cut      chan struct{} // closed when its node loses its power
}

// alive reports whether it takes up its node. The fake is locked.
func (a *alloc) alive() bool {
	return a.DesiredStatus == api.AllocDesiredStatusRun && (a.ClientStatus == api.AllocClientStatusPending || a.ClientStatus == api.AllocClientStatusRunning)
}

// place makes an allocation, in the place of another if there was one. The fake is locked.
func (f *Fake) place(j *job, index int, n *api.Node) {
	t := j.group().Tasks[0]
	a := &alloc{place: index, memory: *t.Resources.MemoryMB, task: t, stop: make(chan struct{}), cut: make(chan struct{})}
	now := f.bump()
	a.Allocation = api.Allocation{ID: f.id("alloc"), Name: fmt.Sprintf("%s.%s[%d]", *j.ID, *j.group().Name, index), NodeID: n.ID, NodeName: n.Name, JobID: *j.ID,
		TaskGroup: *j.group().Name, DesiredStatus: api.AllocDesiredStatusRun, ClientStatus: api.AllocClientStatusPending, CreateIndex: now, ModifyIndex: now,
		CreateTime: time.Now().UnixNano(), TaskStates: map[string]*api.TaskState{t.Name: {State: "pending"}}}
	for _, o := range f.allocs { // the servers do not say so of one that was lost
		if o.JobID == *j.ID && o.place == index && o.PreviousAllocation == "" && (o.replaced || o.DesiredDescription == migrating) && !o.followed {
			a.PreviousAllocation, o.followed = o.ID, true
		}
		if o.JobID == *j.ID && o.place == index && o.replaced {
			o.DesiredStatus = api.AllocDesiredStatusStop
		}
	}
	f.allocs[a.ID] = a
	f.work.Go(func() { f.run(a) })
}

// Descriptions of allocations that shall end.
const (
	notNeeded = "alloc not needed due to job update"
	migrating = "alloc is being migrated" // a drain, or an operator who stopped it
	nodeDown  = "alloc is lost since its node is down"
)

// change enters something about an allocation.
func (f *Fake) change(a *alloc, set func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set()
	a.ModifyIndex = f.bump()
}

// event adds to what happened to the task. The fake is locked.
func (a *alloc) event(kind, text string, details map[string]string) {
	s := a.TaskStates[a.task.Name]
	s.Events = append(s.Events, &api.TaskEvent{Type: kind, Time: time.Now().UnixNano(), DisplayMessage: text, Details: details})
}

// run is the life of an allocation: start, end, and what follows.
func (f *Fake) run(a *alloc) {
	for f.live(a) {
		// The power of its node is back. No server has seen its end, and the agent starts it
		// again, in its place.
		f.Until(a.stop, func() bool { return !f.isDown() })
		f.change(a, func() {
			a.cut = make(chan struct{})
			a.event(restoreFailed, "failed to restore task; will not run until server is contacted", nil)
		})
	}
	f.after(a)
}

// restoreFailed is what the agent of a node says of a task that it does not find again.
const restoreFailed = "Failed Restoring Task"

// live is one life of an allocation's process. It reports whether that ended with the
// power of its node.
func (f *Fake) live(a *alloc) (cut bool) {
	f.mu.Lock()
	slow := f.slow
	f.mu.Unlock()
	if slow > 0 {
		wait := time.NewTimer(slow)
		select {
		case <-wait.C:
		case <-a.stop:
		}
		wait.Stop()
	}
	cmd, err := f.command(a)
	if err == nil {
		f.change(a, func() {
			a.AllocatedResources = &api.AllocatedResources{Shared: api.AllocatedSharedResources{Ports: []api.PortMapping{{Label: "slotd", Value: a.port, HostIP: "127.0.0.1"}}}}
			if a.DesiredStatus != api.AllocDesiredStatusRun {
				err = errors.New("stopped before it began")
				return
			}
			if err = cmd.Start(); err == nil {
				a.process, a.ClientStatus = cmd.Process, api.AllocClientStatusRunning
				a.TaskStates[a.task.Name].State = "running"
				a.event("Started", "Task started by client", nil)
			}
		})
	}
	if err != nil {
		f.change(a, func() { a.event(api.TaskDriverFailure, err.Error(), map[string]string{"driver_error": err.Error()}) })
		return false
	}
	code, signal := f.wait(a, cmd)
	f.change(a, func() { a.process = nil })
	f.news(a)
	f.change(a, func() {
		select {
		case <-a.cut:
			cut = true
			return
		default:
		}
		text := fmt.Sprintf("Exit Code: %d", code)
		if signal != 0 {
			text += fmt.Sprintf(", Signal: %d", signal)
		}
		a.event(api.TaskTerminated, text, map[string]string{"exit_code": strconv.Itoa(code), "signal": strconv.Itoa(signal), "oom_killed": "false"})
	})
	return cut
}

// news waits until the servers hear of an end. While they are away, the agent of the node
// tries again now and then.
func (f *Fake) news(a *alloc) {
	if !f.isDown() {
		return
	}
	f.Until(a.stop, func() bool { return !f.isDown() })
	wait := time.NewTimer(f.opt.News)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-a.stop:
	}
}

// after is what the servers do about an allocation that has ended.
func (f *Fake) after(a *alloc) {
	f.change(a, func() {
		a.TaskStates[a.task.Name].State = "dead"
		switch n, _ := f.findNode(a.NodeID); {
		case n.Status != api.NodeStatusReady: // its agent does not reach the servers
		case a.DesiredStatus != api.AllocDesiredStatusRun:
			a.ClientStatus = api.AllocClientStatusComplete
			if !a.hard {
				a.event(api.TaskKilled, "Task successfully killed", nil)
			}
		default:
			a.ClientStatus, a.TaskStates[a.task.Name].Failed = api.AllocClientStatusFailed, true
			a.event(api.TaskNotRestarting, "Policy allows no restarts", map[string]string{"fails_task": "true", "restart_reason": "Policy allows no restarts"})
		}
	})
	f.set(func() { f.drained(a.NodeID) })
	trees.Remove(context.Background(), f.folder(a.ID))
	wait := time.NewTimer(f.opt.Reschedule)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-a.stop:
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if j := f.jobs[a.JobID]; j != nil && a.DesiredStatus == api.AllocDesiredStatusRun {
		a.replaced = true
		f.schedule(j, "alloc-failure")
	}
}

// wait waits for the process, or ends it.
func (f *Fake) wait(a *alloc, cmd *exec.Cmd) (code, signal int) {
	done := make(chan struct{})
	go func() {
		cmd.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-a.cut:
		cmd.Process.Kill()
		<-done
	case <-a.stop:
		f.mu.Lock()
		hard := a.hard
		f.mu.Unlock()
		if !hard {
			wait := cmp.Or(a.task.KillTimeout, new(5*time.Second))
			f.change(a, func() {
				a.event(api.TaskKilling, fmt.Sprintf("Sent interrupt. Waiting %v before force killing", *wait), map[string]string{"kill_timeout": wait.String()})
			})
			cmd.Process.Signal(syscall.SIGINT)
			grace := time.NewTimer(*wait)
			select {
			case <-done:
			case <-grace.C:
			}
			grace.Stop()
		}
		cmd.Process.Kill()
		<-done
	}
	killBelow(f.folder(a.ID))
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal()), int(w.Signal())
	}
	return cmd.ProcessState.ExitCode(), 0
}

// killBelow ends what a task left behind, as the executor of the real agent does: those
// whose home is in the allocation's folder.
func killBelow(dir string) {
	mark := []byte("HOME=" + dir)
	for again := true; again; {
		again = false
		all, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, p := range all {
			env, err := os.ReadFile(p)
			if err != nil || !slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.HasPrefix(v, mark) }) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(p))); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
				again = true
			}
		}
	}
}

// end makes an allocation stop. The fake is locked.
func (f *Fake) end(a *alloc, description string) {
	if a.DesiredStatus == api.AllocDesiredStatusRun {
		a.DesiredStatus, a.DesiredDescription = api.AllocDesiredStatusStop, description
		a.ModifyIndex = f.bump()
	}
	f.halt(a)
}

// halt ends the process of an allocation. The fake is locked.
func (f *Fake) halt(a *alloc) {
	select {
	case <-a.stop:
	default:
		close(a.stop)
	}
}

// command builds the process of an allocation, with its folders and its port.
func (f *Fake) command(a *alloc) (*exec.Cmd, error) {
	program, _ := a.task.Config["command"].(string)
	if a.task.Driver == "docker" {
		image, _ := a.task.Config["image"].(string)
		if !slices.Contains(f.opt.Images, image) {
			return nil, fmt.Errorf("Failed to pull `%s`: Error response from daemon: pull access denied, repository does not exist or may require authorization", image)
		}
		program = f.opt.Program
	}
	if program == "" {
		return nil, errors.New("missing command for the task")
	}
	if a.port == 0 {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		a.port = port
	}
	dir := f.folder(a.ID)
	for _, d := range []string{"alloc/data", "alloc/tmp", "alloc/logs", a.task.Name + "/local", a.task.Name + "/secrets"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			return nil, err
		}
	}
	for _, t := range a.task.Templates {
		if err := os.WriteFile(filepath.Join(dir, a.task.Name, *t.DestPath), []byte(*t.EmbeddedTmpl), 0o600); err != nil {
			return nil, err
		}
	}
	vars := strings.NewReplacer("${NOMAD_ALLOC_DIR}", dir+"/alloc", "${NOMAD_TASK_DIR}", dir+"/"+a.task.Name+"/local", "${NOMAD_SECRETS_DIR}", dir+"/"+a.task.Name+"/secrets",
		"${NOMAD_IP_slotd}", "127.0.0.1", "${NOMAD_PORT_slotd}", strconv.Itoa(a.port), "${NOMAD_ALLOC_ID}", a.ID)
	program = vars.Replace(program)
	if _, err := exec.LookPath(program); err != nil {
		return nil, fmt.Errorf("failed to launch command with executor: rpc error: code = Unknown desc = binary %q could not be found", program)
	}
	cmd := exec.Command(program)
	list, _ := a.task.Config["args"].([]any)
	for i, v := range list {
		s := vars.Replace(fmt.Sprint(v))
		if a.task.Driver == "docker" {
			s = f.outside(s, i, list, dir, a.task.Name, a.port)
		}
		if s != "" {
			cmd.Args = append(cmd.Args, s)
		}
	}
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "NOMAD_ALLOC_ID=" + a.ID, "NOMAD_ALLOC_INDEX=" + strconv.Itoa(a.place)}
	cmd.Dir = filepath.Join(dir, a.task.Name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// outside writes an argument for a container so that it fits a process of this machine.
func (f *Fake) outside(s string, i int, list []any, dir, task string, port int) string {
	switch {
	case s == "--private" || s == "--reap":
		return ""
	case strings.HasPrefix(s, "tcp:"):
		return "tcp:127.0.0.1:" + strconv.Itoa(port)
	case strings.HasPrefix(s, "/secrets/"):
		return filepath.Join(dir, task, s)
	case strings.HasPrefix(s, "/alloc/"):
		return filepath.Join(dir, s)
	case s == "/tmp" && i > 0 && list[i-1] == "--scratch":
		return filepath.Join(dir, "alloc", "tmp")
	}
	return s
}

// freePort finds a port as the agent does: one on which no process listens just now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

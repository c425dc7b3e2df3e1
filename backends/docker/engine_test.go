//go:build linux

package docker_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"
)

// processes is an engine without images and layers: its containers are processes in
// their own namespaces, with the host's root and folders in memory where boxes write.
// It carries an order out once, as an engine does. A repeated order gets the answer that it
// is done already.
type processes struct {
	mu   sync.Mutex
	all  map[string]*contained
	most int // containers at once, over its life
	made int
}

type contained struct {
	name   string
	config container.Config
	host   container.HostConfig
	proc   *exec.Cmd
	ended  chan struct{}
	going  bool // being removed
}

// enter builds what a container sees. Its arguments are the program that is slotd and the
// maker's socket.
const enter = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
touch /mnt/slotd /mnt/socket
mount --bind "$1" /mnt/slotd
mount --bind "$2" /mnt/socket
for d in /root /tmp /var/tmp /dev/shm; do mount -t tmpfs tmpfs $d; done
cd /
exec /mnt/slotd box --connect /mnt/socket`

// newProcesses returns such an engine, or skips the test where the kernel lets us make no
// namespaces.
func newProcesses(t *testing.T) (e *processes, host string) {
	t.Helper()
	try := exec.Command("/bin/sh", "-c", "mount -t tmpfs tmpfs /mnt")
	try.SysProcAttr = apart()
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("containers of this engine need namespaces: %v %s", err, out)
	}
	e = &processes{all: map[string]*contained{}}
	t.Cleanup(func() {
		for _, name := range e.names() {
			e.remove(name)
		}
	})
	return e, fakeEngine(t, map[string]http.HandlerFunc{
		"/containers/create": e.create,
		"/containers/json":   e.list,
		"/containers/":       e.one,
		"/images/fake/json":  imageOK,
	})
}

func imageOK(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, `{"Id":"sha256:fake","Os":"linux","Architecture":%q,"Config":{}}`, runtime.GOARCH)
}

func apart() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC, Setsid: true}
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return a
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]string{"message": text})
}

func (e *processes) create(w http.ResponseWriter, r *http.Request) {
	var body struct {
		container.Config
		HostConfig container.HostConfig
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	name := r.URL.Query().Get("name")
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all[name] != nil {
		say(w, http.StatusConflict, fmt.Sprintf("Conflict. The container name %q is already in use", name))
		return
	}
	e.all[name] = &contained{name: name, config: body.Config, host: body.HostConfig, ended: make(chan struct{})}
	e.made++
	e.most = max(e.most, len(e.all))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"Id":%q}`, name)
}

// one answers calls about one container.
func (e *processes) one(w http.ResponseWriter, r *http.Request) {
	rest := r.URL.Path[strings.LastIndex(r.URL.Path, "/containers/")+len("/containers/"):]
	name, what, _ := strings.Cut(rest, "/")
	e.mu.Lock()
	c := e.all[name]
	e.mu.Unlock()
	if c == nil {
		say(w, http.StatusNotFound, "No such container: "+name)
		return
	}
	switch r.Method + " " + what {
	case "POST start":
		if err := e.start(c); err != nil {
			say(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case "POST kill":
		e.mu.Lock()
		if c.proc != nil {
			c.proc.Process.Kill()
		}
		e.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	case "GET json":
		json.NewEncoder(w).Encode(container.InspectResponse{
			ContainerJSONBase: &container.ContainerJSONBase{ID: name, Name: "/" + name, State: e.state(c)},
			Config:            &c.config,
		})
	case "DELETE ":
		e.mu.Lock()
		going := c.going
		c.going = true
		e.mu.Unlock()
		if going {
			say(w, http.StatusConflict, "removal of container "+name+" is already in progress")
			return
		}
		e.remove(name)
		w.WriteHeader(http.StatusNoContent)
	default:
		say(w, http.StatusNotImplemented, r.Method+" "+r.URL.Path)
	}
}

func (e *processes) start(c *contained) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.going {
		return fmt.Errorf("container %s is marked for removal", c.name)
	}
	if c.proc != nil {
		return nil // an engine answers 304
	}
	cmd := exec.Command("/bin/sh", "-c", enter, "sh", c.host.Mounts[0].Source, c.host.Mounts[1].Source)
	cmd.Env, cmd.SysProcAttr = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/root"}, apart()
	if err := cmd.Start(); err != nil {
		return err
	}
	c.proc = cmd
	go func() {
		cmd.Wait()
		close(c.ended)
	}()
	return nil
}

func (e *processes) state(c *contained) *container.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &container.State{Status: container.StateCreated}
	if c.proc == nil {
		return s
	}
	select {
	case <-c.ended:
		s.Status, s.ExitCode = container.StateExited, c.proc.ProcessState.ExitCode()
		if s.ExitCode < 0 {
			s.ExitCode = 137
		}
	default:
		s.Status, s.Running = container.StateRunning, true
	}
	return s
}

func (e *processes) remove(name string) {
	e.mu.Lock()
	c := e.all[name]
	var proc *exec.Cmd
	if c != nil {
		c.going, proc = true, c.proc
	}
	e.mu.Unlock()
	if proc != nil {
		proc.Process.Kill()
		<-c.ended
	}
	e.mu.Lock()
	delete(e.all, name)
	e.mu.Unlock()
}

func (e *processes) list(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := []container.Summary{}
	for name, c := range e.all {
		all = append(all, container.Summary{ID: name, Names: []string{"/" + name}, Labels: c.config.Labels})
	}
	json.NewEncoder(w).Encode(all)
}

// names are those of the containers that there are.
func (e *processes) names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := make([]string, 0, len(e.all))
	for name := range e.all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

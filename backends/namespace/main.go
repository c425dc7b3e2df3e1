//go:build linux

package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"

	"hermes/backends/egress"
	"hermes/backends/namespace/pid1"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/server"
	"hermes/backends/slotd/wire"
)

// The hidden sub-commands of slotd.
const (
	forkCommand = "fork" // the helper that clones boxes
	initCommand = "init" // the server that pid 1 of a box became
)

// boxEnv is the environment of the helper and of servers in boxes, for the Go runtime alone: commands
// get nothing of it. One processor halves its memory and its threads, and a box has no use for more.
// The collector's aim keeps what a server leaves lying below one MiB instead of four. The runtime
// need not look for limits of the cgroup: it would read a dozen files and keep some open.
var boxEnv = []string{"GOMAXPROCS=1", "GOGC=25", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}

// itself refuses to open boxes in a program that was started to be the inside of one and did not
// become it: it would start itself again, and so on without end.
func itself() error {
	if len(os.Args) == 2 && filepath.Base(os.Args[0]) == wire.Name && (os.Args[1] == forkCommand || os.Args[1] == initCommand) {
		return errors.New("this program was started to be the inside of a box and went on as itself: it has to call namespace.Main before anything else")
	}
	return nil
}

// Main becomes the inside of a box when args say so: then handled is true and the
// program must exit with code. A program that opens boxes calls it before anything else.
func Main(args []string) (code int, handled bool) {
	if len(args) != 2 || filepath.Base(args[0]) != wire.Name {
		return 0, false
	}
	switch args[1] {
	case forkCommand:
		return forkServer(), true
	case initCommand:
		return boxServer(wire.BoxEnd{FD: pid1.Socket}), true
	}
	return 0, false
}

// forkServer is the helper. It has nothing open but its socket: the copies have less.
func forkServer() int {
	if err := unix.CloseRange(pid1.Socket+1, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 1
	}
	unix.CloseOnExec(pid1.Socket)
	name, _ := unix.ByteSliceFromString("hermes-fork")
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0) // else it would be a descriptor's number
	return pid1.Serve(pid1.Socket)
}

// settings are sent to the server that pid 1 has become.
type settings struct {
	Plan    plan
	ID      string
	Counter bool           // of out-of-memory kills: oomFD
	Running []wire.Adopted // commands that pid 1 has started
}

// boxServer answers until the host closes the socket or dies. The end of this process is
// the end of the box.
func boxServer(control wire.BoxEnd) int {
	o, proxy, err := prepare(control)
	if err != nil {
		pid1.IsUp(control, err.Error())
		return 1
	}
	// Commands share our uid and may signal us. Caught, unlike ignored, is not inherited.
	signal.Notify(make(chan os.Signal, 1))
	ready := func() error {
		if err := pid1.IsUp(control, ""); err != nil || proxy < 0 {
			return err
		}
		return control.Send(proxy)
	}
	if err := server.Serve(context.Background(), control, server.Options{Options: o, Ready: ready}); err != nil {
		return 1
	}
	return 0
}

// prepare reads the settings. proxy is the socket of the proxy, or -1.
func prepare(control wire.BoxEnd) (o host.Options, proxy int, err error) {
	unix.CloseOnExec(pid1.Socket)
	// As pid 1 was before: no process of the box can look into this one. Until here none could, because
	// it has capabilities that they lack.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return o, -1, fmt.Errorf("hide the server's memory: %w", err)
	}
	raw, err := wire.ReadMessage(control, maxSettings)
	if err != nil {
		return o, -1, fmt.Errorf("read the settings of a server: %w", err)
	}
	var s settings
	if err := json.Unmarshal(raw, &s); err != nil {
		return o, -1, fmt.Errorf("read the settings of a server: %w", err)
	}
	proxy = -1
	if s.Plan.Proxy {
		proxy, err = wire.NewListener(egress.Port)
		if err != nil {
			return o, -1, err
		}
	}
	p := s.Plan
	o = host.Options{ID: s.ID, Home: p.Home, Dir: p.Dir, Env: p.Env, Spawn: lockThread, Reap: true, Resets: p.Resets, Private: true, Made: true,
		Scratch: []string{"/tmp", "/var/tmp", "/dev/shm", "/run"}, Adopt: s.Running}
	for _, l := range p.rlimits() {
		o.Rlimits = append(o.Rlimits, host.Rlimit{Resource: l.resource, Value: l.value})
	}
	if s.Counter {
		unix.CloseOnExec(oomFD)
		o.OOM = host.OOMCounter(os.NewFile(oomFD, "kills"))
	}
	return o, proxy, nil
}

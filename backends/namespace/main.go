package namespace

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hermes/backends/egress"
	"hermes/backends/slotd"
)

// How hermes starts itself as pid 1 of a box.
const (
	initCommand = "init"
	controlFD   = 3
)

// Main becomes the inside of a box when args say so: then handled is true and the
// program must exit with code. A program that opens boxes calls it before anything else.
func Main(args []string) (code int, handled bool) {
	if len(args) != 2 || filepath.Base(args[0]) != slotd.Name {
		return 0, false
	}
	control := slotd.Passed{FD: controlFD}
	switch args[1] {
	case initCommand:
		return boxServer(control), true
	case forkCommand:
		return forkServer(control), true
	}
	return 0, false
}

// boxServer is pid 1 of a box.
func boxServer(control slotd.Passed) int {
	ready, door, err := prepare(control)
	if err != nil {
		slotd.WriteMessage(control, []byte(err.Error()))
		return 1
	}
	if err := slotd.WriteMessage(control, nil); err != nil {
		return 1
	}
	if door >= 0 && control.Send(door) != nil {
		return 1
	}
	return serve(control, ready)
}

// prepare reads the plan and builds the box around this process. door is the socket of
// the proxy, or -1.
func prepare(control slotd.Passed) (o slotd.Options, door int, err error) {
	p, image, err := readPlan(control)
	if err != nil {
		return o, -1, err
	}
	if err := closeOthers(image); err != nil {
		return o, -1, err
	}
	oom := openOOM(p.OOM)
	if door, err = settle(p); err != nil {
		return o, -1, err
	}
	r, err := collect(p, image)
	if err != nil {
		return o, -1, err
	}
	if err := r.enter(); err != nil {
		return o, -1, err
	}
	// From here on no process of the box can look into this one.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return o, -1, fmt.Errorf("hide the server's memory: %w", err)
	}
	return slotd.Options{ID: p.ID, Home: p.Home, Dir: p.Dir, Env: p.Env, Rlimits: p.rlimits(), Spawn: lockdown, Reap: true, OOM: oom,
		Resets: p.Resets, Private: true, Scratch: []string{"/tmp", "/var/tmp", "/dev/shm", "/run"}}, door, nil
}

// readPlan reads the plan and, if it has an image, its mount (or -1).
func readPlan(control slotd.Passed) (plan, int, error) {
	raw, err := slotd.ReadMessage(control, maxFrame)
	if err != nil {
		return plan{}, -1, fmt.Errorf("read the plan: %w", err)
	}
	var p plan
	if err := json.Unmarshal(raw, &p); err != nil {
		return plan{}, -1, fmt.Errorf("read the plan: %w", err)
	}
	if !p.Image || p.ImageDir != "" {
		return p, -1, nil
	}
	image, err := control.Receive()
	return p, image, err
}

// closeOthers closes every descriptor that leaked into this process. Those of the
// runtime are anonymous inodes.
func closeOthers(image int) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= controlFD || fd == image {
			continue
		}
		if link, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(link, "anon_inode:") {
			unix.Close(fd)
		}
	}
	unix.CloseOnExec(controlFD)
	return nil
}

// openOOM opens the host's counter of out-of-memory kills while it can still be seen.
func openOOM(path string) func() int64 {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	return slotd.OOMCounter(f)
}

// reserve is what the server itself may have beyond the processes of its commands, so
// that a box full of them still answers.
const reserve = 64

// settle sets what belongs to the process: name, loopback and what listens there, limits.
func settle(p plan) (door int, err error) {
	door = -1
	if err := unix.Sethostname([]byte("hermes")); err != nil {
		return -1, fmt.Errorf("set the host name: %w", err)
	}
	if err := loopback(); err != nil {
		return -1, err
	}
	if p.Door {
		if door, err = slotd.NewDoor(egress.Port); err != nil {
			return -1, err
		}
	}
	// The host's out-of-memory killer takes boxes before hermes.
	writeFile("/proc/self/oom_score_adj", []byte("500"))
	for _, l := range []slotd.Rlimit{
		{Resource: unix.RLIMIT_NPROC, Value: uint64(p.Limits.Processes + reserve)},
		{Resource: unix.RLIMIT_CORE, Value: 0},
		{Resource: unix.RLIMIT_FSIZE, Value: uint64(p.Limits.Disk)},
	} {
		if err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Value, Max: l.Value}); err != nil {
			return -1, fmt.Errorf("set limit %d to %d: %w", l.Resource, l.Value, err)
		}
	}
	return door, nil
}

// rlimits are those of commands only.
func (p plan) rlimits() []slotd.Rlimit {
	l := []slotd.Rlimit{
		{Resource: unix.RLIMIT_NPROC, Value: uint64(p.Limits.Processes)},
		{Resource: unix.RLIMIT_NOFILE, Value: uint64(p.Limits.Files)},
	}
	if p.ByRlimit {
		l = append(l, slotd.Rlimit{Resource: unix.RLIMIT_DATA, Value: uint64(p.Limits.Memory)})
	}
	return l
}

// loopback raises lo, the only interface.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("raise lo: %w", err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r); err != nil {
		return fmt.Errorf("raise lo: %w", err)
	}
	return nil
}

// serve answers until the host closes the socket or dies. The end of this process is
// the end of the box.
func serve(control slotd.Passed, o slotd.Options) int {
	// Commands share our uid and may signal us. Caught, unlike ignored, is not inherited.
	signal.Notify(make(chan os.Signal, 1))
	if err := slotd.Serve(context.Background(), control, slotd.ServerOptions{Options: o}); err != nil {
		return 1
	}
	return 0
}

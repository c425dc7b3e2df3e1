//go:build linux

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"hermes/backends/slotd/filter"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/pipes"
	"hermes/backends/slotd/wire"
)

// box is the first process of a box that an engine made from an image.
//
// With --connect it calls its maker on a unix socket and becomes the end of a control socket:
// there is no token, and the box ends with its maker. With --listen it answers on a
// socket inside the box, for engines on another machine. With --stdin its standard input
// is the end of a control socket; it need not be the first process then, and takes all others of
// the box with it when its maker is gone.
func box(args []string, stderr io.Writer) error {
	f := flag.NewFlagSet("box", flag.ContinueOnError)
	f.SetOutput(stderr)
	connect := f.String("connect", "", "socket of the maker")
	listen := f.String("listen", "", "socket to answer on")
	stdin := f.Bool("stdin", false, "standard input is the maker's socket")
	file := f.String("setup", "", "with --listen: file with the setup as JSON, which is removed")
	if err := f.Parse(args); err != nil {
		return usageError{err}
	}
	// Commands may share our uid. They must not look into this process nor stop it by a
	// signal: caught, unlike ignored, is not inherited.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("hide the server's memory: %w", err)
	}
	signal.Notify(make(chan os.Signal, 1))
	// Who has not all the ids of a process may not set its limits. Commands get this one from exec
	// as their own group again. Where there is no second group, the filter is all there is.
	unix.Setresgid(-1, -1, otherGroup)
	spareThreads(8)
	switch {
	case *stdin && *connect == "" && *listen == "":
		return stdinBox()
	case *connect != "" && *listen == "" && !*stdin:
		return connectBox(*connect)
	case *listen != "" && *file != "" && !*stdin:
		return listenBox(*listen, *file)
	}
	return usageError{errors.New("need --connect, or --stdin, or --listen and --setup")}
}

// otherGroup is daemon's in most images. Nothing is done with it.
const otherGroup = 1

// connectBox serves a control socket, to which it connects.
func connectBox(path string) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return err
	}
	file, err := conn.File() // blocking, as Passed wants it
	conn.Close()
	if err != nil {
		return err
	}
	end := wire.BoxEnd{FD: int(file.Fd())}
	err = serveBox(end, end)
	runtime.KeepAlive(file)
	return err
}

// serveBox serves the end of a control socket, from which l takes connections.
func serveBox(end wire.BoxEnd, l net.Listener) error {
	raw, err := wire.ReadMessage(end, wire.MaxSetup)
	if err != nil {
		return fmt.Errorf("read the setup: %w", err)
	}
	s, o, err := parseSetup(raw)
	if _, kills := l.(last); kills && err == nil {
		err = apart(s)
	}
	proxy := -1
	if s.ProxyPort != 0 && err == nil {
		proxy, err = wire.NewListener(s.ProxyPort)
	}
	if err == nil {
		err = Serve(context.Background(), &announced{Listener: l, say: func() {
			wire.WriteMessage(end, nil)
			if proxy >= 0 {
				end.Send(proxy)
			}
		}}, o)
	}
	if err != nil {
		wire.WriteMessage(end, []byte(err.Error()))
	}
	return err
}

// stdinBox serves standard input, of which commands must not get hold.
func stdinBox() error {
	fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("keep the maker's socket: %w", err)
	}
	null, err := pipes.OpenNull(os.O_RDWR)
	if err != nil {
		return err
	}
	defer null.Close()
	if err := unix.Dup3(int(null.Fd()), 0, 0); err != nil {
		return fmt.Errorf("close standard input: %w", err)
	}
	end := wire.BoxEnd{FD: fd}
	return serveBox(end, last{end})
}

// last is the end of a control socket in a box whose first process is not this one: when the
// maker is gone, this process takes the others with it.
type last struct{ wire.BoxEnd }

// Accept implements net.Listener.
func (l last) Accept() (net.Conn, error) {
	fd, err := l.Receive()
	if err != nil {
		if os.Getpid() != 1 {
			unix.Kill(-1, unix.SIGKILL) // spares the first process and this one
		}
		os.Exit(0)
	}
	f := os.NewFile(uintptr(fd), "connection")
	defer f.Close()
	return net.FileConn(f)
}

// apart objects to a place that shares its processes with the maker of the box.
func apart(s wire.Setup) error {
	if s.Apart == 0 {
		return errors.New("the setup does not say from what the box is apart")
	}
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &own); err != nil {
		return fmt.Errorf("look at the own pid namespace: %w", err)
	}
	if own.Ino == s.Apart {
		return errors.New("the box shares its processes with the host: pid namespaces are switched off there")
	}
	return nil
}

// announced is a listener that says once when it is listened to.
type announced struct {
	net.Listener
	say  func()
	once sync.Once
}

func (l *announced) Accept() (net.Conn, error) {
	l.once.Do(l.say)
	return l.Listener.Accept()
}

// listenBox serves a socket in the box.
func listenBox(path, file string) error {
	raw, err := readOnce(file)
	if err = errors.Join(err, os.Remove(file)); err != nil {
		return fmt.Errorf("read the setup: %w", err)
	}
	s, o, err := parseSetup(raw)
	if err != nil {
		return err
	}
	if s.ProxyPort != 0 {
		return errors.New("a socket cannot be handed out to an engine elsewhere")
	}
	if o.Token == "" {
		return errors.New("the setup has no token")
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	return Serve(context.Background(), l, o)
}

// parseSetup turns a Setup into the server's options, with what the image says.
func parseSetup(raw []byte) (s wire.Setup, o Options, err error) {
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, o, fmt.Errorf("read the setup: %w", err)
	}
	env := map[string]string{}
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	maps.Copy(env, s.Env)
	home := cmp.Or(s.Home, env["HOME"])
	if !filepath.IsAbs(home) || home == "/" {
		home = "/root"
	}
	env["HOME"] = home
	dir := s.Dir
	if dir == "" {
		dir, err = os.Getwd()
		if err != nil || dir == "/" {
			dir = home
		}
	}
	for _, d := range []string{home, wire.Join(home, dir)} {
		if err := makeDir(d, s.User); err != nil {
			return s, o, err
		}
	}
	o.Options = host.Options{ID: s.ID, Home: home, Dir: dir, Env: env, User: s.User, Grace: s.Grace,
		Spawn:  locked, // engines differ in what theirs refuses
		Resets: s.Reset, Private: s.Reset, Scratch: []string{"/tmp", "/var/tmp", "/dev/shm"}, Reap: os.Getpid() == 1, OOM: host.OwnOOM()}
	o.Token, o.Orphan = s.Token, s.Alone
	return s, o, nil
}

// locked denies new privileges, the calls that the filter refuses, and SETPCAP to the commands
// that a thread starts. This process keeps SETPCAP: the kernel lets no process change the
// priority, scheduling or cores of one that has a capability which it lacks.
func locked() error {
	if err := keepSetpcap(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return filter.Load(false)
}

// keepSetpcap keeps the capability SETPCAP, where this process has it, from what the thread
// executes.
func keepSetpcap() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return fmt.Errorf("read the own capabilities: %w", err)
	}
	const bit = 1 << unix.CAP_SETPCAP
	if caps[0].Effective&bit == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SETPCAP, 0, 0, 0); err != nil {
		return fmt.Errorf("keep a capability from commands: %w", err)
	}
	caps[0].Inheritable &^= bit // and with it from the ambient ones
	if err := unix.Capset(&head, &caps[0]); err != nil {
		return fmt.Errorf("keep a capability from commands: %w", err)
	}
	return nil
}

// makeDir makes a folder, where it is missing, that the user of commands may write to.
func makeDir(path string, u *wire.User) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if u == nil {
		return nil
	}
	return os.Chown(path, int(u.UID), int(u.GID))
}

// spareThreads makes n OS threads, which the runtime keeps. A box that is full of its
// commands' processes has no room for new ones, and a runtime that cannot make a thread
// ends its process.
func spareThreads(n int) {
	var all sync.WaitGroup
	hold := make(chan struct{})
	for range n {
		all.Add(1)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			<-hold
		}()
	}
	all.Wait()
	close(hold)
}

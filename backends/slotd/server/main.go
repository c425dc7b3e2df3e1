//go:build linux

package server

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends/slotd/filter"
	"hermes/backends/slotd/host"
	"hermes/backends/slotd/wire"
)

// Main is the program. args are those after the program's name; it returns the exit code:
// 0 ended as asked, 1 failed, 2 not understood.
//
//	serve --listen unix:PATH|tcp:ADDRESS|fd:N --home DIR …    answers until SIGTERM or the end of --life
//	box --connect PATH | --listen PATH --setup FILE            the first process of an engine's box
//	dial PATH                                                  joins its streams with a socket
//	probe                                                      says as JSON what this place can do
//	calls                                                      says as JSON which system calls this place allows
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		args = []string{"help"}
	}
	var err error
	switch args[0] {
	case "serve":
		err = serve(args[1:], stdin, stderr)
	case "box":
		err = box(args[1:], stderr)
	case "dial":
		err = dial(args[1:], stdin, stdout)
	case "probe":
		err = probe(stdout)
	case "calls":
		err = calls(stdout)
	default:
		fmt.Fprintf(stderr, "%s: no command %q (have serve, box, dial, probe, calls)\n", wire.Name, args[0])
		return 2
	}
	var bad usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &bad):
		fmt.Fprintf(stderr, "%s %s: %v\n", wire.Name, args[0], err)
		return 2
	case err != nil:
		fmt.Fprintf(stderr, "%s %s: %v\n", wire.Name, args[0], err)
		return 1
	}
	return 0
}

// usageError is a command line that was not understood.
type usageError struct{ error }

// serve runs the server until a signal, or until the pipe named by --life ends.
func serve(args []string, stdin io.Reader, stderr io.Writer) error {
	o := Options{Options: host.Options{Env: map[string]string{}}}
	f := flag.NewFlagSet("serve", flag.ContinueOnError)
	f.SetOutput(stderr)
	listen := f.String("listen", "", "unix:PATH, tcp:ADDRESS or fd:N")
	token := f.String("token", "", "where the bearer token is: stdin, read to its end, or a file, which is removed")
	life := f.String("life", "", "fd:N of a pipe whose end ends the server")
	f.StringVar(&o.Home, "home", "/", "home of commands")
	f.StringVar(&o.Dir, "dir", "", "working directory of commands; empty: home")
	f.StringVar(&o.ID, "id", "", "name of the box")
	f.BoolVar(&o.Confine, "confine", false, "keep file calls below home")
	f.BoolVar(&o.Leases, "leases", false, "give out leases: the token is the administrator's")
	f.DurationVar(&o.Orphan, "orphan", 0, "end after this time without any call; 0: never")
	f.BoolVar(&o.Resets, "resets", false, "note what the box holds, so that it can be reset")
	f.BoolVar(&o.Private, "private", false, "all that is seen here (processes, file systems, ports) is the box's own")
	f.Func("scratch", "folder beside home that a reset empties", func(v string) error { o.Scratch = append(o.Scratch, v); return nil })
	f.BoolVar(&o.Reap, "reap", os.Getpid() == 1, "collect orphans")
	f.DurationVar(&o.Grace, "grace", time.Second, "between TERM and KILL")
	f.Func("env", "NAME=VALUE for every command", func(v string) error { return addEnv(o.Env, v) })
	f.Func("rlimit", "as|core|cpu|data|fsize|nofile|nproc=N for every command", func(v string) error { return addLimit(&o.Options, v) })
	f.Func("user", "UID:GID of commands", func(v string) error { return setUser(&o.Options, v) })
	if err := f.Parse(args); err != nil {
		return usageError{err}
	}
	if f.NArg() > 0 {
		return usageError{fmt.Errorf("unknown argument %q", f.Arg(0))}
	}
	if o.Leases {
		o.Resets = true
	}
	var err error
	o.Token, err = readToken(*token, stdin)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if *life != "" {
		pipe, err := inherited(*life)
		if err != nil {
			return usageError{err}
		}
		go func() {
			io.Copy(io.Discard, pipe)
			stop()
		}()
	}
	l, err := listener(*listen)
	if err != nil {
		return fmt.Errorf("listen on %q: %w", *listen, err)
	}
	return Serve(ctx, l, o)
}

func addEnv(env map[string]string, v string) error {
	name, value, ok := strings.Cut(v, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not NAME=VALUE", v)
	}
	env[name] = value
	return nil
}

func addLimit(o *host.Options, v string) error {
	known := map[string]int{"as": unix.RLIMIT_AS, "core": unix.RLIMIT_CORE, "cpu": unix.RLIMIT_CPU, "data": unix.RLIMIT_DATA,
		"fsize": unix.RLIMIT_FSIZE, "nofile": unix.RLIMIT_NOFILE, "nproc": unix.RLIMIT_NPROC}
	name, value, _ := strings.Cut(v, "=")
	n, err := strconv.ParseUint(value, 10, 64)
	resource, ok := known[name]
	if err != nil || !ok {
		return fmt.Errorf("%q is not LIMIT=NUMBER", v)
	}
	o.Rlimits = append(o.Rlimits, host.Rlimit{Resource: resource, Value: n})
	return nil
}

func setUser(o *host.Options, v string) error {
	u, g, _ := strings.Cut(v, ":")
	uid, err1 := strconv.ParseUint(u, 10, 32)
	gid, err2 := strconv.ParseUint(g, 10, 32)
	if err1 != nil || err2 != nil {
		return fmt.Errorf("%q is not UID:GID", v)
	}
	o.User = &wire.User{UID: uint32(uid), GID: uint32(gid)}
	return nil
}

// readToken reads the token from where only the server can: never from arguments or
// environment, which every process of the box may read.
func readToken(from string, stdin io.Reader) (string, error) {
	var raw []byte
	var err error
	switch from {
	case "":
		return "", nil
	case "stdin":
		raw, err = io.ReadAll(io.LimitReader(stdin, 4096))
	default:
		raw, err = readOnce(from)
		err = errors.Join(err, os.Remove(from))
	}
	text := strings.TrimSpace(string(raw))
	if err == nil && text == "" {
		err = errors.New("it is empty")
	}
	return text, err
}

// inherited is a file that the starter of this process left open.
func inherited(name string) (*os.File, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "fd:"))
	if err != nil || n < 3 {
		return nil, fmt.Errorf("%q is not fd:N with N of 3 or more", name)
	}
	f := os.NewFile(uintptr(n), name)
	if f == nil {
		return nil, fmt.Errorf("%q is not open", name)
	}
	return f, nil
}

// listener opens what --listen names.
func listener(where string) (net.Listener, error) {
	kind, rest, _ := strings.Cut(where, ":")
	switch kind {
	case "unix", "tcp":
		return net.Listen(kind, rest)
	case "fd":
		f, err := inherited(where)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return net.FileListener(f)
	}
	return nil, errors.New("it is none of unix:PATH, tcp:ADDRESS, fd:N")
}

// dial joins stdin and stdout with a unix socket until both directions have ended.
func dial(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) != 1 {
		return usageError{errors.New("need the path of a socket")}
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: args[0]})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(stdout, wire.Hello); err != nil {
		return err
	}
	go func() {
		io.Copy(c, stdin)
		c.CloseWrite()
	}()
	_, err = io.Copy(stdout, c)
	return err
}

// probe writes what a server in this place could do.
func probe(stdout io.Writer) error {
	h, err := host.New(host.Options{Home: "/"})
	if err != nil {
		return err
	}
	e := json.NewEncoder(stdout)
	e.SetIndent("", "  ")
	return errors.Join(e.Encode(h.Info()), h.Close(context.Background()))
}

// calls writes what becomes of system calls in this place.
func calls(stdout io.Writer) error {
	s, err := filter.Probe()
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(s)
}

//go:build linux

package singularity_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// The stand-in for the program apptainer, for tests where it is not installed. It objects to
// every command line that is outside of the documented grammar, keeps instances, and really
// separates them: files, processes, network, names. Limits are read and not enforced, and
// it needs root.
//
// It keeps its instances below $APPTAINER_CONFIGDIR. Images are folders, or files that it
// made itself by pull: `docker://NAME` is the folder to which the link
// $APPTAINER_CONFIGDIR/images/NAME leads.

// standInName is how a program must be called to be the stand-in.
const standInName = "apptainer"

// holder is the hidden command of an instance's first process.
const holder = "hold-instance"

// magic begins the images that the stand-in makes.
const magic = "stand-in for a SIF of "

// standInMain is the program when it was called as such: then handled is true.
func standInMain(args []string, stdout, stderr io.Writer) (code int, handled bool) {
	if len(args) == 0 || filepath.Base(args[0]) != standInName {
		return 0, false
	}
	if len(args) == 3 && args[1] == holder {
		return hold(args[2]), true
	}
	err := run(args[1:], stdout)
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "Error for command %q: %v\n", strings.Join(args[1:], " "), err)
		return 1, true
	case err != nil:
		fmt.Fprintf(stderr, "FATAL:   %v\n", err)
		return 255, true
	}
	return 0, true
}

type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func run(args []string, stdout io.Writer) error {
	if dir := os.Getenv("APPTAINER_CONFIGDIR"); dir == "" {
		return errors.New("the stand-in needs APPTAINER_CONFIGDIR")
	}
	two := strings.Join(args[:min(2, len(args))], " ")
	switch {
	case len(args) == 1 && args[0] == "--version":
		_, err := fmt.Fprintln(stdout, "apptainer version 1.3.6-stand-in")
		return err
	case two == "instance start":
		return start(args[2:])
	case two == "instance stop":
		return stop(args[2:])
	case two == "instance list":
		return list(args[2:], stdout)
	case len(args) > 0 && args[0] == "exec":
		return execute(args[1:])
	case len(args) > 0 && (args[0] == "pull" || args[0] == "build"):
		return pull(args[1:])
	}
	return usage("unknown command")
}

// instance is what is kept of one.
type instance struct {
	Name string `json:"instance"`
	PID  int    `json:"pid"`
	Img  string `json:"img"`
	IP   string `json:"ip"`
	Out  string `json:"logOutPath"`
	Err  string `json:"logErrPath"`
}

func state(parts ...string) string {
	return filepath.Join(append([]string{os.Getenv("APPTAINER_CONFIGDIR")}, parts...)...)
}

func record(name string) string { return state("instances", name+".json") }

// load reads an instance; one that has ended is forgotten.
func load(name string) (*instance, error) {
	raw, err := os.ReadFile(record(name))
	if err != nil {
		return nil, fmt.Errorf("no instance found with name %s", name)
	}
	var i instance
	if err := json.Unmarshal(raw, &i); err != nil {
		return nil, err
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", i.PID)); err != nil || !strings.Contains(string(line), name) {
		forget(name)
		return nil, fmt.Errorf("no instance found with name %s", name)
	}
	return &i, nil
}

func forget(name string) {
	os.Remove(record(name))
	os.Remove(state("roots", name))
}

func list(args []string, stdout io.Writer) error {
	o, rest, err := parse(args, map[string]form{"json": nil})
	if err != nil || len(rest) > 1 || !o.has("json") {
		return usage("instance list: %v %v", rest, err)
	}
	all := struct {
		Instances []instance `json:"instances"`
	}{[]instance{}}
	found, _ := filepath.Glob(record("*"))
	for _, path := range found {
		if i, err := load(strings.TrimSuffix(filepath.Base(path), ".json")); err == nil {
			all.Instances = append(all.Instances, *i)
		}
	}
	return json.NewEncoder(stdout).Encode(all)
}

func stop(args []string) error {
	o, rest, err := parse(args, map[string]form{"force": nil, "timeout": number, "signal": text})
	if err != nil || len(rest) != 1 || !o.has("force") {
		return usage("instance stop: %v %v", rest, err)
	}
	i, err := load(rest[0])
	if err != nil {
		return err
	}
	defer forget(i.Name)
	fd, err := unix.PidfdOpen(i.PID, 0)
	if err != nil {
		return nil // it ended just now
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return err
	}
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err != unix.EINTR {
			return err
		}
	}
}

func pull(args []string) error {
	_, rest, err := parse(args, map[string]form{"force": nil, "disable-cache": nil, "arch": text})
	if err != nil || len(rest) != 2 {
		return usage("pull: %v %v", rest, err)
	}
	name, ok := strings.CutPrefix(rest[1], "docker://")
	if !ok {
		return usage("pull from %q", rest[1])
	}
	dir, err := os.Readlink(state("images", strings.ReplaceAll(name, "/", "_")))
	if err != nil {
		return fmt.Errorf("while making image from oci registry: conveyor failed to get: reading manifest %s: manifest unknown", name)
	}
	return os.WriteFile(rest[0], []byte(magic+dir), 0o755)
}

// rootOf is the folder with the root of an image.
func rootOf(image string) (string, error) {
	s, err := os.Stat(image)
	if err != nil || s.IsDir() {
		return image, err
	}
	raw := make([]byte, 4096)
	f, err := os.Open(image)
	if err != nil {
		return "", err
	}
	defer f.Close()
	n, _ := f.Read(raw)
	dir, ok := strings.CutPrefix(string(raw[:n]), magic)
	if !ok {
		return "", fmt.Errorf("could not open image %s: image format not recognized", image)
	}
	return dir, nil
}

// validName is what an instance may be called.
func validName(name string) bool {
	return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]*$`).MatchString(name)
}

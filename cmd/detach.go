package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

// detachFlags let a run go on without its terminal.
type detachFlags struct {
	Detach   bool `nokey:"" help:"Go on in the background, in a new session; returns when the run has begun."`
	Detached bool `nokey:"" hidden:"" help:"This is the process in the background: tells file 3 when the run has begun."`
}

// logName is where a detached run says in its directory what it would say on a terminal.
const logName = "hermes.log"

// begun is what the process in the background writes when the run is open.
const begun = "begun\n"

// detach starts the same command in the background and waits until its run has begun. It
// returns away false in the process that is to do the work.
func (f detachFlags) detach(h *host, dir string, dry bool, datasets []string) (away bool, err error) {
	if f.Detached {
		pipe := os.NewFile(3, "parent")
		syscall.CloseOnExec(3) // boxes are no business of the parent's
		h.opened = func(string) {
			io.WriteString(pipe, begun) // a parent that was killed does not read
			pipe.Close()
		}
		return false, nil
	}
	if !f.Detach || dry {
		return false, nil
	}
	if slices.Contains(datasets, "-") {
		return true, Usage("--detach: rows from stdin cannot be read in the background; write them to a file")
	}
	if h.Program == "" {
		return true, errors.New("--detach: the path of this program is unknown")
	}
	return true, h.background(dir)
}

// background is the parent's part: a child in its own session, whose output goes to a
// file. Where the child ends before the run has begun, what it said and its exit code are
// ours.
func (h *host) background(dir string) error {
	parent, name := filepath.Split(dir)
	if err := os.MkdirAll(filepath.Clean(parent), 0o755); err != nil {
		return Usage("--detach: %w", err)
	}
	log, err := os.CreateTemp(filepath.Clean(parent), "."+name+"-*.log")
	if err != nil {
		return Usage("--detach: %w", err)
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("--detach: %w", err), os.Remove(log.Name()))
	}
	defer r.Close()
	child := &exec.Cmd{Path: h.Program, Args: append([]string{"hermes"}, withFlag(h.args, "--detached")...), Stdout: log, Stderr: log,
		ExtraFiles: []*os.File{w}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	err = child.Start()
	w.Close()
	if err != nil {
		return errors.Join(fmt.Errorf("--detach: start %s: %w", h.Program, err), os.Remove(log.Name()))
	}
	said := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(io.LimitReader(r, int64(len(begun)))) // an error is no answer
		said <- string(b)
	}()
	var answer string
	select {
	case answer = <-said:
	case <-h.Signals.Drain():
		child.Process.Signal(syscall.SIGTERM)
		answer = <-said
	}
	if answer != begun {
		return h.neverBegun(child, log)
	}
	file := filepath.Join(dir, logName)
	if err := os.Rename(file, file+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(log.Name(), file); err != nil {
		return err
	}
	pid := child.Process.Pid
	if err := child.Process.Release(); err != nil {
		return err
	}
	return h.tellDetached(dir, file, pid)
}

func (h *host) neverBegun(child *exec.Cmd, log *os.File) error {
	err := child.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if _, err := log.Seek(0, io.SeekStart); err == nil {
		io.Copy(h.Stdio.Err, log)
	}
	code := child.ProcessState.ExitCode()
	if code < 0 {
		return errors.Join(fmt.Errorf("the process in the background ended before the run began: %w", err), os.Remove(log.Name()))
	}
	if err := os.Remove(log.Name()); err != nil {
		return err
	}
	return &Exit{Code: code}
}

// detached is what `--detach --json` prints.
type detached struct {
	Run string `json:"run"`
	PID int    `json:"pid"`
	Log string `json:"log"`
}

func (h *host) tellDetached(dir, log string, pid int) error {
	for _, f := range h.parsed.Flags() {
		if f.Name == "json" && f.Target.Bool() {
			return printJSON(h.Stdio.Out, detached{dir, pid, log})
		}
	}
	_, err := fmt.Fprintf(h.Stdio.Out, `the run goes on as process %d
  hermes runs ctl %[2]s status     how far it is; pause, resume, set concurrency=N, cancel ID, requeue ID
  hermes runs tail -f %[2]s        records as they come
  hermes runs view %[2]s           a page to look at it
  %[3]s                            what it says
  kill %[1]d                       ends it; the same command resumes
`, pid, dir, log)
	return err
}

// withFlag adds a flag to arguments, before a "--" behind which there are none.
func withFlag(args []string, flag string) []string {
	i := slices.Index(args, "--")
	if i < 0 {
		i = len(args)
	}
	return slices.Insert(slices.Clone(args), i, flag)
}

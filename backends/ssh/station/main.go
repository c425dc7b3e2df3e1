//go:build linux

package station

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"hermes/backends/slotd/wire"
)

// serveCommand is the sub-command that is the station itself.
const serveCommand = "station-serve"

// startTime bounds how long a station may take to get ready on a loaded machine.
const startTime = 2 * time.Minute

// Main is the program on the host when args (with the program's name) ask for it: then
// handled is true and the program must exit with code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int, handled bool) {
	if len(args) != 2 || filepath.Base(args[0]) != wire.Name {
		return 0, false
	}
	var err error
	switch args[1] {
	case Command:
		err = launch(stdin, stdout)
	case serveCommand:
		err = serve(stdin, stdout)
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s %s: %v\n", wire.Name, args[1], err)
		return 1, true
	}
	return 0, true
}

// launch starts the station apart from the session and passes its answer on.
func launch(stdin io.Reader, stdout io.Writer) error {
	c := exec.Command("/proc/self/exe")
	c.Args = []string{wire.Name, serveCommand}
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Stdin = stdin
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("start the station: %w", err)
	}
	late := time.AfterFunc(startTime, func() { c.Process.Kill() })
	defer late.Stop()
	answer, err := io.ReadAll(io.LimitReader(out, 1<<20))
	if err == nil && len(answer) == 0 {
		err = errors.Join(errors.New("the station ended without a word"), c.Wait())
	}
	if err != nil {
		return err
	}
	_, err = stdout.Write(answer)
	return err
}

// serve is the station. It closes its output when it is ready, so that launch can return.
func serve(stdin io.Reader, stdout io.Writer) error {
	say := func(r Ready) error {
		err := json.NewEncoder(stdout).Encode(r)
		if c, ok := stdout.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(stdin, 1<<20))
	var s Setup
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return errors.Join(err, say(Ready{Error: faultOf(fmt.Errorf("read the setup: %w", err))}))
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	said := false
	own, _ := os.Executable()
	err = run(ctx, s, func(r Ready) error {
		said = true
		forgetPrograms(filepath.Dir(filepath.Dir(s.Dir)), own)
		return say(r)
	})
	if err != nil && !said {
		return errors.Join(err, say(Ready{Error: faultOf(err)}))
	}
	return err
}

package singularity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"hermes/backends"
)

// maxSaid bounds what is kept of what the program says.
const maxSaid = 1 << 20

// singular is apptainer or singularity. Every call has a separate session, so that a
// signal to hermes does not reach it and what it leaves behind can be ended with it.
type singular struct {
	path    string
	version string
	env     []string
}

// names are looked for in PATH, in this order.
func names() []string { return []string{"apptainer", "singularity"} }

// findProgram finds the program and asks for its version.
func findProgram(ctx context.Context, configured string, at Surroundings) (*singular, error) {
	p := &singular{path: configured, env: at.environ()}
	for _, name := range names() {
		if p.path != "" {
			break
		}
		for _, dir := range filepath.SplitList(at.Path) {
			full := filepath.Join(dir, name)
			if s, err := os.Stat(full); err == nil && s.Mode().IsRegular() && s.Mode()&0o111 != 0 && filepath.IsAbs(full) {
				p.path = full
				break
			}
		}
	}
	if p.path == "" {
		return nil, fmt.Errorf("neither %s is installed", strings.Join(names(), " nor "))
	}
	out, err := p.run(ctx, "--version")
	if err != nil {
		return nil, err
	}
	p.version = strings.TrimSpace(string(out))
	return p, nil
}

// failure is a call that ended with an exit code.
type failure struct {
	what, said string
	err        error
}

func (f *failure) Error() string { return fmt.Sprintf("%s: %v: %s", f.what, f.err, f.said) }
func (f *failure) Unwrap() error { return f.err }

// command prepares a call; there is no shell.
func (p *singular) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, p.path, args...)
	c.Env, c.Dir = p.env, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = time.Second
	return c
}

// run calls the program to its end and returns what it wrote.
func (p *singular) run(ctx context.Context, args ...string) ([]byte, error) {
	return p.complete(ctx, p.command(ctx, args...))
}

// startTime is how long the start of an instance may go on after its caller has left. One
// that is killed in the middle may leave an instance that the program knows nothing of.
const startTime = 30 * time.Second

// start starts an instance.
func (p *singular) start(ctx context.Context, args ...string) error {
	c := p.command(ctx, args...)
	kill := c.Cancel
	var late *time.Timer
	c.Cancel = func() error {
		late = time.AfterFunc(startTime, func() { kill() })
		return nil
	}
	c.WaitDelay = startTime + time.Second
	_, err := p.complete(ctx, c)
	if late != nil {
		late.Stop()
	}
	return err
}

// complete runs a prepared call.
func (p *singular) complete(ctx context.Context, c *exec.Cmd) ([]byte, error) {
	args := c.Args[1:]
	// Files, not pipes: what an instance inherits must not keep us waiting.
	out, err := os.CreateTemp("", "hermes-said-")
	if err != nil {
		return nil, fmt.Errorf("keep what %s says: %w", p.path, err)
	}
	os.Remove(out.Name())
	defer out.Close()
	said, err := os.CreateTemp("", "hermes-said-")
	if err != nil {
		return nil, fmt.Errorf("keep what %s says: %w", p.path, err)
	}
	os.Remove(said.Name())
	defer said.Close()
	c.Stdout, c.Stderr = out, said
	err = c.Run()
	text := make([]byte, maxSaid)
	n, _ := out.ReadAt(text, 0)
	if err == nil {
		return text[:n], nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(p.path), args[0], context.Cause(ctx))
	}
	n, _ = said.ReadAt(text, 0)
	what := filepath.Base(p.path) + " " + args[0]
	if len(args) > 1 && args[0] == "instance" {
		what += " " + args[1]
	}
	return nil, &failure{what: what, said: lastLines(text[:n]), err: err}
}

// lastLines is the end of a text, in one line.
func lastLines(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	if len(lines) > 5 {
		lines = lines[len(lines)-5:]
	}
	return string(bytes.Join(lines, []byte("; ")))
}

// instance is one line of `instance list`.
type instance struct {
	Name string `json:"instance"`
	PID  int    `json:"pid"`
	Log  string `json:"logErrPath"`
}

// instances lists those of this user whose names begin with a text.
func (p *singular) instances(ctx context.Context, prefix string) ([]instance, error) {
	raw, err := p.run(ctx, "instance", "list", "--json")
	if err != nil {
		return nil, err
	}
	var all struct {
		Instances []instance `json:"instances"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("instance list: %w", err)
	}
	var ours []instance
	for _, i := range all.Instances {
		if strings.HasPrefix(i.Name, prefix) {
			ours = append(ours, i)
		}
	}
	return ours, nil
}

// find returns one instance, or nil when there is none of that name.
func (p *singular) find(ctx context.Context, name string) (*instance, error) {
	all, err := p.instances(ctx, name)
	for _, i := range all {
		if i.Name == name {
			return &i, err
		}
	}
	return nil, err
}

// stop ends an instance. That there is none means that it is stopped.
func (p *singular) stop(ctx context.Context, name string) error {
	for try := 1; ; try++ {
		_, err := p.run(ctx, "instance", "stop", "--force", name)
		if err == nil {
			return nil
		}
		found, ferr := p.find(ctx, name)
		if ferr == nil && found == nil {
			return nil
		}
		if try == 3 || ctx.Err() != nil {
			return errors.Join(err, ferr)
		}
	}
}

// pullError sorts what the program says of an image.
func pullError(image string, err error) error {
	if _, ok := errors.AsType[*failure](err); ok {
		return fmt.Errorf("image %q: %w: %w", image, backends.ErrImage, err)
	}
	return fmt.Errorf("image %q: %w", image, err)
}

//go:build linux

package singularity_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// programs are what the boxes of these tests are made with.
type programs struct{ standIn, slotd string }

// built makes them once a run, below builtIn: slotd, which needs no library, and, where
// this program is slow to start because races are looked for, a stand-in that is not.
var built = sync.OnceValues(func() (p programs, err error) {
	p.slotd = filepath.Join(builtIn(), "slotd")
	if err := goTool("build", "-o", p.slotd, "hermes/cmd/slotd"); err != nil {
		return p, err
	}
	if !raced {
		p.standIn, err = os.Executable()
		return p, err
	}
	p.standIn = filepath.Join(builtIn(), "stand-in")
	return p, goTool("test", "-c", "-o", p.standIn, "hermes/backends/singularity")
})

// builtIn is removed when the tests have run.
var builtIn = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "hermes-singularity-test-")
	if err != nil {
		panic(err)
	}
	return dir
})

func goTool(args ...string) error {
	c := exec.Command("go", args...)
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", args[0], err, out)
	}
	return nil
}

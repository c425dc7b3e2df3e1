//go:build linux

package namespace

import (
	"fmt"
	"os"
	"strings"
	"time"

	"hermes/backends/egress"
)

// Kill ends pid 1 of a box from outside and waits until it is gone.
func (b *Backend) Kill(id string) error {
	for _, x := range b.held.All() {
		if x.id == id {
			err := x.proc.Signal(os.Kill)
			<-x.gone
			return err
		}
	}
	return fmt.Errorf("no box %s", id)
}

// WithProgram makes boxes of a slotd program at a path, as a hermes does that has it built in.
func (c Config) WithProgram(path string) Config {
	c.program = path
	return c
}

// Groups are the cgroups of a box.
func (b *Backend) Groups(id string) []string {
	for _, x := range b.held.All() {
		if x.id == id {
			return x.group.dirs
		}
	}
	return nil
}

// Settle waits until no box is being made ahead.
func (b *Backend) Settle() { b.spares.Wait() }

// KillSpare ends the box that was made ahead, which stays where it is.
func (b *Backend) KillSpare() bool {
	select {
	case x := <-b.spare:
		x.proc.Kill()
		<-x.gone
		b.spare <- x
		return x.key != ""
	default:
		return false
	}
}

// Outside gives the proxy another network beyond it. No box is open.
func (b *Backend) Outside(o egress.Outside) (err error) {
	b.spares.Wait()
	if err := b.proxy.Close(); err != nil {
		return err
	}
	b.proxy, err = egress.New(b.conf.Egress, "backends.namespace.egress", o)
	return err
}

// Memory is what the processes of all servers in boxes take, in bytes, each page shared
// by several counted in parts.
func (b *Backend) Memory() (total int64) {
	for _, x := range b.held.All() {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", x.proc.Pid))
		_, rest, _ := strings.Cut(string(raw), "\nPss:")
		var kib int64
		fmt.Sscan(rest, &kib)
		total += kib << 10
	}
	return total
}

// Woken says whether slotd serves a box, or its first process still starts commands itself.
func (b *Backend) Woken(id string) bool {
	for _, x := range b.held.All() {
		if x.id == id {
			x.starting.RLock()
			defer x.starting.RUnlock()
			return x.woken
		}
	}
	return false
}

// Stuck notes that a box waited for a stopped child at a time.
func (b *Backend) Stuck(id string, at time.Time) {
	for _, x := range b.held.All() {
		if x.id == id {
			x.stuck.Store(at.UnixNano())
		}
	}
}

// PID is the first process of a box as the host counts.
func (b *Backend) PID(id string) int {
	for _, x := range b.held.All() {
		if x.id == id {
			return x.proc.Pid
		}
	}
	return -1
}

// Need notes that a box needs slotd, so that later ones have it from the start.
func (b *Backend) Need(id string) {
	for _, x := range b.held.All() {
		if x.id == id {
			x.needed.Store(true)
		}
	}
}

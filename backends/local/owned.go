//go:build linux

package local

import (
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"hermes/backends"
)

// lockEnd ends the name of the file that a back-end holds locked for as long as it lives. The
// kernel lets go of the lock when the process ends, however it does, and everybody who sees the
// folder sees the lock, also from another pid namespace, where pids say nothing.
const lockEnd = ".lock"

// owned is the lock of a back-end that has made a box. The zero value holds none.
type owned struct {
	mu   sync.Mutex
	file *os.File
	name string
}

// take makes the lock, unless it is there. It gets its name when it is locked: whoever finds one
// that can be locked knows that its owner is dead.
func (o *owned) take(dir string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		return nil
	}
	f, err := os.CreateTemp(dir, ".hermes-lock-")
	if err != nil {
		return err
	}
	name := filepath.Join(dir, prefix+backends.Self().String()+"-"+filepath.Base(f.Name())[len(".hermes-lock-"):]+lockEnd)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		os.Remove(f.Name())
		f.Close()
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		os.Remove(f.Name())
		f.Close()
		return err
	}
	o.file, o.name = f, name
	return nil
}

// release removes the lock.
func (o *owned) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil {
		os.Remove(o.name)
		o.file.Close()
		o.file = nil
	}
}

// locks lists the locks of an owner.
func locks(dir, owner string) []string {
	found, err := filepath.Glob(filepath.Join(dir, prefix+owner+"-*"+lockEnd))
	if err != nil {
		return nil
	}
	return found
}

// isDead reports that no process uses the boxes of an owner any more. An owner of this pid
// namespace is known by its pid and start time, whatever its boxes did to the locks. Another
// owner is known by its locks; without any it counts as alive.
func isDead(dir string, owner backends.Owner) bool {
	if owner.Near() {
		return owner.Dead()
	}
	all := locks(dir, owner.String())
	for _, lock := range all {
		if !free(lock) {
			return false
		}
	}
	return len(all) > 0
}

// free reports whether no process holds a lock. A lock that cannot be opened counts as held.
func free(lock string) bool {
	fd, err := unix.Open(lock, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil
}

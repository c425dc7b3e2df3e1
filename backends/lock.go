package backends

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// LockFile takes a file, which it makes if need be, that one at a time may have, of all
// processes, until unlock is called or its process ends. It waits in its own thread,
// which goes on to wait, and lets go, when ctx ends first.
func LockFile(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	got := make(chan error, 1)
	go func() {
		var err error
		for err = unix.EINTR; err == unix.EINTR; {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		got <- err
	}()
	select {
	case err := <-got:
		if err != nil {
			f.Close()
			return nil, err
		}
		return func() { f.Close() }, nil
	case <-ctx.Done():
		go func() {
			<-got
			f.Close()
		}()
		return nil, context.Cause(ctx)
	}
}

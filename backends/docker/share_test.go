//go:build linux

package docker_test

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/docker"
)

// timers makes timers until it is refused, or has a number of them, and says how many.
const timers = `python3 -c '
import ctypes
libc, n, t = ctypes.CDLL(None, use_errno=True), 0, ctypes.c_void_p()
while n < %d and libc.timer_create(1, None, ctypes.byref(t)) == 0: n += 1
print(n)
'`

// TestShares: what a box takes of the kernel ends at its limit, and the root of the host, who is the same user to
// the kernel, still gets his.
func TestShares(t *testing.T) {
	b := open(t, docker.Config{Image: "hermes-test:python", Limits: docker.Limits{Signals: 500, Queues: 100000}})
	x := boxOf(t, b, backends.Spec{})
	if _, out := sh(t, x, "bash -c 'ulimit -Hi; ulimit -Hq; ulimit -Hl; ulimit -Hr; ulimit -He'"); out != "500\n100000\n1024\n0\n0" {
		t.Errorf("limits of a box: %q", strings.Fields(out))
	}
	_, out := sh(t, x, fmt.Sprintf(timers, 100000))
	var n int
	if fmt.Sscan(out, &n); n == 0 || n > 500 {
		t.Errorf("a box that may have 500 timers got %s", out)
	}
	hold := strings.Replace(fmt.Sprintf(timers, 100000), "print(n)", "print(n, flush=True)\nimport time\ntime.sleep(3600)", 1)
	sh(t, x, hold+" > got 2>&1 & while [ ! -s got ]; do sleep 0.02; done") // which keeps them until the box ends
	var id int32
	if _, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&id))); errno != 0 {
		t.Errorf("the host gets no timer: %v", errno)
	} else {
		unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0)
	}
	for _, bad := range []docker.Limits{{Signals: -1}, {Signals: 3}, {Queues: -1}} {
		if err := (docker.Config{Limits: bad}).Check(); err == nil || !strings.Contains(err.Error(), "limit ") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

//go:build linux

// Package pid1 is the first process of a box before anything has to be served there: a
// copy of a small helper that plays lists of system calls.
//
// A box is to cost as little as the kernel lets it. A separate program as pid 1, however
// small, is loaded, linked and paged in with every box, and stays in memory: a box
// with one command takes 3.4 ms of processor time, 7.6 ms with slotd in it
// (docs/decisions/pid1.md). So pid 1 is
// cloned and never executes anything: it waits on its socket for a [List], plays it in
// itself (to build the box) or in a child (to start a command), and reports how children
// end. What the calls are is decided by hermes, which writes the lists; pid 1 knows none of
// it. When a box needs more than commands, pid 1 plays a list that executes a server in its
// place: the process, its children and its socket stay what they are.
//
// [Fork] makes the process, in the helper. [Conn] is the host's end of its socket.
//
// # What the copy may do
//
// After the clone there is one thread and no Go runtime: no allocation, no growing of the
// stack, no scheduler, no lock that another thread of the helper may have held. The
// functions in play.go are all that runs there. They are nosplit, touch nothing but their
// [area], write no pointers, and call nothing but raw system calls. All signals are blocked
// for good, so that no handler of the runtime runs either; those that end a process by
// force need none. The stack is a copy of the helper's, which has made room in it before.
package pid1

//go:build linux

package pid1

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bounds of a list, and of what pid 1 keeps.
const (
	maxOps   = 1024
	maxData  = 512 << 10
	maxFDs   = 4   // that come with a message; they are the first slots
	maxSlots = 256 // results that later calls of a list use
	children = 32  // started and not yet reported
)

// The fixed descriptors of pid 1. Everything above belongs to lists.
const (
	// Socket is the end of the control socket to hermes.
	Socket = 3
	deaths = 4 // signalfd of SIGCHLD
	// Free is the first descriptor of lists.
	Free = 5
)

// Exit codes of pid 1, when neither the kernel nor the host ended it. A server that took its
// place has other codes.
const (
	ExitHelpless = 103 // it could not get the descriptors that it needs
	ExitNonsense = 104 // what came through the socket was no request
)

// The kinds of messages. Those to pid 1 are a request, its operations and its data; those
// from it a report. Both have the byte order and the alignment of the machine: they never
// leave it.
const (
	playHere  uint32 = 1 + iota // play the list in pid 1 itself
	playChild                   // play it in a child, which is expected to execute a program
	listChildren
)

const (
	played  uint32 = 1 + iota // the list came to its end, or a call of it failed
	refused                   // the list of a child did, which has ended
	ended                     // a child has ended
	running                   // in answer to listChildren: one that has not
	listed                    // all of them
	// Up is what a server says that was executed in the place of pid 1.
	Up
)

// request is what begins a message to pid 1.
type request struct {
	kind, ops, data, _ uint32
	id                 uint64
	_                  uint64
}

// Report is a message from pid 1.
type Report struct {
	Kind   uint32
	Errno  uint32 // why a call failed; 0: none did
	ID     uint64 // of the child
	Index  uint32 // of the call that failed
	Status uint32 // as from wait4
	PID    int64
	User   int64 // processor time in microseconds, with that of children it waited for
	System int64
	RSS    int64 // the most memory, in KiB
	Size   uint64
}

// reportSize is the size of a report on the wire.
const reportSize = int(unsafe.Sizeof(Report{}))

// op is one system call of a list.
type op struct {
	number uint32
	slots  uint8    // bit i: argument i is the result of an earlier call, by its slot
	result uint8    // slot for the result; noSlot: not needed
	skip   uint8    // calls to leave out after an error that is accepted
	_      uint8    //
	accept [4]uint8 // errors that are no failure
	_      uint32
	args   [6]uint64
}

const (
	opSize = int(unsafe.Sizeof(op{}))
	noSlot = 0xff
)

// child is an entry of the table of children.
type child struct{ pid, id uint64 }

// area is all the memory that pid 1 uses. It lies outside of the heap and has no pointers
// to Go's memory. Its address is the same in every copy of a helper, so that hermes writes
// absolute addresses into lists.
type area struct {
	request request
	report  Report
	slots   [maxSlots]uint64
	table   [children]child

	socket  uint64
	fds     uint64    // that came with the request
	more    bool      // children may have ended that were not collected yet
	mask    uint64    // a signal set
	action  [4]uint64 // struct sigaction: the default
	poll    [2]pollFD
	now     [2]uint64  // struct timespec: at once
	info    [128]byte  // struct signalfd_siginfo
	status  uint64     // of wait4
	usage   [18]uint64 // struct rusage
	vector  [2]uint64  // struct iovec
	message message
	control control

	ops  [maxOps]op
	data [maxData]byte
}

type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

// message is struct msghdr.
type message struct {
	name       uint64
	nameLen    uint64
	vector     uint64
	vectors    uint64
	control    uint64
	controlLen uint64
	flags      uint64
}

// control is a control message with descriptors.
type control struct {
	len   uint64
	level int32
	kind  int32
	fds   [maxFDs]int32
}

// cloneArgs is struct clone_args as far as Linux 5.7 has it.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// newArea maps an area. Pages that are not touched take no memory.
func newArea() (*area, error) {
	size := int(unsafe.Sizeof(area{}))
	raw, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return (*area)(unsafe.Pointer(&raw[0])), nil
}

// dataAt is where the data of lists lies.
func (a *area) dataAt() uint64 { return uint64(uintptr(unsafe.Pointer(&a.data))) }

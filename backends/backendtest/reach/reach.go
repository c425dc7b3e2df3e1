//go:build linux

// Package reach tries to get at the first process of a box, and at its threads, from a
// command: their limits, priority, scheduling, cores, signals, memory, descriptors and files
// in /proc.
//
// Each attempt runs as a separate program inside the box, which is the test's own program,
// put there by [Run]. So a test that uses this package calls [Main] before anything else.
package reach

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/slotd/filter"
)

// command is the first argument of the program that makes one attempt.
const command = "hermes-reach"

// Main makes an attempt when args ask for one: then handled is true and the program must
// exit with code, which is 0 when nothing of it worked.
func Main(args []string) (code int, handled bool) {
	if len(args) != 3 || args[1] != command {
		return 0, false
	}
	if args[2] == callsName {
		return calls(), true
	}
	f, ok := attempts()[args[2]]
	if !ok {
		fmt.Println("no such attempt")
		return 3, true
	}
	for _, id := range targets() {
		for _, did := range f(id) {
			fmt.Printf("thread %d: %s\n", id, did)
			code = 1
		}
	}
	return code, true
}

// callsName is the program that asks about every system call.
const callsName = "calls"

func calls() int {
	s, err := filter.Probe()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(s)
	}
	if err != nil {
		fmt.Println(err)
		return 3
	}
	return 0
}

// Calls asks in a box what becomes of every system call, and compares it with the list of
// the filter. No call is carried out. fewer says that an engine may refuse more.
func Calls(t *testing.T, x backends.Sandbox, fewer bool) {
	t.Helper()
	put(t, x)
	r, err := x.Exec(t.Context(), backends.Cmd{Argv: []string{"./reach", command, callsName}, Timeout: time.Minute})
	if err != nil || r.Code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", r.Code, err, r.Stdout, r.Stderr)
	}
	var s filter.Seen
	if err := json.Unmarshal(r.Stdout, &s); err != nil {
		t.Fatal(err)
	}
	open, bound, missing := filter.Groups()
	want := map[string][]string{}
	for what, groups := range map[string][]filter.Group{"allowed": open, "bound": bound, "absent": missing} {
		for _, g := range groups {
			want[what] = append(want[what], g.Calls()...)
		}
	}
	if all := len(s.Allowed) + len(s.Refused) + len(s.Absent) + len(s.Other); all < filter.Highest-1 {
		t.Errorf("%d calls were asked about, want %d but for those that no filter sees", all, filter.Highest+1)
	}
	t.Logf("%d allowed, %d refused, %d absent, %d other", len(s.Allowed), len(s.Refused), len(s.Absent), len(s.Other))
	if beyond := s.Beyond(); len(beyond) > 0 {
		t.Error("allowed, and not by the list: ", beyond)
	}
	for _, nr := range slices.Concat(s.Refused, s.Absent, s.Other) {
		if name := filter.Name(nr); !fewer && slices.Contains(want["allowed"], name) {
			t.Errorf("%s is of the list and not allowed", name)
		}
	}
	for _, nr := range s.Refused {
		if _, err := strconv.Atoi(filter.Name(nr)); err == nil && !fewer {
			t.Errorf("call %d is in no list and refused, want absent", nr)
		}
	}
	for _, name := range []string{"io_uring_setup", "bpf", "userfaultfd", "open_tree_attr", "listmount", "statmount", "fsopen", "move_mount",
		"memfd_secret", "keyctl", "perf_event_open", "listns"} {
		if slices.ContainsFunc(s.Allowed, func(nr uint32) bool { return filter.Name(nr) == name }) {
			t.Errorf("%s is allowed", name)
		}
	}
}

// put brings the test's program into a box, and slotd with it.
func put(t *testing.T, x backends.Sandbox) {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.WriteFile(t.Context(), "reach", raw, 0o755); err != nil {
		t.Fatal(err)
	}
}

// targets are the first process and its threads, which /proc may hide.
func targets() []int {
	all := []int{1}
	for id := 2; id < 400; id++ {
		if _, _, errno := unix.Syscall(unix.SYS_TGKILL, 1, uintptr(id), 0); errno == 0 {
			all = append(all, id)
		}
	}
	return all
}

// Run makes every attempt in a box whose slotd serves, and asks after each for a sign of life.
// open are those that may work, with the reason.
func Run(t *testing.T, x backends.Sandbox, open map[string]string) {
	t.Helper()
	put(t, x)
	names := slices.Sorted(maps.Keys(attempts()))
	for name := range open {
		if !slices.Contains(names, name) {
			t.Errorf("%q may work, and is no attempt", name)
		}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			r, err := x.Exec(t.Context(), backends.Cmd{Argv: []string{"./reach", command, name}, Merge: true, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			_, may := open[name]
			if r.Code > 1 || r.Code == 1 != may {
				t.Errorf("expected to work: %v; exit code %d, %s", may, r.Code, r.Stdout)
			}
			if err := x.WriteFile(t.Context(), "alive", []byte(name), 0o644); err != nil {
				t.Fatalf("afterwards: %v", err)
			}
		})
	}
}

// call makes a raw system call.
func call(nr uintptr, args ...uintptr) (uintptr, error) {
	var a [6]uintptr
	copy(a[:], args)
	r, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return r, errno
	}
	return r, nil
}

// did is what one call did, if it worked.
func did(what string, err error) []string {
	if err != nil {
		return nil
	}
	return []string{what}
}

// changed is what a setting of the target was and became.
func changed(what string, read func() (uintptr, error), set func()) []string {
	was, err := read()
	if err != nil {
		return nil // not even that
	}
	set()
	if is, err := read(); err == nil && is != was {
		return []string{fmt.Sprintf("%s: %d, was %d", what, is, was)}
	}
	return nil
}

// attempts return what worked on a process or thread.
func attempts() map[string]func(id int) []string {
	return map[string]func(id int) []string{
		"limits":              limits,
		"scheduler":           scheduler,
		"priority":            priority,
		"priority of disk":    ioPriority,
		"cores":               cores,
		"files of proc":       files,
		"descriptors":         descriptors,
		"memory":              memory,
		"forged faults":       faults,
		"a file that signals": fileSignals,
		"signals":             signals,
	}
}

func limits(id int) (all []string) {
	for r := range 16 {
		var was unix.Rlimit
		if err := unix.Prlimit(id, r, nil, &was); err != nil {
			was = unix.Rlimit{Cur: 1, Max: 1}
		}
		all = append(all, did(fmt.Sprintf("limit %d", r), unix.Prlimit(id, r, &was, nil))...)
	}
	return all
}

func scheduler(id int) (all []string) {
	var param [16]byte
	at := uintptr(unsafe.Pointer(&param))
	for _, policy := range []uintptr{unix.SCHED_NORMAL, unix.SCHED_BATCH, unix.SCHED_IDLE} {
		_, err := call(unix.SYS_SCHED_SETSCHEDULER, uintptr(id), policy, at)
		all = append(all, did(fmt.Sprintf("scheduler %d", policy), err)...)
		all = append(all, did(fmt.Sprintf("attributes %d", policy), unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: uint32(policy)}, 0))...)
	}
	_, err := call(unix.SYS_SCHED_SETPARAM, uintptr(id), at)
	return append(all, did("parameters", err)...)
}

func priority(id int) []string {
	return changed("nice", func() (uintptr, error) { return call(unix.SYS_GETPRIORITY, unix.PRIO_PROCESS, uintptr(id)) }, func() {
		unix.Setpriority(unix.PRIO_PROCESS, id, 19)
		unix.Setpriority(unix.PRIO_PGRP, id, 19)
		unix.Setpriority(unix.PRIO_USER, 0, 19)
	})
}

func ioPriority(id int) []string {
	return changed("disk", func() (uintptr, error) { return call(unix.SYS_IOPRIO_GET, 1, uintptr(id)) }, func() {
		for who := uintptr(1); who <= 3; who++ { // process, group, user
			call(unix.SYS_IOPRIO_SET, who, uintptr(id), 3<<13)
		}
		call(unix.SYS_IOPRIO_SET, 3, 0, 3<<13)
	})
}

func cores(id int) []string {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(id, &set); err != nil {
		set.Set(0)
	}
	return did("cores", unix.SchedSetaffinity(id, &set))
}

// files opens for writing what /proc has of the target.
func files(id int) (all []string) {
	for _, dir := range []string{fmt.Sprintf("/proc/%d/", id), fmt.Sprintf("/proc/1/task/%d/", id)} {
		for _, name := range []string{"oom_score_adj", "oom_adj", "autogroup", "timerslack_ns", "coredump_filter", "clear_refs", "sched", "comm", "mem",
			"loginuid", "uid_map", "gid_map", "projid_map", "setgroups", "timens_offsets", "latency", "make-it-fail", "fail-nth", "attr/current", "attr/exec"} {
			fd, err := unix.Open(dir+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
			all = append(all, did("opened "+dir+name, err)...)
			if err == nil {
				unix.Close(fd)
			}
		}
	}
	return all
}

func descriptors(id int) (all []string) {
	for fd := range 16 {
		f, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", id, fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		all = append(all, did(fmt.Sprintf("opened descriptor %d", fd), err)...)
		if err == nil {
			unix.Close(f)
		}
	}
	pidfd, err := unix.PidfdOpen(id, 0)
	if err != nil {
		return all
	}
	defer unix.Close(pidfd)
	for fd := range 16 {
		_, err := call(unix.SYS_PIDFD_GETFD, uintptr(pidfd), uintptr(fd), 0)
		all = append(all, did(fmt.Sprintf("took descriptor %d", fd), err)...)
	}
	return all
}

func memory(id int) (all []string) {
	word := make([]byte, 8)
	at := uintptr(unsafe.Pointer(&word[0]))
	vector := []uintptr{at, 8}
	for _, nr := range []uintptr{unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV} {
		_, err := call(nr, uintptr(id), uintptr(unsafe.Pointer(&vector[0])), 1, uintptr(unsafe.Pointer(&vector[0])), 1)
		all = append(all, did("memory", err)...)
	}
	for _, name := range []string{"maps", "environ", "auxv", "pagemap", "mem", "syscall", "stack"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/%s", id, name))
		if err != nil {
			continue
		}
		n, err := f.Read(word)
		if err == nil && n > 0 {
			all = append(all, "read "+name)
		}
		f.Close()
	}
	return append(all, did("ptrace", unix.PtraceSeize(id))...)
}

// forgeable are signals that report a fault of the program itself.
var forgeable = []unix.Signal{unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS}

func faults(id int) (all []string) {
	pidfd, perr := unix.PidfdOpen(1, 0)
	for _, s := range forgeable {
		info := [16]uint64{0: uint64(s)}
		code := int32(-1) // SI_QUEUE
		*(*int32)(unsafe.Add(unsafe.Pointer(&info), 8)) = code
		at := uintptr(unsafe.Pointer(&info))
		_, err := call(unix.SYS_RT_SIGQUEUEINFO, uintptr(id), uintptr(s), at)
		all = append(all, did("queued "+s.String(), err)...)
		_, err = call(unix.SYS_RT_TGSIGQUEUEINFO, 1, uintptr(id), uintptr(s), at)
		all = append(all, did("queued to the thread "+s.String(), err)...)
		if perr == nil {
			_, err = call(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(pidfd), uintptr(s), at, 0)
			all = append(all, did("sent by descriptor "+s.String(), err)...)
		}
	}
	return all
}

// fileSignals has a pipe signal the target when there is something to read.
func fileSignals(id int) (all []string) {
	for _, s := range forgeable {
		var fds [2]int
		if unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
			continue
		}
		owner := []int32{0, int32(id)} // F_OWNER_TID
		call(unix.SYS_FCNTL, uintptr(fds[0]), unix.F_SETOWN_EX, uintptr(unsafe.Pointer(&owner[0])))
		_, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETSIG, int(s))
		unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK)
		if err == nil {
			unix.Write(fds[1], []byte("x"))
			all = append(all, "asked for "+s.String())
		}
		unix.Close(fds[0])
		unix.Close(fds[1])
	}
	return all
}

// signals sends all that may be sent; the box lives on, which is what is asked afterwards.
func signals(id int) []string {
	pidfd, err := unix.PidfdOpen(1, 0)
	for s := unix.Signal(1); s <= 64; s++ {
		unix.Kill(id, s)
		unix.Tgkill(1, id, s)
		call(unix.SYS_TKILL, uintptr(id), uintptr(s))
		if err == nil {
			unix.PidfdSendSignal(pidfd, s, nil, 0)
		}
	}
	return nil
}

// Limits lists the ways to change a limit of the first process from a shell, for tests of
// what becomes of a rollout. Each needs python3.
func Limits() []string {
	var all []string
	for _, limit := range strings.Fields("CPU AS DATA NOFILE NPROC FSIZE STACK MEMLOCK SIGPENDING CORE RSS") {
		all = append(all, fmt.Sprintf("python3 -c 'import resource; resource.prlimit(1, resource.RLIMIT_%s, (0, 0))'; true", limit))
	}
	return all
}

//go:build linux

// Package filter is the seccomp filter of commands in a box: a list of the calls that
// programs need, each in a group with its reason. Everything else is refused.
package filter

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Answers of the filter.
const (
	allow    = unix.SECCOMP_RET_ALLOW
	pretend  = unix.SECCOMP_RET_ERRNO // success without doing it
	refuse   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	absent   = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	noFamily = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
)

// Where things stand in struct seccomp_data.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16 // 8 bytes each, low word first
)

// Load installs the filter on the calling thread, and so on every command that it
// starts. A call of another architecture, the 32-bit one too, does not exist. In a box
// with oneUser, changes of a file's owner are accepted and do nothing.
func Load(oneUser bool) error { return load(Program(oneUser)) }

// Program is the filter as a classic BPF program, not to be changed. The kernel runs it for
// every number there is when it is loaded, to know those that are always allowed: so numbers
// are searched by halves, which makes the loading, once for every command of some boxes, cost
// a third of what a list does.
func Program(oneUser bool) []unix.SockFilter {
	if oneUser {
		return forOne()
	}
	return forMany()
}

var (
	forOne  = sync.OnceValue(func() []unix.SockFilter { return assemble(true) })
	forMany = sync.OnceValue(func() []unix.SockFilter { return assemble(false) })
)

func assemble(oneUser bool) []unix.SockFilter {
	a := &assembler{}
	a.load(atArch)
	a.unless(auditArch, absent)
	a.load(atNumber)
	a.search(ranges(oneUser))
	return a.code
}

// body adds what is done about a call.
type body func(*assembler)

func answer(k uint32) body {
	return func(a *assembler) { a.code = append(a.code, ret(k)) }
}

// numbers is what is done about all calls from a number up to that of the next range.
type numbers struct {
	from  uint32
	whole uint32 // the answer to all of them, unless there is a rule
	rule  body
}

// ranges are all numbers, in order. A call of this list that no group allows is refused. A
// call that is not in the list, as newer kernels have, is answered as one that does not exist.
func ranges(oneUser bool) []numbers {
	known := map[string]uint32{}
	for _, g := range allowed {
		for _, name := range g.Calls() {
			known[name] = allow
		}
	}
	for _, g := range absents {
		for _, name := range g.Calls() {
			known[name] = absent
		}
	}
	args := rules(oneUser)
	var all []numbers
	add := func(n numbers) {
		if last := len(all) - 1; last < 0 || n.rule != nil || all[last].rule != nil || all[last].whole != n.whole {
			all = append(all, n)
		}
	}
	for _, r := range calls {
		nr := r.first
		for name := range strings.FieldsSeq(r.names) {
			whole, ok := known[name]
			if !ok {
				whole = refuse
			}
			add(numbers{nr, whole, args[name]})
			nr++
		}
		add(numbers{nr, absent, nil})
	}
	return all
}

// search adds what finds the range of the loaded number, and their bodies. The last range
// has no end: the numbers of x32 are in it.
func (a *assembler) search(all []numbers) {
	if len(all) == 1 {
		if all[0].rule != nil {
			all[0].rule(a)
		} else {
			a.code = append(a.code, ret(all[0].whole))
		}
		return
	}
	middle := len(all) / 2
	at := len(a.code)
	a.code = append(a.code, jump(unix.BPF_JGE, all[middle].from, 0, 1), jump(unix.BPF_JA, 0, 0, 0))
	a.search(all[:middle])
	a.code[at+1].K = uint32(len(a.code) - at - 2)
	a.search(all[middle:])
}

// assembler appends instructions.
type assembler struct{ code []unix.SockFilter }

func ret(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func (a *assembler) load(offset uint32) {
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

// arg loads the low word of an argument; both architectures are little-endian.
func (a *assembler) arg(i int) { a.load(uint32(atArgs + 8*i)) }

// high loads the high word of an argument.
func (a *assembler) high(i int) { a.load(uint32(atArgs + 8*i + 4)) }

// unless ends with answer when the loaded word is not k.
func (a *assembler) unless(k, answer uint32) {
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: 1}, ret(answer))
}

// any ends with answer when the loaded word is one of ks (at most 200).
func (a *assembler) any(ks []uint32, answer uint32) {
	for i, k := range ks {
		a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: uint8(len(ks) - i)})
	}
	a.code = append(a.code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: 1}, ret(answer))
}

func load(code []unix.SockFilter) error {
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return fmt.Errorf("load the seccomp filter of %d instructions: %w", len(code), errno)
	}
	return nil
}

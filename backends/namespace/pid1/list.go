//go:build linux

package pid1

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// ErrTooLong says that a list has more calls or data than pid 1 takes.
var ErrTooLong = errors.New("too many calls or too much data for the first process of a box")

// Slot is the place of a call's result, for calls that come later in the list. The first
// ones are the descriptors that were sent with it.
type Slot uint8

// Data is a place in the data of a list.
type Data int

// List is a list of system calls. It ends at the first that fails. The zero value is
// empty. A list that is complete may be played by many at once.
type List struct {
	ops  []op
	what []string
	data []byte
	refs []int // places in data of words that are places in data
	args [][6]bool
	next int // slots taken
}

// NewList returns a list with which some descriptors will be sent; they are slots 0 and up.
func NewList(descriptors int) *List { return &List{next: descriptors} }

// Bytes adds data.
func (l *List) Bytes(b []byte) Data {
	for len(l.data)%8 != 0 {
		l.data = append(l.data, 0)
	}
	at := Data(len(l.data))
	l.data = append(l.data, b...)
	return at
}

// Text adds a string as C has it.
func (l *List) Text(s string) Data {
	at := Data(len(l.data)) // texts need no alignment
	l.data = append(append(l.data, s...), 0)
	return at
}

// Words adds an array of words: numbers, or places in the data, of which an array of
// pointers is made.
func (l *List) Words(words ...any) Data {
	at := l.Bytes(nil)
	for _, w := range words {
		v, ref := value(w)
		if ref {
			l.refs = append(l.refs, len(l.data))
		}
		l.data = binary.NativeEndian.AppendUint64(l.data, v)
	}
	return at
}

// Strings adds an array of strings that ends with a null pointer: argv, envp.
func (l *List) Strings(all []string) Data {
	words := make([]any, 0, len(all)+1)
	for _, s := range all {
		words = append(words, l.Text(s))
	}
	return l.Words(append(words, 0)...)
}

// value is an argument as a number.
func value(v any) (n uint64, ref bool) {
	switch v := v.(type) {
	case int:
		return uint64(v), false
	case uint64:
		return v, false
	case int64:
		return uint64(v), false
	case uint32:
		return uint64(v), false
	case uintptr:
		return uint64(v), false
	case Data:
		return uint64(v), true
	}
	panic(fmt.Sprintf("pid1: an argument of type %T", v))
}

// Slot returns a slot for results that may be written to again and again.
func (l *List) Slot() Slot {
	l.next++
	return Slot(min(l.next-1, noSlot)) // encode reports too many
}

// Step is one call of a list that is written.
type Step struct {
	l *List
	i int
}

// Call adds a system call. what says in errors what it is for. Arguments are numbers, a
// string, [Data], or the [Slot] of an earlier result.
func (l *List) Call(what string, number int, args ...any) Step {
	o := op{number: uint32(number), result: noSlot}
	var refs [6]bool
	for i, a := range args {
		switch a := a.(type) {
		case string:
			o.args[i], refs[i] = uint64(l.Text(a)), true
		case Slot:
			o.args[i], o.slots = uint64(a), o.slots|1<<i
		default:
			o.args[i], refs[i] = value(a)
		}
	}
	l.ops, l.what, l.args = append(l.ops, o), append(l.what, what), append(l.args, refs)
	return Step{l, len(l.ops) - 1}
}

// Or accepts errors of the call: the list goes on as if it had not been in it.
func (s Step) Or(errs ...syscall.Errno) Step {
	for i, e := range errs {
		s.l.ops[s.i].accept[i] = uint8(e)
	}
	return s
}

// Skip leaves out the n calls that follow it after an error that is accepted.
func (s Step) Skip(n int) Step {
	s.l.ops[s.i].skip = uint8(n)
	return s
}

// Keep keeps the result of the call.
func (s Step) Keep() Slot {
	return s.Into(s.l.Slot())
}

// Into keeps the result of the call in a slot.
func (s Step) Into(slot Slot) Slot {
	s.l.ops[s.i].result = uint8(slot)
	return slot
}

// err is what went wrong at a call, or nil.
func (l *List) err(r Report) error {
	if r.Errno == 0 {
		return nil
	}
	if int(r.Index) >= len(l.what) {
		return syscall.Errno(r.Errno)
	}
	return fmt.Errorf("%s: %w", l.what[r.Index], syscall.Errno(r.Errno))
}

// encode writes a list for an area whose data lies at an address.
func (l *List) encode(into []byte, base uint64) ([]byte, error) {
	if len(l.ops) > maxOps || len(l.data) > maxData || l.next > noSlot {
		return nil, fmt.Errorf("%d calls, %d bytes, %d results: %w", len(l.ops), len(l.data), l.next, ErrTooLong)
	}
	order := binary.NativeEndian
	for i, o := range l.ops {
		into = order.AppendUint32(into, o.number)
		into = append(into, o.slots, o.result, o.skip, 0)
		into = append(into, o.accept[:]...)
		into = order.AppendUint32(into, 0)
		for j, a := range o.args {
			if l.args[i][j] {
				a += base
			}
			into = order.AppendUint64(into, a)
		}
	}
	at := len(into)
	into = append(into, l.data...)
	l.relocate(into[at:], base)
	return into, nil
}

// Here does the calls on the calling thread, where every error is a failure.
func (l *List) Here() error {
	var slots [noSlot + 1]uint64
	data := append(make([]byte, 0, len(l.data)+1), l.data...)
	base := uint64(uintptr(unsafe.Pointer(&data[:1][0])))
	l.relocate(data, base)
	for i, o := range l.ops {
		for j := range o.args {
			if l.args[i][j] {
				o.args[j] += base
			}
			if o.slots&(1<<j) != 0 {
				o.args[j] = slots[o.args[j]]
			}
		}
		r, _, errno := syscall.Syscall6(uintptr(o.number), uintptr(o.args[0]), uintptr(o.args[1]), uintptr(o.args[2]), uintptr(o.args[3]), uintptr(o.args[4]), uintptr(o.args[5]))
		if errno != 0 {
			return l.err(Report{Errno: uint32(errno), Index: uint32(i)})
		}
		slots[o.result] = uint64(r)
	}
	runtime.KeepAlive(data)
	return nil
}

// relocate turns places in the data into addresses.
func (l *List) relocate(data []byte, base uint64) {
	for _, ref := range l.refs {
		word := data[ref:]
		binary.NativeEndian.PutUint64(word, binary.NativeEndian.Uint64(word)+base)
	}
}

// Package journaltest is a disk in memory that loses power, for crash tests of code that
// uses journal.FS.
//
// A [Disk] keeps apart what was written and what was synced. [Disk.PowerCut] gives the
// disk as it may look after a power cut: unsynced writes are kept, lost or torn in any
// combination, and the directory has lost a tail of its unsynced changes. [Disk.Kill]
// gives it as a killed process leaves it: everything that was written.
package journaltest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"hermes/rollout/journal"
)

// ErrPower is the answer to every operation after the power went out.
var ErrPower = errors.New("the power is out")

const sector = 512 // bytes that are written whole or not at all

// Disk is a file system in memory. It is safe for concurrent use.
type Disk struct {
	mu    sync.Mutex
	names map[string]*inode // current
	safe  map[string]*inode // survives a power cut
	dirs  map[string]bool
	ops   []dirOp // unsynced changes of names, in order
	left  int     // operations until the power goes out; negative: never
	off   bool
	space int64 // bytes that may still be written; negative: no limit
	full  error
	done  int
}

type inode struct {
	data    []byte
	safe    []byte
	pending []write // since the last sync
}

// write is an unsynced write, or with data nil the change of the length to at.
type write struct {
	at   int64
	data []byte
}

type dirOp struct {
	dir  string
	make func(map[string]*inode)
}

// NewDisk returns an empty disk with power.
func NewDisk() *Disk {
	return &Disk{names: map[string]*inode{}, safe: map[string]*inode{}, dirs: map[string]bool{}, left: -1, space: -1}
}

// CutAfter lets the power go out at the n-th operation from now that changes something.
func (d *Disk) CutAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = n
}

// Limit lets writes fail with err once n more bytes were written; negative: never.
func (d *Disk) Limit(n int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.space, d.full = n, err
}

// Ops is the number of changing operations so far.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done
}

// step counts one changing operation; the caller holds mu.
func (d *Disk) step() error {
	if d.off {
		return ErrPower
	}
	if d.left == 0 {
		d.off = true
		return ErrPower
	}
	if d.left > 0 {
		d.left--
	}
	d.done++
	return nil
}

// Kill returns the disk as another process finds it after this one was killed.
func (d *Disk) Kill() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := NewDisk()
	copies := map[*inode]*inode{}
	clone := func(i *inode) *inode {
		if copies[i] == nil {
			copies[i] = &inode{data: slices.Clone(i.data), safe: slices.Clone(i.safe), pending: slices.Clone(i.pending)}
		}
		return copies[i]
	}
	for name, i := range d.names {
		n.names[name] = clone(i)
	}
	for name, i := range d.safe {
		n.safe[name] = clone(i)
	}
	for dir := range d.dirs {
		n.dirs[dir] = true
	}
	// The unsynced changes of names are taken as one: all of them, or none.
	if len(d.ops) > 0 {
		all := map[string]*inode{}
		maps.Copy(all, n.names)
		for _, dir := range dirsOf(d.ops) {
			n.ops = append(n.ops, dirOp{dir: dir, make: replaceDir(dir, all)})
		}
	}
	return n
}

func dirsOf(ops []dirOp) []string {
	var dirs []string
	for _, op := range ops {
		if !slices.Contains(dirs, op.dir) {
			dirs = append(dirs, op.dir)
		}
	}
	return dirs
}

func replaceDir(dir string, all map[string]*inode) func(map[string]*inode) {
	return func(m map[string]*inode) {
		for name := range m {
			if filepath.Dir(name) == dir {
				delete(m, name)
			}
		}
		for name, i := range all {
			if filepath.Dir(name) == dir {
				m[name] = i
			}
		}
	}
}

// PowerCut returns the disk as it may be found after a power cut now.
func (d *Disk) PowerCut(r *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := map[string]*inode{}
	maps.Copy(names, d.safe)
	for _, op := range d.ops[:r.IntN(len(d.ops)+1)] {
		op.make(names)
	}
	n := NewDisk()
	for dir := range d.dirs {
		n.dirs[dir] = true
	}
	for _, name := range sorted(names) {
		data := names[name].survive(r)
		i := &inode{data: data, safe: slices.Clone(data)}
		n.names[name], n.safe[name] = i, i
	}
	return n
}

// survive is the content of a file after a power cut.
func (i *inode) survive(r *rand.Rand) []byte {
	data := slices.Clone(i.safe)
	for _, w := range i.pending {
		switch {
		case w.data == nil:
			if r.IntN(2) == 0 {
				data = resize(data, w.at)
			}
		case r.IntN(3) == 0: // lost
		case r.IntN(2) == 0: // whole
			data = put(data, w.at, w.data)
		default: // torn: some sectors of it
			for from := 0; from < len(w.data); {
				to := min(from+sector-int((w.at+int64(from))%sector), len(w.data))
				if r.IntN(2) == 0 {
					data = put(data, w.at+int64(from), w.data[from:to])
				}
				from = to
			}
		}
	}
	return data
}

func resize(b []byte, n int64) []byte {
	if int64(len(b)) > n {
		return b[:n:n]
	}
	return append(b, make([]byte, n-int64(len(b)))...)
}

func put(b []byte, at int64, data []byte) []byte {
	if end := at + int64(len(data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[at:], data)
	return b
}

func sorted(m map[string]*inode) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Damage changes one byte of a file, synced or not.
func (d *Disk) Damage(name string, at int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.names[name]
	if i == nil || at >= int64(len(i.data)) {
		return fmt.Errorf("damage %s at %d: no such byte", name, at)
	}
	i.data[at] ^= 0x40
	if at < int64(len(i.safe)) {
		i.safe[at] ^= 0x40
	}
	return nil
}

func (d *Disk) change(op dirOp) {
	op.make(d.names)
	d.ops = append(d.ops, op)
}

// Open implements journal.FS.
func (d *Disk) Open(name string, write bool) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrPower
	}
	i := d.names[name]
	if i == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &file{d: d, i: i, write: write}, nil
}

// Create implements journal.FS.
func (d *Disk) Create(name string) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return nil, err
	}
	if i := d.names[name]; i != nil {
		i.data = nil
		i.pending = append(i.pending, write{at: 0})
		return &file{d: d, i: i, write: true}, nil
	}
	i := &inode{}
	d.change(dirOp{dir: filepath.Dir(name), make: func(m map[string]*inode) { m[name] = i }})
	return &file{d: d, i: i, write: true}, nil
}

// Rename implements journal.FS.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	i := d.names[from]
	if i == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	d.change(dirOp{dir: filepath.Dir(to), make: func(m map[string]*inode) { m[to] = i; delete(m, from) }})
	return nil
}

// Remove implements journal.FS.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	if d.names[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	d.change(dirOp{dir: filepath.Dir(name), make: func(m map[string]*inode) { delete(m, name) }})
	return nil
}

// List implements journal.FS.
func (d *Disk) List(dir string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return nil, ErrPower
	}
	if !d.dirs[dir] {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	var names []string
	for _, n := range sorted(d.names) {
		if filepath.Dir(n) == dir {
			names = append(names, filepath.Base(n))
		}
	}
	return names, nil
}

// MkdirAll implements journal.FS. Directories survive at once.
func (d *Disk) MkdirAll(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	for ; !d.dirs[dir]; dir = filepath.Dir(dir) {
		d.dirs[dir] = true
	}
	return nil
}

// SyncDir implements journal.FS.
func (d *Disk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	var later []dirOp
	for _, op := range d.ops {
		if op.dir == dir {
			op.make(d.safe)
		} else {
			later = append(later, op)
		}
	}
	d.ops = later
	return nil
}

type file struct {
	d     *Disk
	i     *inode
	write bool
}

func (f *file) ReadAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.off {
		return 0, ErrPower
	}
	if at >= int64(len(f.i.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.i.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(b []byte, at int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step(); err != nil {
		if f.d.left == 0 { // the write under way may still reach the disk in part
			f.i.pending = append(f.i.pending, write{at: at, data: slices.Clone(b)})
			f.d.left = -1
		}
		return 0, err
	}
	if !f.write {
		return 0, fs.ErrPermission
	}
	n := len(b)
	if f.d.space >= 0 && int64(n) > f.d.space {
		n = int(f.d.space)
	}
	if f.d.space >= 0 {
		f.d.space -= int64(n)
	}
	f.i.data = put(f.i.data, at, b[:n])
	f.i.pending = append(f.i.pending, write{at: at, data: slices.Clone(b[:n])})
	if n < len(b) {
		return n, f.d.full
	}
	return n, nil
}

func (f *file) Truncate(n int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step(); err != nil {
		return err
	}
	f.i.data = slices.Clone(resize(f.i.data, n))
	f.i.pending = append(f.i.pending, write{at: n})
	return nil
}

func (f *file) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.off {
		return 0, ErrPower
	}
	return int64(len(f.i.data)), nil
}

func (f *file) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step(); err != nil {
		return err
	}
	f.i.safe, f.i.pending = slices.Clone(f.i.data), nil
	return nil
}

func (f *file) Close() error { return nil }

package rundir

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	lockName    = "lock"
	leasePrefix = "lease-"
	leaseSize   = 1024 // bytes of a lease file, so that it is rewritten in one piece
)

// Owner is the process that works on a run directory.
type Owner struct {
	ID    string    `json:"id"` // random
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Boot  string    `json:"boot,omitempty"`  // of the kernel
	Space string    `json:"space,omitempty"` // the namespace in which PID counts
	Start string    `json:"start,omitempty"` // when the process began, in the kernel's ticks
	Beat  time.Time `json:"heartbeat"`
	Free  bool      `json:"free,omitempty"` // given back
}

// LeaseOptions tune [Acquire]. The zero value is usable.
type LeaseOptions struct {
	TTL   time.Duration // a silent owner on another machine loses the lease after it; 0 means 30 s
	Owner *Owner        // who we are; nil: this process
}

// OwnedError says who works on a directory.
type OwnedError struct {
	Dir   string
	Owner Owner
	Age   time.Duration // since its last sign of life; negative: the clock went back since
	TTL   time.Duration
	File  string // the lease; empty: none was read
}

func (e *OwnedError) Error() string {
	if e.Owner.Host == "" {
		return fmt.Sprintf("%s is in use by another process", e.Dir)
	}
	if e.Age < -e.TTL {
		return fmt.Sprintf("%s is in use by process %d on %s, whose last sign of life lies %v in the future: the clock went back; if that process is dead, remove %s",
			e.Dir, e.Owner.PID, e.Owner.Host, -e.Age.Round(time.Second), e.File)
	}
	return fmt.Sprintf("%s is in use by process %d on %s, which gave a sign of life %v ago; were it dead, its lease would end %v after the last one",
		e.Dir, e.Owner.PID, e.Owner.Host, max(0, e.Age).Round(time.Millisecond), e.TTL)
}

// Lease is the right to write into a run directory. On a local file system it is a lock;
// on a shared one a file whose name counts owners (made exclusively, so one wins) and
// whose time of change is the heartbeat, read from the file server's clock.
type Lease struct {
	dir   string
	name  string
	epoch int
	me    Owner
	ttl   time.Duration
	lock  *os.File

	stop context.CancelFunc
	done chan struct{}
	lost chan struct{}

	mu  sync.Mutex
	err error
}

// Acquire takes the lease of a directory, or says in an *OwnedError who has it. The lease
// of a dead process of this machine is taken at once.
func Acquire(ctx context.Context, dir string, o LeaseOptions) (*Lease, error) {
	l := &Lease{dir: dir, ttl: cmp.Or(o.TTL, 30*time.Second), done: make(chan struct{}), lost: make(chan struct{})}
	if o.Owner != nil {
		l.me = *o.Owner
	} else {
		l.me = self()
	}
	l.me.ID = newID()
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock run directory: %w", err)
	}
	l.lock = lock
	if err := l.take(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	go l.beat(ctx)
	return l, nil
}

func newID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (l *Lease) take() error {
	locked, err := tryLock(l.lock)
	if err != nil {
		return fmt.Errorf("lock %s: %w", l.lock.Name(), err)
	}
	epoch, name, err := l.newest()
	if err != nil {
		return err
	}
	if name != "" {
		owner, age, err := l.inspect(name)
		if err != nil {
			return err
		}
		if !locked || !l.over(owner, age) {
			return &OwnedError{Dir: l.dir, Owner: owner, Age: age, TTL: l.ttl, File: name}
		}
	} else if !locked {
		return &OwnedError{Dir: l.dir, TTL: l.ttl}
	}
	l.epoch = epoch + 1
	l.name = filepath.Join(l.dir, leasePrefix+strconv.Itoa(l.epoch)+".json")
	f, err := os.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &OwnedError{Dir: l.dir, TTL: l.ttl} // another one was quicker
	}
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	if err := errors.Join(l.write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(l.name))
	}
	if name != "" {
		os.Remove(name) // the new file counts, whether or not the old one goes
	}
	return nil
}

// newest finds the lease that counts: the one of the highest epoch.
func (l *Lease) newest() (epoch int, name string, err error) {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return 0, "", fmt.Errorf("lease: %w", err)
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".json"), leasePrefix)
		if n, err := strconv.Atoi(digits); ok && err == nil && n > epoch {
			epoch, name = n, filepath.Join(l.dir, e.Name())
		}
	}
	return epoch, name, nil
}

// inspect reads a lease and how long ago it was written, both times by the clock of the
// file system. A negative age tells of a clock that went back.
func (l *Lease) inspect(name string) (Owner, time.Duration, error) {
	var owner Owner
	b, err := os.ReadFile(name)
	if err != nil {
		return owner, 0, fmt.Errorf("lease: %w", err)
	}
	if json.Unmarshal(b, &owner) != nil {
		owner = Owner{} // its maker died before it was written: it ends by age
	}
	st, err := os.Stat(name)
	if err != nil {
		return owner, 0, fmt.Errorf("lease: %w", err)
	}
	now, err := l.clock()
	if err != nil {
		return owner, 0, err
	}
	return owner, now.Sub(st.ModTime()), nil
}

// clock asks the file system what time it is.
func (l *Lease) clock() (time.Time, error) {
	if _, err := l.lock.WriteAt([]byte(l.me.ID), 0); err != nil {
		return time.Time{}, fmt.Errorf("lease: %w", err)
	}
	st, err := l.lock.Stat()
	if err != nil {
		return time.Time{}, fmt.Errorf("lease: %w", err)
	}
	return st.ModTime(), nil
}

// over reports whether an owner has given up its lease, is dead, or was silent too long.
func (l *Lease) over(o Owner, age time.Duration) bool {
	if o.Free || age > l.ttl {
		return true
	}
	here := o.Boot != "" && o.Boot == l.me.Boot && o.Space == l.me.Space
	return here && !alive(o)
}

// write puts the owner into the lease in one piece, which sets its time of change.
func (l *Lease) write(f *os.File) error {
	l.me.Beat = time.Now().UTC()
	b, err := json.Marshal(l.me)
	if err != nil {
		return err
	}
	if len(b) >= leaseSize {
		return fmt.Errorf("lease of %d bytes is too long", len(b))
	}
	b = append(b, strings.Repeat(" ", leaseSize-len(b)-1)+"\n"...)
	_, err = f.WriteAt(b, 0)
	return err
}

// beat renews the lease until it is released or lost.
func (l *Lease) beat(ctx context.Context) {
	defer close(l.done)
	tick := time.NewTicker(l.ttl / 4)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := l.renew()
		if err == nil {
			last = time.Now()
		} else if gone := (*OwnedError)(nil); errors.As(err, &gone) || time.Since(last) > l.ttl/2 {
			l.mu.Lock()
			l.err = fmt.Errorf("the lease of the run directory is lost: %w", err)
			l.mu.Unlock()
			close(l.lost)
			return
		}
	}
}

func (l *Lease) renew() error {
	epoch, name, err := l.newest()
	if err != nil {
		return err
	}
	if epoch != l.epoch {
		owned := &OwnedError{Dir: l.dir, TTL: l.ttl}
		if name != "" {
			owned.Owner, owned.Age, _ = l.inspect(name)
			owned.File = name
		}
		return owned
	}
	f, err := os.OpenFile(l.name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(l.write(f), f.Close())
}

// Lost is closed when the lease was lost; the process must stop writing then. Err says why.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Err says why the lease was lost, or nil.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Epoch counts the owners that the directory has had.
func (l *Lease) Epoch() int { return l.epoch }

// Release gives the lease back.
func (l *Lease) Release() error {
	l.stop()
	<-l.done
	var err error
	if l.Err() == nil {
		// The file stays, marked as free, so that epochs go on counting.
		l.me.Free = true
		err = l.renew()
	}
	return errors.Join(err, l.lock.Close())
}

// alive reports whether the process of this machine that o names still runs.
func alive(o Owner) bool {
	if err := syscall.Kill(o.PID, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	start := processStart(o.PID)
	return o.Start == "" || start == "" || start == o.Start
}

// self describes this process.
func self() Owner {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, _ := os.Readlink("/proc/self/ns/pid")
	pid := os.Getpid()
	return Owner{Host: host, PID: pid, Boot: strings.TrimSpace(string(boot)), Space: space, Start: processStart(pid)}
}

// processStart returns when a process began, or nothing where that cannot be known. A
// process that is dead but not yet waited for has no start.
func processStart(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return ""
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return "dead"
	}
	return fields[19]
}

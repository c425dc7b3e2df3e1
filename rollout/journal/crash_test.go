package journal_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"hermes/rollout/journal"
	"hermes/rollout/journal/journaltest"
	"hermes/trajectory"
)

var long = flag.Bool("long", false, "run the long crash tests")

func TestCrashes(t *testing.T) {
	for seed := range uint64(100) {
		crash(t, seed)
	}
}

func TestLongCrashes(t *testing.T) {
	if !*long {
		t.Skip("a long test: -long runs it")
	}
	for seed := range uint64(1000) {
		crash(t, seed+1000)
	}
}

// life is what the writers of one process know of a key.
type life struct {
	sure    string // what is acknowledged: "", "done"
	maybe   string // what was asked for last; equal to sure when it was answered
	answers []string
	reopens int
}

// crash runs some processes one after the other on one disk; each ends by a power cut or
// a kill at a random operation, also while opening.
func crash(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	disk := journaltest.NewDisk()
	o := journal.Options{SegmentSize: int64(300 + r.IntN(6000))}
	lives := map[int]*life{}
	for i := range 30 {
		lives[i] = &life{}
	}
	for process := range 12 {
		if process == 11 {
			disk.CutAfter(-1)
		} else {
			disk.CutAfter(r.IntN(90))
		}
		o.FS = disk
		j, err := journal.Open("/run/journal", o)
		if err == nil {
			check(t, fmt.Sprintf("seed %d, process %d", seed, process), j, lives)
			if process == 11 || t.Failed() {
				return
			}
			work(j, lives, r.Uint64())
			if r.IntN(8) == 0 {
				err = j.Close()
			}
		}
		if err != nil && !errors.Is(err, journaltest.ErrPower) {
			t.Fatalf("seed %d, process %d: %v", seed, process, err)
		}
		if r.IntN(3) == 0 {
			disk = disk.Kill()
			continue
		}
		disk = disk.PowerCut(r)
		for _, l := range lives {
			l.answers = nil // a power cut may lose them
		}
	}
}

// work lets three writers run until the power goes out or nothing is left to do.
func work(j *journal.Journal, lives map[int]*life, seed uint64) {
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := w; i < len(lives); i += 3 {
				if r.IntN(3) > 0 && !one(j, i, lives[i], r) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// one brings a key a step further; false says that the process is dead.
func one(j *journal.Journal, i int, l *life, r *rand.Rand) bool {
	ctx := context.Background()
	if l.sure == "done" {
		if l.reopens > 0 || i%5 != 0 || r.IntN(2) > 0 {
			return true
		}
		l.reopens++
		l.maybe = ""
		if j.Reopen(ctx, []trajectory.Key{key(i)}) != nil {
			return false
		}
		l.sure = ""
		return true
	}
	tape, err := journal.NewTape(j, key(i), 1, true)
	if err != nil {
		return false
	}
	for n := range r.IntN(4) {
		if _, ok := tape.Lookup(digest(n)); ok {
			continue
		}
		answer := fmt.Sprintf("answer %d of %d %s", n, i, strings.Repeat("x", r.IntN(900)))
		if tape.Store(digest(n), []byte(answer)) != nil {
			return false
		}
		l.answers = append(l.answers[:min(n, len(l.answers))], answer)
	}
	if r.IntN(3) == 0 {
		return true // killed before its end
	}
	out := trajectory.Answered
	if i%5 == 0 {
		out = trajectory.Sandbox
	}
	l.maybe = "done"
	if _, err := j.Append(ctx, record(i, r.IntN(1500), out)); err != nil {
		return false
	}
	l.sure, l.answers = "done", nil
	return true
}

// check compares what a freshly opened journal holds with what was promised, and takes
// over what was decided by the crash.
func check(t *testing.T, name string, j *journal.Journal, lives map[int]*life) {
	t.Helper()
	if err := j.Verify(context.Background()); err != nil {
		if !errors.Is(err, journaltest.ErrPower) {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	finals := map[trajectory.Key]int{}
	for e, err := range j.Records(context.Background(), 0) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		switch e.Kind {
		case journal.KindFinal:
			finals[e.Key]++
			if r, err := e.Record(); err != nil || r.Key != e.Key {
				t.Errorf("%s: record of %s: %v", name, e.Key, err)
			}
		case journal.KindReopen:
			finals[e.Key]--
		}
	}
	for i, l := range lives {
		done := j.Done(key(i))
		if want := l.sure == "done"; done != want && l.maybe == l.sure {
			t.Errorf("%s: key %d: done %v, acknowledged %q", name, i, done, l.sure)
		}
		if n := finals[key(i)]; n > 1 || (n == 1) != done {
			t.Errorf("%s: key %d has %d final records in force, done %v", name, i, n, done)
		}
		l.sure = ""
		if done {
			l.sure, l.answers = "done", nil
		}
		l.maybe = l.sure
		n := 0
		for turn, err := range j.Turns(key(i)) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			if n < len(l.answers) && string(turn.Answer) != l.answers[n] {
				t.Errorf("%s: key %d, answer %d: %q, stored was %q", name, i, n, turn.Answer, l.answers[n])
			}
			if n >= len(l.answers) {
				l.answers = append(l.answers, string(turn.Answer))
			}
			n++
		}
		if n < len(l.answers) {
			t.Errorf("%s: key %d: %d answers of %d are there after a kill", name, i, n, len(l.answers))
		}
	}
}

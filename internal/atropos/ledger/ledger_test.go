package ledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hermes/internal/atropos/ledger"
	"hermes/internal/atropos/store"
)

func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0) }

func started(t testing.TB, o ledger.Options, batch int64, sizes ...int64) *ledger.State {
	t.Helper()
	s := ledger.New(o)
	if err := s.Register(ledger.Registration{Batch: batch, Steps: 10}); err != nil {
		t.Fatal(err)
	}
	if b, err := next(s, "", at(0)); b != nil || err != nil {
		t.Fatal(b, err)
	}
	for _, n := range sizes {
		if _, _, ok, err := s.Join(ledger.Env{MaxContext: 100, Weight: 1, Desired: "e", GroupSize: n}, at(0)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	return s
}

// next forms batches at once where they have to be formed.
func next(s *ledger.State, holder string, now time.Time) (*ledger.Batch, error) {
	b, f, err := s.Next(holder, now, nil)
	for ; f != nil; b, f, err = s.Next(holder, now, f) {
		f.Work()
	}
	return b, err
}

func group(n int, env int64) ledger.Ref {
	return ledger.Ref{Sequences: n, Tokens: 10 * n, Env: env, HasEnv: env >= 0, At: store.Pos{Size: int64(100 * n)}}
}

func ids(b *ledger.Batch) string {
	if b == nil {
		return "none"
	}
	var list []uint64
	for _, r := range b.Groups {
		list = append(list, r.ID)
	}
	return fmt.Sprint(list)
}

func TestStepsAndOrder(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		s := started(t, ledger.Options{FIFO: fifo}, 4)
		for range 6 {
			s.Post(group(2, -1), at(0))
		}
		want := []string{"[5 6]", "[3 4]", "[1 2]", "none"}
		if fifo {
			want = []string{"[1 2]", "[3 4]", "[5 6]", "none"}
		}
		for _, w := range want {
			b, err := next(s, "", at(1))
			if err != nil || ids(b) != w || s.Info(at(1)).Step != 3 {
				t.Errorf("fifo %v: %s, step %d, %v; want %s", fifo, ids(b), s.Info(at(1)).Step, err, w)
			}
			if b != nil {
				s.Delivered(b.ID)
			}
		}
		if n, k := s.Bytes(); n != 0 || k != 0 {
			t.Errorf("%d bytes of %d groups are kept", n, k)
		}
	}
}

func TestLeases(t *testing.T) {
	s := started(t, ledger.Options{Lease: time.Minute}, 2)
	for range 2 {
		s.Post(group(2, -1), at(0))
	}
	broken, _ := next(s, "", at(1))
	s.Returned(broken.ID)
	again, _ := next(s, "trainer", at(2))
	if again != broken {
		t.Fatal("a batch whose connection broke does not come again")
	}
	s.Await(again.ID, "trainer", at(2))
	if b, _ := next(s, "trainer", at(3)); b != again {
		t.Error("a holder that asks again gets another batch before it has acknowledged")
	}
	s.Await(again.ID, "trainer", at(3))
	other, _ := next(s, "other", at(4))
	if other == nil || other == again {
		t.Error("another trainer gets the leased batch")
	}
	s.Delivered(other.ID)
	if b, _ := next(s, "other", at(62)); b != nil {
		t.Error("the lease ended early")
	}
	if b, _ := next(s, "other", at(64)); b != again {
		t.Error("the lease does not end")
	}
	for range 2 {
		if err := s.Acknowledge(again.ID); err != nil {
			t.Error(err)
		}
	}
	if err := s.Acknowledge(99); err == nil {
		t.Error("a batch that never was is acknowledged")
	}
	if got := s.Info(at(70)).Totals; got.Batches != 2 || got.Again != 3 {
		t.Errorf("%d batches, %d again; want 2 and 3", got.Batches, got.Again)
	}
}

// TestStallsAreTold plays the ways in which Atropos' server waits for ever without a word.
func TestStallsAreTold(t *testing.T) {
	half := 0.5
	tests := []struct {
		name, want string
		play       func(s *ledger.State) error
	}{
		{"another batch size", "batch_size 8", func(s *ledger.State) error { return s.Register(ledger.Registration{Batch: 4}) }},
		{"group size does not divide", "multiple of group_size 3", func(s *ledger.State) error {
			_, _, _, err := s.Join(ledger.Env{Desired: "x", GroupSize: 3, Weight: 1}, at(1))
			return err
		}},
		{"group size too large", "larger than", func(s *ledger.State) error {
			_, _, _, err := s.Join(ledger.Env{Desired: "x", GroupSize: 16, Weight: 1}, at(1))
			return err
		}},
		{"group larger than a batch", "no batch could hold it", func(s *ledger.State) error { r := group(9, -1); return s.Check(&r) }},
		{"group larger than registered", "would wait for ever", func(s *ledger.State) error { r := group(8, 0); return s.Check(&r) }},
		{"no env_id beside minimums", "env_id is null", func(s *ledger.State) error {
			if _, _, _, err := s.Join(ledger.Env{Desired: "m", GroupSize: 4, Weight: 1, Minimum: &half}, at(1)); err != nil {
				return err
			}
			r := group(4, -1)
			return s.Check(&r)
		}},
		{"not a multiple of the largest", "not a multiple of the largest group size", func(s *ledger.State) error {
			for range 4 {
				s.Post(group(5, -1), at(1))
			}
			_, err := next(s, "", at(2))
			return err
		}},
		{"odd sizes", "do not divide the largest size, 4", func(s *ledger.State) error {
			for range 4 {
				s.Post(group(3, -1), at(1))
			}
			s.Post(group(4, -1), at(1))
			_, err := next(s, "", at(2))
			return err
		}},
		{"more and more that do not add up", "no more of them are taken", func(s *ledger.State) error {
			if err := s.Register(ledger.Registration{Batch: 1 << 17}); err != nil {
				s.Reset()
				if err := s.Register(ledger.Registration{Batch: 1 << 17}); err != nil {
					return err
				}
			}
			if _, err := next(s, "", at(1)); err != nil {
				return err
			}
			if _, _, _, err := s.Join(ledger.Env{Desired: "x", GroupSize: 1 << 17, Weight: 1}, at(1)); err != nil {
				return err
			}
			for range 4 {
				r := group(100_000, 0)
				if err := s.Check(&r); err != nil {
					return fmt.Errorf("too early: %w", err)
				}
				s.Post(r, at(1))
			}
			r := group(100_000, 0)
			return s.Check(&r)
		}},
		{"groups that do not add up", "do not add up", func(s *ledger.State) error {
			for range 3 {
				s.Post(group(3, 0), at(1))
			}
			_, err := next(s, "", at(2))
			return err
		}},
		{"a silent environment with a minimum", "has not been heard of for 10m0s", func(s *ledger.State) error {
			if _, _, _, err := s.Join(ledger.Env{Desired: "m", GroupSize: 4, Weight: 1, Minimum: &half}, at(0)); err != nil {
				return err
			}
			for range 4 {
				s.Post(group(4, 0), at(1))
			}
			if b, err := next(s, "", at(60)); b != nil || err != nil {
				return fmt.Errorf("after a minute: %v, %w", b, err)
			}
			_, err := next(s, "", at(600))
			return err
		}},
	}
	for _, tt := range tests {
		err := tt.play(started(t, ledger.Options{}, 8, 4))
		var r *ledger.Refused
		if !errors.As(err, &r) || !strings.Contains(r.Text, tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err := tt.play(started(t, ledger.Options{Strict: true}, 8, 4)); err != nil {
			t.Errorf("%s, strict: %v", tt.name, err)
		}
	}
}

func TestWaitingIsNoStall(t *testing.T) {
	s := started(t, ledger.Options{}, 8, 4)
	for range 3 {
		s.Post(group(2, 0), at(1))
	}
	if b, err := next(s, "", at(1)); b != nil || err != nil {
		t.Error(b, err)
	}
}

// TestReplay compares a state that lived through random requests with those made of its
// events, and of a snapshot in between.
func TestReplay(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		o := ledger.Options{Strict: seed%2 == 0, FIFO: seed%3 == 0}
		live := ledger.New(o)
		var log [][]byte
		var held []uint64
		freed := map[store.Pos]int{}
		posted := int64(0)
		now := 0
		var forming *ledger.Forming // done while other requests are answered
		for range 400 {
			now++
			switch rng.IntN(12) {
			case 0:
				_ = live.Register(ledger.Registration{Batch: 8, Group: "g", Start: 3})
			case 1:
				_, _, _, _ = live.Join(ledger.Env{
					Desired:    fmt.Sprint(rng.IntN(2)),
					GroupSize:  []int64{1, 2, 4}[rng.IntN(3)],
					MaxContext: 9,
					Weight:     1,
				}, at(now))
			case 2, 3:
				if forming != nil {
					forming.Work()
				}
				var b *ledger.Batch
				b, forming, _ = live.Next(fmt.Sprint(rng.IntN(3)), at(now), forming)
				if b != nil {
					held = append(held, b.ID)
				}
			case 4:
				_, _ = live.Status(int64(rng.IntN(4)), at(now))
			case 5:
				if len(held) > 0 {
					live.Returned(held[rng.IntN(len(held))])
				}
			case 6:
				if len(held) > 0 {
					live.Delivered(held[rng.IntN(len(held))])
				}
			case 7:
				if len(held) > 0 {
					_ = live.Acknowledge(held[rng.IntN(len(held))])
				}
			case 8:
				_ = live.Leave(int64(rng.IntN(3)))
			case 9:
				if rng.IntN(20) == 0 {
					live.Reset()
					held = nil
				}
			default:
				r := group([]int{1, 2, 4}[rng.IntN(3)], int64(rng.IntN(4)-1))
				posted++
				r.At.Offset = posted
				if live.Check(&r) == nil {
					key := fmt.Sprint("key ", posted)
					live.Post(r, at(now))
					live.Answer(key, key)
				}
			}
			frame, gone := live.Take()
			for _, p := range gone {
				freed[p]++
				if freed[p] > 1 {
					t.Fatalf("seed %d: %v is freed twice", seed, p)
				}
			}
			if frame != nil {
				log = append(log, frame)
			}
			if rng.IntN(100) == 0 {
				log = slices.Collect(live.Image().Frames())
			}
		}
		again := ledger.New(o)
		for _, f := range log {
			if err := again.Replay(f); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		uses := 0
		again.Finish(func(p store.Pos) {
			uses++
			if freed[p] > 0 {
				t.Errorf("seed %d: %v is freed and in use", seed, p)
			}
		})
		// What is not kept: deliveries repeated are counted in memory alone.
		a, b := slices.Collect(live.Image().Frames()), slices.Collect(again.Image().Frames())
		for i := range a {
			if i == 0 {
				continue
			}
			if !bytes.Equal(a[i], b[i]) {
				t.Fatalf("seed %d: frame %d of %d differs:\n%q\n%q", seed, i, len(a), a[i], b[i])
			}
		}
		x, y := live.Info(at(now)), again.Info(at(now))
		if x.Step != y.Step || x.Queue != y.Queue || x.Queued != y.Queued || x.Buffered != y.Buffered || x.Ready+x.Leased != y.Ready+y.Leased ||
			len(x.Envs) != len(y.Envs) || x.Totals.Groups != y.Totals.Groups {
			t.Fatalf("seed %d:\n%+v\n%+v", seed, x, y)
		}
		if again.Answered("key 1") != live.Answered("key 1") {
			t.Errorf("seed %d: an answer is forgotten", seed)
		}
	}
}

// TestLostBatches: a batch in the hand of a trainer that registers again is counted, unless
// that says itself that it has trained on it, or it was its last.
func TestLostBatches(t *testing.T) {
	again := func(step int64) func(s *ledger.State) error {
		return func(s *ledger.State) error {
			return s.Register(ledger.Registration{Batch: 2, Start: step})
		}
	}
	for _, tt := range []struct {
		name   string
		groups int // of a batch each: there are three steps
		taken  int
		then   func(s *ledger.State) error
		want   int64
	}{
		{"it begins again", 3, 1, again(0), 1},
		{"its checkpoint is older", 3, 2, again(1), 1},
		{"its checkpoint has the batch", 3, 2, again(2), 0},
		{"all are formed, not all handed out", 10, 2, again(0), 1},
		{"its last", 10, 3, again(0), 0},
		{"a new run", 3, 1, func(s *ledger.State) error { s.Reset(); return nil }, 1},
		{"it asks for another", 3, 1, func(s *ledger.State) error { _, err := next(s, "", at(2)); return errors.Join(err, again(0)(s)) }, 0},
	} {
		s := ledger.New(ledger.Options{})
		if err := s.Register(ledger.Registration{Batch: 2, Steps: 3}); err != nil {
			t.Fatal(err)
		}
		for range tt.groups {
			s.Post(group(2, -1), at(0))
		}
		for range tt.taken {
			b, err := next(s, "", at(1))
			if err != nil {
				t.Fatal(err)
			}
			s.Delivered(b.ID)
		}
		if err := tt.then(s); err != nil || s.Info(at(2)).Totals.Lost != tt.want {
			t.Errorf("%s: %d batches are counted as lost, want %d (%v)", tt.name, s.Info(at(2)).Totals.Lost, tt.want, err)
		}
	}
}

// TestFormingGoesBesideTheRest: what happens while batches are formed stays, and what is
// formed of a queue that has been taken away since is nothing.
func TestFormingGoesBesideTheRest(t *testing.T) {
	for _, tt := range []struct {
		name      string
		meanwhile func(s *ledger.State)
		want      string // the batches then
	}{
		{"a post", func(s *ledger.State) { s.Post(group(2, -1), at(1)) }, "[3 4] [1 2] none"},
		{"posts of another batch", func(s *ledger.State) { s.Post(group(2, -1), at(1)); s.Post(group(2, -1), at(1)) }, "[3 4] [1 2] [5 6] none"},
		{"an environment with a minimum", func(s *ledger.State) {
			half := 0.5
			if _, _, _, err := s.Join(ledger.Env{Desired: "m", GroupSize: 2, Weight: 1, Minimum: &half}, at(1)); err != nil {
				t.Error(err)
			}
			s.Post(group(2, 0), at(1))
		}, "none"},
		{"a reset", func(s *ledger.State) {
			s.Reset()
			if err := s.Register(ledger.Registration{Batch: 4}); err != nil {
				t.Error(err)
			}
			s.Post(group(2, -1), at(1))
			s.Post(group(2, -1), at(1))
		}, "[5 6] none"},
		{"somebody else who forms them too", func(s *ledger.State) { b, _ := next(s, "other", at(1)); s.Returned(b.ID) }, "[3 4] [1 2] none"},
	} {
		s := started(t, ledger.Options{}, 4)
		for range 4 {
			s.Post(group(2, -1), at(0))
		}
		b, f, err := s.Next("", at(1), nil)
		if b != nil || f == nil || err != nil {
			t.Fatal(b, f, err)
		}
		tt.meanwhile(s)
		f.Work()
		var got []string
		for len(got) == 0 || got[len(got)-1] != "none" {
			b, f, err = s.Next("", at(2), f)
			if err != nil {
				t.Fatal(tt.name, err)
			}
			if f != nil {
				f.Work()
				continue
			}
			got = append(got, ids(b))
			if b != nil {
				s.Delivered(b.ID)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}

func TestSpoil(t *testing.T) {
	s := started(t, ledger.Options{}, 4)
	for range 2 {
		s.Post(group(2, -1), at(0))
	}
	b, _ := next(s, "", at(1))
	s.Spoil(b.ID, b.Groups[0].ID)
	s.Post(group(2, -1), at(1))
	if b, err := next(s, "", at(2)); ids(b) != "[2 3]" {
		t.Errorf("%s, %v; want groups 2 and 3", ids(b), err)
	}
}

// BenchmarkReplay rebuilds the index of a million sequences in 125,000 groups.
func BenchmarkReplay(b *testing.B) {
	s := started(b, ledger.Options{}, 128, 8)
	var log [][]byte
	for range 125_000 {
		s.Post(group(8, 0), at(0))
		f, _ := s.Take()
		log = append(log, f)
	}
	for b.Loop() {
		again := ledger.New(ledger.Options{})
		for _, f := range log {
			if err := again.Replay(f); err != nil {
				b.Fatal(err)
			}
		}
		again.Finish(func(store.Pos) {})
	}
}

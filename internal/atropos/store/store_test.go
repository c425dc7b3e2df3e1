package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"hermes/internal/atropos/store"
)

func open(t *testing.T, dir string, o store.Options, use func(*store.Store, []string)) []string {
	t.Helper()
	var got []string
	s, _, err := store.Open(dir, o, func(f []byte) error { got = append(got, string(f)); return nil })
	if err != nil {
		t.Fatal(err)
	}
	use(s, got)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestGroupsAndEventsComeBack(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	where := map[string]store.Pos{}
	open(t, dir, store.Options{Segment: 1000}, func(s *store.Store, _ []string) {
		s.Start()
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				body := bytes.Repeat([]byte{byte(i)}, 100+i)
				p, err := s.Put(body)
				if err != nil {
					t.Error(err)
					return
				}
				name := fmt.Sprint("group ", i)
				mu.Lock()
				where[name] = p
				mu.Unlock()
				if err := s.Wait(s.Log([]byte(name))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	got := open(t, dir, store.Options{}, func(s *store.Store, events []string) {
		for _, name := range events {
			s.Keep(where[name])
		}
		s.Start()
		for name, p := range where {
			var out bytes.Buffer
			if err := s.Copy(&out, p, nil); err != nil || int64(out.Len()) != p.Size {
				t.Errorf("%s: %d bytes, %v", name, out.Len(), err)
			}
		}
	})
	if len(got) != 40 {
		t.Errorf("%d events came back, want 40", len(got))
	}
}

func TestFreedSegmentsGo(t *testing.T) {
	dir := t.TempDir()
	files := func() int {
		list, err := filepath.Glob(filepath.Join(dir, "*.groups"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	open(t, dir, store.Options{Segment: 100}, func(s *store.Store, _ []string) {
		s.Start()
		var all []store.Pos
		for range 5 {
			p, err := s.Put(make([]byte, 100))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		s.Keep(all[0])
		if err := s.Wait(s.Log([]byte("x"), all...)); err != nil {
			t.Fatal(err)
		}
		if err := s.Copy(io.Discard, all[1], nil); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("a freed group: %v", err)
		}
	})
	if n := files(); n != 2 { // the one that is kept and the active one
		t.Errorf("%d segments are left, want 2", n)
	}
	open(t, dir, store.Options{}, func(s *store.Store, _ []string) { s.Start() })
	if n := files(); n != 0 {
		t.Errorf("%d segments that nothing uses are left", n)
	}
}

func TestTornTail(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, store.Options{}, func(s *store.Store, _ []string) {
		s.Start()
		for i := range 10 {
			s.Log(fmt.Append(nil, "event ", i))
		}
	})
	name := filepath.Join(dir, "events.log")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		torn := bytes.Clone(whole[:rng.IntN(len(whole)+1)])
		for range rng.IntN(20) {
			torn = append(torn, byte(rng.Uint32()))
		}
		if err := os.WriteFile(name, torn, 0o644); err != nil {
			t.Fatal(err)
		}
		first := open(t, dir, store.Options{}, func(s *store.Store, _ []string) { s.Start(); s.Log([]byte("after")) })
		again := open(t, dir, store.Options{}, func(s *store.Store, _ []string) { s.Start() })
		if len(again) != len(first)+1 || again[len(first)] != "after" {
			t.Fatalf("%d events, then %v", len(first), again)
		}
		for i, e := range first {
			if e != fmt.Sprint("event ", i) {
				t.Fatalf("event %d is %q", i, e)
			}
		}
	}
}

func TestDamageIsSeen(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, store.Options{}, func(s *store.Store, _ []string) {
		s.Start()
		p, err := s.Put(bytes.Repeat([]byte("a"), 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, "00000000.groups"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte("b"), 77); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := s.Copy(&out, p, nil); !errors.Is(err, store.ErrDamaged) || int64(out.Len()) >= p.Size {
			t.Errorf("%v after %d of %d bytes", err, out.Len(), p.Size)
		}
	})
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, store.Options{}, func(s *store.Store, _ []string) {
		s.Start()
		if _, _, err := store.Open(dir, store.Options{}, nil); err == nil {
			t.Error("the directory is opened twice")
		}
	})
}

func TestCompact(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, store.Options{}, func(s *store.Store, _ []string) {
		s.Start()
		for range 100 {
			s.Log([]byte("old"))
		}
		if err := s.Compact(s.Mark(), slices.Values([][]byte{[]byte("one"), []byte("two")})); err != nil {
			t.Fatal(err)
		}
		if err := s.Wait(s.Log([]byte("three"))); err != nil {
			t.Fatal(err)
		}
	})
	if got := open(t, dir, store.Options{}, func(s *store.Store, _ []string) { s.Start() }); fmt.Sprint(got) != "[one two three]" {
		t.Error(got)
	}
}

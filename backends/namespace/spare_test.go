//go:build linux

package namespace_test

import (
	"strings"
	"testing"

	"hermes/backends"
	"hermes/backends/namespace"
)

// TestBoxesMadeAhead: a box is as its own Spec asks, whatever was asked for before, and no
// rollout has used it.
func TestBoxesMadeAhead(t *testing.T) {
	b := open(t, namespace.Config{})
	seen := map[string]bool{}
	for i, name := range strings.Fields("a a a b b a b b b c b a a") {
		b.Settle() // the one made ahead is there
		x := boxOf(t, b, backends.Spec{Env: map[string]string{"NAME": name}, Dir: "/srv/" + name})
		code, out := sh(t, x, "echo $NAME:$PWD:$(ls -A . ~ /tmp | tr -d '\\n'); touch here ~/there /tmp/everywhere")
		if want := name + ":/srv/" + name + ":.:/root:/tmp:"; code != 0 || out != want {
			t.Errorf("box %d: code %d, %q, want %q", i, code, out, want)
		}
		if seen[x.ID()] {
			t.Errorf("box %d: %s for the second time", i, x.ID())
		}
		seen[x.ID()] = true
		if i%3 == 0 {
			if err := x.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestBoxMadeAheadIsKilled: one that somebody ended is not handed out.
func TestBoxMadeAheadIsKilled(t *testing.T) {
	b := open(t, namespace.Config{})
	for range 3 {
		boxOf(t, b, backends.Spec{})
	}
	b.Settle()
	if !b.KillSpare() {
		t.Fatal("no box was made ahead")
	}
	x := boxOf(t, b, backends.Spec{})
	if code, out := sh(t, x, "echo fine"); code != 0 || out != "fine" {
		t.Errorf("code %d, %q", code, out)
	}
}

// TestServerIsMadeAhead: where boxes come to need slotd, it is brought in ahead, and where
// they do not, it no longer is.
func TestServerIsMadeAhead(t *testing.T) {
	b := open(t, namespace.Config{})
	next := func(file bool) (ahead bool) {
		t.Helper()
		b.Settle()
		x := boxOf(t, b, backends.Spec{})
		ahead = b.Woken(x.ID())
		if file {
			served(t, x)
		}
		if code, out := sh(t, x, "echo fine"); code != 0 || out != "fine" {
			t.Fatal(code, out)
		}
		if err := x.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		return ahead
	}
	for range 4 {
		if next(false) {
			t.Error("slotd was there for commands alone")
		}
	}
	for range 6 {
		next(true)
	}
	if !next(true) {
		t.Error("slotd was not brought in ahead, although all boxes needed it")
	}
	for range 8 {
		next(false)
	}
	if next(false) {
		t.Error("slotd is brought in although no box needs it any more")
	}
}

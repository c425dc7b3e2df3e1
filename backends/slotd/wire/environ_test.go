package wire_test

import (
	"maps"
	"testing"

	"hermes/backends"
	"hermes/backends/slotd/wire"
)

// TestDefaults: text is UTF-8 unless the box names a locale, which LC_CTYPE would override.
func TestDefaults(t *testing.T) {
	for name, tt := range map[string]struct{ box, want map[string]string }{
		"nothing":            {nil, map[string]string{"LC_CTYPE": "C.UTF-8"}},
		"LANG":               {map[string]string{"LANG": "C"}, map[string]string{"LANG": "C"}},
		"LC_ALL":             {map[string]string{"LC_ALL": "C"}, map[string]string{"LC_ALL": "C"}},
		"an empty LANG":      {map[string]string{"LANG": ""}, map[string]string{"LANG": "", "LC_CTYPE": "C.UTF-8"}},
		"LC_CTYPE":           {map[string]string{"LC_CTYPE": "C"}, map[string]string{"LC_CTYPE": "C"}},
		"its own PATH, HOME": {map[string]string{"PATH": "/p", "HOME": "/h"}, map[string]string{"PATH": "/p", "HOME": "/h", "LC_CTYPE": "C.UTF-8"}},
	} {
		want := map[string]string{"PATH": wire.DefaultPath, "HOME": "/home/box"}
		maps.Copy(want, tt.want)
		if got := wire.Defaults("/home/box", tt.box); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestEnviron: a command's variables are set over the box's, or alone.
func TestEnviron(t *testing.T) {
	box := map[string]string{"A": "box", "B": "box"}
	own := map[string]string{"B": "command", "C": "command"}
	for clears, want := range map[bool]map[string]string{
		false: {"A": "box", "B": "command", "C": "command"},
		true:  {"B": "command", "C": "command"},
	} {
		if got := wire.Environ(box, backends.Cmd{Env: own, ClearEnv: clears}); !maps.Equal(got, want) {
			t.Errorf("cleared %v: %v, want %v", clears, got, want)
		}
	}
	if box["B"] != "box" {
		t.Error("the environment of the box was changed")
	}
}

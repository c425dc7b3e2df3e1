package group_test

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"hermes/internal/atropos/group"
)

// TestHostileBodies reads megabytes of what no environment sends: none takes more than a
// few times its size at once, or the square of it in time.
func TestHostileBodies(t *testing.T) {
	const n = 2 << 20
	with := func(more string) string { return `{"tokens":[[1]],"masks":[[1]],"scores":[1]` + more + `}` }
	tokens := func(text string) string { return `{"tokens":[[` + text + `1]],"masks":[[1]],"scores":[1]}` }
	tests := []struct {
		name, body string
		list       bool
		want       string // part of the fault
	}{
		{name: "nested lists", body: `{"tokens":` + strings.Repeat("[", n), want: "byte"},
		{name: "nested objects", body: with(`,"group_overrides":` + strings.Repeat(`{"a":`, n/5)), want: "nested"},
		{name: "empty lists", body: `{"tokens":[` + strings.Repeat(`[],`, n) + `[]],"masks":[],"scores":[]}`, want: "more than 1048576"},
		{name: "empty lists of messages", body: with(`,"messages":[` + strings.Repeat(`[],`, n) + `[]]`), want: "more than 1048576"},
		{name: "empty lists behind a string", body: `{"tokens":[["1"],` + strings.Repeat(`[],`, n) + `[]],"masks":[],"scores":[]}`, want: "more than 1048576"},
		{name: "integers as floats", body: tokens(strings.Repeat(`1.0,`, n/4)), want: "1 positions"},
		{name: "integers as strings", body: tokens(strings.Repeat(`"1",`, n/4)), want: "1 positions"},
		{name: "no numbers", body: tokens(strings.Repeat(`null,`, n/5)), want: "valid integer"},
		{name: "a list for a number", body: tokens(`[` + strings.Repeat(`1,`, n) + `1],`), want: "valid integer"},
		{name: "an object for a number", body: tokens(`{"a":[` + strings.Repeat(`1,`, n) + `1]},`), want: "valid integer"},
		{name: "one long integer", body: tokens(strings.Repeat(`9`, n) + ","), want: "Input should be"},
		{name: "one long string of digits", body: tokens(`"` + strings.Repeat(`9`, n) + `",`), want: "unable to parse"},
		{name: "scores as strings", body: `{"tokens":[[1]],"masks":[[1]],"scores":[` + strings.Repeat(`"1e5",`, n/6) + `1]}`, want: "entries for 1"},
		{name: "an object beside a number", body: with(`,"overrides":[{"a":[` + strings.Repeat(`1,`, n) + `1]},1]`), want: "valid dictionary"},
		{name: "many groups", body: "[" + strings.Repeat(with("")+",", 20_000) + with("") + "]", list: true, want: "more than 16384 groups"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(tt.body)
			runtime.GC()
			defer debug.SetGCPercent(debug.SetGCPercent(10)) // so that the heap is what is in use
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var err error
			if tt.list {
				_, err = group.ReadList(body, group.Rules{})
			} else {
				_, err = group.Read(body, group.Rules{})
			}
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%.300v, want %q", err, tt.want)
			}
			if grown := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(body)); grown > 70 {
				t.Errorf("%.0f times its size was allocated", grown)
			}
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > max(32<<20, 12*int64(len(body))) {
				t.Errorf("%d bytes were taken at once for a body of %d", grown, len(body))
			}
		})
	}
}

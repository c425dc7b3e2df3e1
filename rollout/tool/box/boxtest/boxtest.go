// Package boxtest is the suite that the box tools pass on every back-end: the same calls
// give the same results in a local box, a namespace or a container.
package boxtest

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"hermes/backends"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box"
	"hermes/trajectory"
)

// Run runs the suite. Open gives a fresh box for each test; its back-end's traits say
// whether the box is isolated.
func Run(t *testing.T, open func(t *testing.T) backends.Sandbox) { run(t, open, cases()) }

// RunShell runs the part of the suite that is about the shell and holds in every shell.
func RunShell(t *testing.T, open func(t *testing.T) backends.Sandbox) { run(t, open, sessionCases()) }

func run(t *testing.T, open func(t *testing.T) backends.Sandbox, all []testCase) {
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			s := NewSet(t, open(t), box.Options{})
			if c.needs != "" {
				if out := Call(t, s, "terminal", map[string]any{"command": "command -v " + c.needs}); !strings.Contains(out, `"exit_code":0`) {
					t.Skipf("the box has no %s", c.needs)
				}
			}
			ids := map[string]string{}
			for i, step := range c.steps {
				args := step.args
				for k, v := range ids {
					args = strings.ReplaceAll(args, k, v)
				}
				r, err := s.Call(t.Context(), trajectory.Call{ID: "c", Name: step.tool, Arguments: args})
				if err != nil {
					t.Fatalf("step %d, %s %s: %v", i, step.tool, args, err)
				}
				if m := session.FindString(r.Text); m != "" {
					ids["$ID"] = m
				}
				if got := Normal(r.Text); !matches(step.want, got) {
					t.Errorf("step %d, %s %s:\n got %s\nwant %s", i, step.tool, args, got, step.want)
				}
			}
		})
	}
}

// NewSet opens the box tools over a box.
func NewSet(t *testing.T, b backends.Sandbox, o box.Options) *tool.Set {
	t.Helper()
	scope := &tool.Scope{Box: func(context.Context) (backends.Sandbox, error) { return b, nil }, Isolated: true, Now: time.Now}
	s, err := tool.NewSet(box.New(o), scope, tool.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close the tools: %v", err)
		}
	})
	return s
}

// Call makes one call and returns its text.
func Call(t *testing.T, s *tool.Set, name string, args any) string {
	t.Helper()
	r, err := s.Call(t.Context(), trajectory.Call{ID: "c", Name: name, Arguments: tool.JSON(args)})
	if err != nil {
		t.Fatalf("%s %s: %v", name, tool.JSON(args), err)
	}
	return r.Text
}

var (
	session  = regexp.MustCompile(`proc_[0-9a-f]{12}`)
	pid      = regexp.MustCompile(`"pid":\d+`)
	started  = regexp.MustCompile(`"started_at":"[^"]+"`)
	uptime   = regexp.MustCompile(`"(uptime_seconds|duration_seconds)":[\d.]+`)
	tempHome = regexp.MustCompile(`/[^" ]*/hermes-local-[\d-]+/home`)
)

// Normal takes out of a result what differs from run to run.
func Normal(text string) string {
	text = session.ReplaceAllString(text, "proc_ID")
	text = pid.ReplaceAllString(text, `"pid":1`)
	text = started.ReplaceAllString(text, `"started_at":"T"`)
	text = tempHome.ReplaceAllString(text, "HOME")
	return uptime.ReplaceAllString(text, `"$1":0`)
}

// matches compares exactly; a want that begins with ~ is a regular expression.
func matches(want, got string) bool {
	if expr, ok := strings.CutPrefix(want, "~"); ok {
		return regexp.MustCompile("(?s)" + expr).MatchString(got)
	}
	return want == got
}

type step struct{ tool, args, want string }

type testCase struct {
	name  string
	needs string // a program of the box
	steps []step
}

func args(kv ...any) string {
	m := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = kv[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

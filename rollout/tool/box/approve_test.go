package box_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"hermes/backends"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box"
	"hermes/rollout/tool/box/boxtest"
)

// person answers what tools ask.
type person struct {
	mu    sync.Mutex
	yes   bool
	asked []tool.Ask
}

func (p *person) answer(_ context.Context, a tool.Ask) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, a)
	return p.yes, nil
}

func (p *person) reset(yes bool) []tool.Ask {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.asked
	p.asked, p.yes = nil, yes
	return was
}

// TestEveryToolAsks: what acts on the host outside of a sandbox is shown whole and asked for, and
// nothing of it happens without a yes. Reading is free in the working folder alone, links counted
// as what they lead to.
func TestEveryToolAsks(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	outside := t.TempDir()
	secret, victim := filepath.Join(outside, "secret.txt"), filepath.Join(outside, "victim.txt")
	for _, f := range []string{secret, victim} {
		if err := os.WriteFile(f, []byte("hidden\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := openLocal(t)
	p := &person{yes: true}
	scope := &tool.Scope{Box: func(context.Context) (backends.Sandbox, error) { return b, nil }, Approve: p.answer}
	defs := box.Builtin()
	s, err := tool.NewSet(defs, scope, tool.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	boxtest.Call(t, s, "terminal",
		map[string]any{"command": "mkdir sub; echo mine > mine.txt; ln -s " + outside + " link; ln -s " + secret + " sub/alias; ln -s /proc/self/cwd sub/here; pwd; cat > echoed.py <<'X'\nimport sys\nfor l in sys.stdin: open('heard','a').write(l)\nX"})
	started := boxtest.Call(t, s, "terminal", map[string]any{"command": "python3 -u echoed.py", "background": true})
	id := regexp.MustCompile(`proc_[0-9a-f]{12}`).FindString(started)
	if id == "" {
		t.Fatal("no process was started: ", started)
	}
	type args = map[string]any
	type attempt struct {
		tool  string
		args  args
		kinds []string // that are asked for, in order; a folder's name is left out
		says  []string
	}
	tests := []attempt{
		{"terminal", args{"command": "rm -rf ./*", "workdir": "sub"}, []string{"commands"}, []string{"rm -rf ./*", "/sub:"}},
		{"terminal",
			args{"command": "touch a\n# " + strings.Repeat("x", 5000) + "\ntouch made", "background": true},
			[]string{"commands"},
			[]string{"in the background", "touch made"}},
		{"execute_code", args{"code": "open('made','w')"}, []string{"code"}, []string{"open('made','w')"}},
		{"process",
			args{"action": "submit", "session_id": id, "data": "evil()"},
			[]string{"input to processes"},
			[]string{"evil()", "python3 -u echoed.py", "submit"}},
		{"process", args{"action": "write", "session_id": id, "data": "evil()\n"}, []string{"input to processes"}, []string{"evil()"}},
		{"process", args{"action": "close", "session_id": id}, []string{"input to processes"}, []string{"close"}},
		{"process", args{"action": "poll", "session_id": id}, nil, nil},
		{"process", args{"action": "list"}, nil, nil},
		{"write_file", args{"path": "made", "content": "one\ntwo\n"}, []string{"changes of files"}, []string{"+one\n+two\n", "made"}},
		{"write_file", args{"path": victim, "content": "x"}, []string{"reading outside of", "changes of files"}, []string{victim}},
		{"write_file", args{"path": "link/victim.txt", "content": "x"}, []string{"reading outside of", "changes of files"}, []string{victim}},
		{"patch", args{"path": "mine.txt", "old_string": "mine", "new_string": "made"}, []string{"changes of files"}, []string{"-mine\n+made\n"}},
		{"patch", args{"path": victim, "old_string": "hidden", "new_string": "x"}, []string{"reading outside of", "changes of files"}, []string{victim}},
		{"patch",
			args{
				"mode":  "patch",
				"patch": "*** Begin Patch\n*** Add File: made\n+new\n*** Delete File: mine.txt\n*** Update File: echoed.py\n*** Move to: moved.py\n@@\n-import sys\n+import os\n*** End Patch",
			},
			[]string{"changes of files"}, []string{"+new\n", "delete ", "mine.txt", "moved.py", "-import sys\n+import os\n"}},
		{"read_file", args{"path": "mine.txt"}, nil, nil},
		{"read_file", args{"path": "sub/../mine.txt"}, nil, nil},
		{"read_file", args{"path": secret}, []string{"reading outside of"}, []string{secret}},
		{"read_file", args{"path": "sub/alias"}, []string{"reading outside of"}, []string{secret}},
		{"read_file", args{"path": "link/secret.txt"}, []string{"reading outside of"}, []string{secret}},
		{"read_file", args{"path": "../../../../../../../../etc/passwd"}, []string{"reading outside of"}, []string{"/etc/passwd"}},
		{"read_file", args{"path": "/proc/self/cwd/approve_test.go"}, []string{"reading outside of"}, []string{"/proc/self/cwd/approve_test.go"}},
		{"read_file", args{"path": "sub/here/approve_test.go"}, []string{"reading outside of"}, []string{"/sub/here/approve_test.go"}},
		{"read_file", args{"path": "~/../x\nread_file: mine.txt"}, []string{"reading outside of"}, []string{`x\nread_file: mine.txt`}},
		{"write_file",
			args{"path": "sub/x\n+++ b/mine.txt", "content": "made"},
			[]string{"reading outside of", "changes of files"},
			[]string{`x\n+++ b/mine.txt`}},
		{"terminal", args{"command": "touch made", "workdir": "~"}, []string{"commands"}, []string{"in ~:"}},
		{"search_files", args{"pattern": "mine"}, nil, nil},
		{"search_files", args{"pattern": "hidden", "path": outside}, []string{"reading outside of"}, []string{outside, "hidden"}},
		{"search_files", args{"pattern": "*", "target": "files", "path": "link"}, []string{"reading outside of"}, []string{outside}},
		{"todo", args{}, nil, nil},
	}
	for _, tt := range tests {
		p.reset(false)
		out := boxtest.Call(t, s, tt.tool, tt.args)
		asked := p.reset(false)
		if len(tt.kinds) > 0 && (len(asked) == 0 || strings.Contains(out, "hidden") || !strings.Contains(out, "allowed")) {
			t.Errorf("%s %v: asked %v, and answered %s", tt.tool, tt.args, asked, out)
			continue
		}
		if len(tt.kinds) > 1 { // the second is asked for when the first was allowed
			asked = asked[:1]
			scope.Approve = func(_ context.Context, a tool.Ask) (bool, error) {
				if a.Kind == asked[0].Kind {
					return true, nil
				}
				asked = append(asked, a)
				return false, nil
			}
			boxtest.Call(t, s, tt.tool, tt.args)
			scope.Approve = p.answer
		}
		var said strings.Builder
		for i, a := range asked {
			if i >= len(tt.kinds) || !strings.HasPrefix(a.Kind, tt.kinds[i]) {
				t.Errorf("%s %v: asked for %q, want %q", tt.tool, tt.args, a.Kind, tt.kinds)
			}
			said.WriteString(a.What + "\n")
		}
		if len(asked) != len(tt.kinds) {
			t.Errorf("%s %v: asked %d times, want %d: %v", tt.tool, tt.args, len(asked), len(tt.kinds), asked)
		}
		for _, w := range tt.says {
			if !strings.Contains(said.String(), w) {
				t.Errorf("%s %v: the question does not say %q:\n%s", tt.tool, tt.args, w, said.String())
			}
		}
	}
	p.reset(true)
	left := boxtest.Call(t, s, "terminal", map[string]any{"command": "cat mine.txt heard; ls . sub"})
	if strings.Contains(left, "made") || strings.Contains(left, "evil") || !strings.Contains(left, "alias") || !strings.Contains(left, "mine") {
		t.Errorf("something was done without a yes: %s", left)
	}
	for _, f := range []string{secret, victim} {
		if text, err := os.ReadFile(f); err != nil || string(text) != "hidden\n" {
			t.Errorf("%s: %q, %v", f, text, err)
		}
	}
	for _, d := range defs {
		if !slices.ContainsFunc(tests, func(a attempt) bool { return a.tool == d.Spec.Name }) {
			t.Errorf("%s is not tried here", d.Spec.Name)
		}
	}
}

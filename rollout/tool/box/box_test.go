package box_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/local"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box"
	"hermes/rollout/tool/box/boxtest"
	"hermes/trajectory"
)

func openLocal(t *testing.T) backends.Sandbox {
	t.Helper()
	back, err := local.New(local.Config{Dir: t.TempDir(), Path: os.Getenv("PATH")})
	if err != nil {
		t.Fatal(err)
	}
	b, err := back.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = back.Close(context.Background()) })
	return b
}

func TestSuite(t *testing.T) { boxtest.Run(t, openLocal) }

// TestOtherShells: what holds in every shell holds where there is no bash.
func TestOtherShells(t *testing.T) {
	for name, argv := range map[string][]string{"dash": {"dash"}, "busybox": {"busybox", "sh"}, "bash as sh": {"bash"}} {
		t.Run(name, func(t *testing.T) {
			shell, err := exec.LookPath(argv[0])
			if err != nil {
				t.Skip(err)
			}
			bin := t.TempDir()
			if err := os.Symlink(shell, filepath.Join(bin, "sh")); err != nil {
				t.Fatal(err)
			}
			for _, tool := range []string{"mkdir", "mv", "rm", "ls", "cat", "sleep", "true", "false", "grep", "env", "basename", "head", "tr", "wc"} {
				if path, err := exec.LookPath(tool); err == nil {
					if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
						t.Fatal(err)
					}
				}
			}
			back, err := local.New(local.Config{Dir: t.TempDir(), Path: bin})
			if err != nil {
				t.Fatal(err)
			}
			defer back.Close(context.Background())
			boxtest.RunShell(t, func(t *testing.T) backends.Sandbox {
				b, err := back.Open(t.Context(), backends.Spec{})
				if err != nil {
					t.Fatal(err)
				}
				return b
			})
		})
	}
}

// TestStartUpFiles: the session has what each start-up file of the user exports and defines. What
// one prints, where it goes and whether it ends the shell changes nothing.
func TestStartUpFiles(t *testing.T) {
	for _, name := range []string{".profile", ".bash_profile", ".bashrc"} {
		t.Run(name, func(t *testing.T) {
			b := openLocal(t)
			text := "echo noise; export FROM=" + name + "; greet() { echo hello $1; }; cd /\n"
			if err := b.WriteFile(t.Context(), name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			s := boxtest.NewSet(t, b, box.Options{})
			out := boxtest.Call(t, s, "terminal", map[string]any{"command": "echo $FROM; greet you; test $PWD = $HOME; echo $?"})
			if want := `"output":"` + name + `\nhello you\n0\n"`; !strings.Contains(out, want) {
				t.Errorf("%s, want %s", out, want)
			}
		})
	}
	t.Run("one that ends the shell", func(t *testing.T) {
		b := openLocal(t)
		if err := b.WriteFile(t.Context(), ".bashrc", []byte("export FROM=x; exit 3\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s := boxtest.NewSet(t, b, box.Options{})
		if out := boxtest.Call(t, s, "terminal", map[string]any{"command": "echo [$FROM]"}); !strings.Contains(out, `"output":"[]\n"`) {
			t.Error(out)
		}
	})
}

// recorder notes the commands of a box.
type recorder struct {
	backends.Sandbox
	commands []backends.Cmd
}

func (r *recorder) Unwrap() backends.Sandbox { return r.Sandbox }

func (r *recorder) Exec(ctx context.Context, c backends.Cmd) (backends.Result, error) {
	r.commands = append(r.commands, c)
	return r.Sandbox.Exec(ctx, c)
}

// TestShellIsKnown: bash gets SHELL, which it would look up in the user database at each start.
func TestShellIsKnown(t *testing.T) {
	b := &recorder{Sandbox: openLocal(t)}
	s := boxtest.NewSet(t, b, box.Options{})
	boxtest.Call(t, s, "terminal", map[string]any{"command": "true"})
	boxtest.Call(t, s, "terminal", map[string]any{"command": "true"})
	if len(b.commands) < 3 {
		t.Fatalf("%d commands, want one that starts the session and two of the model", len(b.commands))
	}
	for _, c := range b.commands[len(b.commands)-2:] {
		if !strings.HasPrefix(c.Env["SHELL"], "/") {
			t.Errorf("SHELL=%q of %v", c.Env["SHELL"], c.Shell)
		}
	}
}

// TestBoxWithoutShell: when our own first command does not run, it is the image's fault, unless
// the model did something before.
func TestBoxWithoutShell(t *testing.T) {
	back, err := local.New(local.Config{Dir: t.TempDir(), Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close(context.Background())
	for _, c := range []struct {
		name  string
		wrote bool
		want  error
	}{{"first", false, backends.ErrImage}, {"after the model wrote a file", true, backends.ErrBroken}} {
		t.Run(c.name, func(t *testing.T) {
			b, err := back.Open(t.Context(), backends.Spec{})
			if err != nil {
				t.Fatal(err)
			}
			s := boxtest.NewSet(t, b, box.Options{})
			if c.wrote {
				boxtest.Call(t, s, "write_file", map[string]any{"path": "f", "content": "x"})
			}
			_, err = s.Call(t.Context(), trajectory.Call{Name: "terminal", Arguments: `{"command":"true"}`})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "neither bash nor sh") {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// TestParallelCalls: calls side by side each leave a whole state.
func TestParallelCalls(t *testing.T) {
	s := boxtest.NewSet(t, openLocal(t), box.Options{})
	boxtest.Call(t, s, "terminal", map[string]any{"command": "export N=start"})
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			r, err := s.Call(t.Context(), trajectory.Call{Name: "terminal", Arguments: fmt.Sprintf(`{"command":"export N=%d; cd /tmp; echo %d"}`, i, i)})
			if err != nil || !strings.Contains(r.Text, fmt.Sprintf(`"output":"%d\n"`, i)) {
				t.Errorf("%s %v", r.Text, err)
			}
		})
	}
	calls.Wait()
	if out := boxtest.Call(t, s, "terminal", map[string]any{"command": "pwd; echo $N"}); !regexp.MustCompile(`"output":"/tmp\\n[0-7]\\n"`).MatchString(out) {
		t.Error(out)
	}
}

func TestCodeLimits(t *testing.T) {
	b := openLocal(t)
	var python tool.Def
	for _, d := range box.Builtin() {
		if d.Spec.Name == "execute_code" {
			python = d
		}
	}
	if err := python.Fits(t.Context(), b); err != nil {
		t.Skip(err)
	}
	s := boxtest.NewSet(t, b, box.Options{CodeCalls: 2})
	out := boxtest.Call(t, s, "execute_code", map[string]any{"code": "from hermes_tools import terminal\nfor i in range(4): print(terminal('echo x'))"})
	if !strings.Contains(out, `"tool_calls_made":2`) || !strings.Contains(out, "limit of 2 tool calls") {
		t.Errorf("call limit: %s", out)
	}
	for limit := 5 * time.Second; limit < 5*time.Minute; limit *= 3 { // the start of python may take most of it, on a busy machine
		s = boxtest.NewSet(t, b, box.Options{CodeTimeout: limit})
		out = boxtest.Call(t, s, "execute_code", map[string]any{"code": "print('x', flush=True)\nimport time\ntime.sleep(1000)"})
		if strings.Contains(out, "x\\n") {
			break
		}
	}
	if !strings.Contains(out, `"status":"timeout","output":"x\n"`) {
		t.Errorf("timeout: %s", out)
	}
}

func TestFitsRefusesABoxWithoutPython(t *testing.T) {
	back, err := local.New(local.Config{Dir: t.TempDir(), Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close(context.Background())
	b, err := back.Open(t.Context(), backends.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := tool.NewCatalog(nil, box.Builtin()...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Plan(t.Context(), []string{"todo", "code_execution"}, tool.MissingFail)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Fit(t.Context(), b, nil); err == nil || !strings.Contains(err.Error(), "no python3") {
		t.Errorf("asked for by name: %v", err)
	}
	q, err := p.Fit(t.Context(), b, func(set string) bool { return set == "code_execution" })
	if err != nil || len(q.Defs) != 1 || len(q.Dropped) != 1 || q.Toolsets[0] != "todo" {
		t.Errorf("default: %+v %v", q, err)
	}
}

// A box that is lost is never an answer to the model.
func TestLostBoxIsAnError(t *testing.T) {
	for _, c := range []trajectory.Call{
		{Name: "terminal", Arguments: `{"command":"true"}`}, {Name: "read_file", Arguments: `{"path":"x"}`},
		{Name: "write_file", Arguments: `{"path":"x","content":""}`}, {Name: "search_files", Arguments: `{"pattern":"x"}`},
		{Name: "patch", Arguments: `{"path":"x","old_string":"a","new_string":"b"}`}, {Name: "execute_code", Arguments: `{"code":"1"}`},
	} {
		b := openLocal(t)
		s := boxtest.NewSet(t, b, box.Options{})
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Call(t.Context(), c); err == nil {
			t.Errorf("%s answered %s", c.Name, r.Text)
		}
	}
}

func TestProtectedFilesOfTheHost(t *testing.T) {
	b := openLocal(t)
	scope := &tool.Scope{Box: func(context.Context) (backends.Sandbox, error) { return b, nil }}
	s, err := tool.NewSet(box.Builtin(), scope, tool.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	boxtest.Call(t, s, "terminal", map[string]any{"command": "ln -s /etc link"})
	for _, p := range []string{"/etc/hermes-test", "/tmp/../etc/hermes-test", "link/hermes-test", "~/.ssh/id", "~/.bashrc"} {
		if out := boxtest.Call(t, s, "write_file", map[string]any{"path": p, "content": "x"}); !strings.Contains(out, "Write denied") {
			t.Errorf("%s: %s", p, out)
		}
	}
}

func TestLongResultsSpillIntoTheBox(t *testing.T) {
	b := openLocal(t)
	scope := &tool.Scope{Box: func(context.Context) (backends.Sandbox, error) { return b, nil }}
	s, err := tool.NewSet(box.Builtin(), scope, tool.SetOptions{ResultLimit: 2000, SpillDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	out := boxtest.Call(t, s, "terminal", map[string]any{"command": "seq 1 2000"})
	if !strings.HasPrefix(out, "<persisted-output>") || !strings.Contains(out, `{"output":"1\n2\n`) {
		t.Fatalf("%s", out)
	}
	_, rest, _ := strings.Cut(out, "saved to: ")
	path, _, _ := strings.Cut(rest, "\n")
	if full, err := b.ReadFile(t.Context(), path, 0); err != nil || !strings.Contains(string(full), `2000\n","exit_code":0`) {
		t.Errorf("%s: %d bytes, %v", path, len(full), err)
	}
}

package samples_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// box is a directory with the least of each tool that the scripts need.
type box struct {
	t        *testing.T
	dir, cwd string
	helper   string // directory of the stand-in for the client module of execute_code
	log      strings.Builder
}

const helperModule = `import subprocess
def terminal(command):
    r = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    return {"output": r.stdout, "exit_code": r.returncode}
def write_file(path, content):
    with open(path, "w") as f:
        return {"bytes_written": f.write(content)}
`

func newBox(t *testing.T, files map[string]string) *box {
	b := &box{t: t, dir: t.TempDir(), helper: t.TempDir()}
	b.cwd = b.dir
	for name, text := range files {
		if err := write(filepath.Join(b.dir, name), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(filepath.Join(b.helper, "hermes_tools.py"), helperModule); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *box) run(dir, stdin string, argv ...string) (string, error) {
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir, c.Stdin = dir, strings.NewReader(stdin)
	c.Env = append(os.Environ(), "PYTHONPATH="+b.helper, "PYTHONDONTWRITEBYTECODE=1")
	out, err := c.CombinedOutput()
	return string(out), err
}

func (b *box) check(checker, answer string) bool {
	out, err := b.run(b.dir, answer, "sh", "-c", checker)
	fmt.Fprintf(&b.log, "checker: %v %s\n", err, out)
	return err == nil
}

func (b *box) call(name, args string) string {
	var a struct {
		Command, Path, Content, Code, Mode, Patch string
		OldString                                 string `json:"old_string"`
		NewString                                 string `json:"new_string"`
		SessionID                                 string `json:"session_id"`
	}
	if err := json.Unmarshal([]byte(args), &a); err != nil && name != "todo" {
		return `{"error":"arguments are no JSON"}`
	}
	var out string
	var err error
	switch name {
	case "terminal":
		return b.terminal(a.Command)
	case "read_file":
		var raw []byte
		raw, err = os.ReadFile(filepath.Join(b.cwd, a.Path))
		out = string(raw)
	case "write_file":
		err = write(filepath.Join(b.cwd, a.Path), a.Content)
	case "patch":
		if a.Mode == "patch" {
			err = b.patch(a.Patch)
		} else {
			err = b.replace(a.Path, a.OldString, a.NewString)
		}
		if err != nil {
			b.t.Errorf("patch %s: %v", args, err)
		}
	case "execute_code":
		out, err = b.run(b.cwd, "", "python3", "-c", a.Code)
	case "process":
		if a.SessionID != "proc_1" {
			b.t.Errorf("process asked for session %q", a.SessionID)
		}
	case "search_files", "todo":
		out = "{}"
	default:
		return `{"error":"unknown tool"}`
	}
	if err != nil {
		return `{"error":"` + name + ` did not work"}`
	}
	return out
}

// terminal runs a command and keeps the directory, as the tool does.
func (b *box) terminal(command string) string {
	mark := filepath.Join(b.helper, "cwd")
	out, err := b.run(b.cwd, "", "bash", "-c", command+"\ncode=$?; pwd > "+mark+"; exit $code")
	if raw, e := os.ReadFile(mark); e == nil {
		b.cwd = strings.TrimSpace(string(raw))
	}
	res, e := json.Marshal(map[string]any{"output": out, "failed": err != nil, "session_id": "proc_1"})
	if e != nil {
		b.t.Fatal(e)
	}
	return string(res)
}

func (b *box) replace(path, before, after string) error {
	path = filepath.Join(b.cwd, path)
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := strings.Count(string(raw), before); n != 1 {
		return fmt.Errorf("%s: %d places match %q", path, n, before)
	}
	return write(path, strings.Replace(string(raw), before, after, 1))
}

// patch applies a V4A patch whose hunks match exactly, one hunk a file.
func (b *box) patch(text string) error {
	for _, part := range strings.Split(strings.TrimSuffix(text, "*** End Patch"), "*** ")[1:] {
		head, body, _ := strings.Cut(part, "\n")
		kind, path, _ := strings.Cut(head, ": ")
		var before, after strings.Builder
		for line := range strings.Lines(body) {
			switch line[0] {
			case ' ':
				before.WriteString(line[1:])
				after.WriteString(line[1:])
			case '-':
				before.WriteString(line[1:])
			case '+':
				after.WriteString(line[1:])
			}
		}
		var err error
		switch kind {
		case "Add File":
			err = write(filepath.Join(b.cwd, path), after.String())
		case "Delete File":
			err = os.Remove(filepath.Join(b.cwd, path))
		case "Update File":
			err = b.replace(path, before.String(), after.String())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

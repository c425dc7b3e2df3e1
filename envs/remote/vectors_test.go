package remote_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hermes/envs"
	"hermes/envs/remote"
	"hermes/rollout/play"
	"hermes/trajectory"
)

// vector is a line of testdata/protocol.jsonl: what hermes sends, and what must stand in
// the answer of an environment that wants to hear hello.
type vector struct {
	Send json.RawMessage `json:"send"`
	Want map[string]any  `json:"want"`
}

func vectors(t *testing.T) (out []vector) {
	t.Helper()
	f, err := os.Open("testdata/protocol.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	return out
}

// TestVectorsAreSent compares, byte for byte, what this side sends for one rollout.
func TestVectorsAreSent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sent := filepath.Join(dir, "sent")
	// Each line is in the file before it is passed on; tee would do both in its own time.
	const copied = `while IFS= read -r line; do printf '%s\n' "$line" >>"$0"; printf '%s\n' "$line"; done | sh "$1"`
	e := open(t, remote.Config{Command: []string{"sh", "-c", copied, sent, "examples/hello.sh"}, Workers: 1, Settings: map[string]any{"level": 3}})
	row := rows(t, e, envs.Train, 1)[0]
	task, err := e.Task(row)
	if err != nil {
		t.Fatal(err)
	}
	turns, err := e.(envs.Oracle).Oracle(task)
	if err != nil {
		t.Fatal(err)
	}
	for _, turns := range [][]trajectory.Message{turns, {trajectory.Text(trajectory.Assistant, "good \"bye\" <&>\u2028")}} {
		if rec, err := (play.Player{}).Play(t.Context(), e, row, 0, turns); err != nil || rec.Score == nil {
			t.Fatal(rec, err)
		}
	}
	got, err := os.ReadFile(sent)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	for _, v := range vectors(t) {
		want.Write(v.Send)
		want.WriteByte('\n')
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("sent:\n%s\nwant:\n%s", got, want.Bytes())
	}
}

// TestVectorsAreAnswered puts the vectors to hermes_env.py, without this side.
func TestVectorsAreAnswered(t *testing.T) {
	t.Parallel()
	argv := python(t, "examples/hello.py")
	c := exec.Command(argv[0], argv[1:]...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	for _, v := range vectors(t) {
		if _, err := in.Write(append(v.Send, '\n')); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Version string         `json:"jsonrpc"`
			Result  map[string]any `json:"result"`
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.Version != "2.0" {
			t.Fatalf("%s: %v", line, err)
		}
		for key, want := range v.Want {
			if a, b := show(t, got.Result[key]), show(t, want); !strings.Contains(a, strings.Trim(b, `"`)) {
				t.Errorf("%s: %s is %s, want %s", v.Send, key, a, b)
			}
		}
	}
	in.Close()
	if err := c.Wait(); err != nil { // it ends with its stdin
		t.Error(err)
	}
}

func show(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

package tensorboard_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hermes/rollout/event/tensorboard"
)

var at = time.Unix(1_700_000_000, 500_000_000)

// TestBytes compares with bytes that TensorBoard's own reader accepts, see TestOracle:
// the first record is the version.
func TestBytes(t *testing.T) {
	var b bytes.Buffer
	if err := tensorboard.Write(&b, at, 3, map[string]float64{"b/x": 1, "a": 0.5}); err != nil {
		t.Fatal(err)
	}
	var lengths []uint64
	for raw := b.Bytes(); len(raw) > 0; {
		n := binary.LittleEndian.Uint64(raw)
		lengths = append(lengths, n)
		raw = raw[16+n:]
	}
	if len(lengths) != 3 || lengths[0] != 26 {
		t.Fatalf("records of %v bytes", lengths)
	}
	const version = "1a00000000000000" + "129bd82d" + "0900002040fc54d941" + "1000" + "1a0d627261696e2e4576656e743a32"
	if got := hex.EncodeToString(b.Bytes()[:len(version)/2]); got != version {
		t.Errorf("%s, want %s", got, version)
	}
	if !bytes.Contains(b.Bytes()[42:90], []byte("\x0a\x01a\x15\x00\x00\x00\x3f")) {
		t.Errorf("the tags do not come in order: %x", b.Bytes())
	}
}

// TestOracle lets TensorBoard read a file.
func TestOracle(t *testing.T) {
	python := os.Getenv("ORACLE_PYTHON")
	if python == "" {
		t.Skip("ORACLE_PYTHON names no Python that has tensorboard")
	}
	if out, err := exec.Command(python, "-c", "import tensorboard").CombinedOutput(); err != nil {
		t.Skipf("%s has no tensorboard: %s", python, bytes.TrimSpace(out))
	}
	var b bytes.Buffer
	if err := tensorboard.Write(&b, at, 3, map[string]float64{"reward/mean": 0.25, "tools/terminal/error_rate": 1}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, tensorboard.FileName(at)), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	const script = `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1]); a.Reload()
print(json.dumps({t: [[e.step, e.wall_time, e.value] for e in a.Scalars(t)] for t in a.Tags()["scalars"]}))`
	out, err := exec.Command(python, "-c", script, dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var got map[string][][3]float64
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	want := [3]float64{3, 1_700_000_000.5, 0.25}
	if len(got) != 2 || len(got["reward/mean"]) != 1 || got["reward/mean"][0] != want || got["tools/terminal/error_rate"][0][2] != 1 {
		t.Errorf("%s", out)
	}
}

package program_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hermes/backends/slotd/program"
)

// TestProgramRuns: the embedded program is slotd, runs from memory, and cannot be changed.
func TestProgramRuns(t *testing.T) {
	f, err := program.Open()
	if errors.Is(err, program.ErrNone) {
		t.Skip("this test was built without the tag slotd")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out, err := exec.Command(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), "probe").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"arch"`) {
		t.Errorf("probe: %s, %v", out, err)
	}
	if w, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_WRONLY, 0); err == nil {
		defer w.Close()
		if _, err := w.Write([]byte("x")); err == nil {
			t.Error("the program can be written")
		}
	}
}

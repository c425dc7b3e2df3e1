package configs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"hermes/configs"
)

// bombs are small or large texts of YAML that cost much to read, or mean something else than
// they seem to.
func bombs() map[string]string {
	laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := 1; i < 12; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	quadratic := "a: &a [" + strings.Repeat("x,", 20_000) + "x]\nb: [" + strings.Repeat("*a,", 20_000) + "*a]\n"
	merges := "m0: &m0 {k0: 1}\n"
	for i := 1; i < 400; i++ {
		merges += fmt.Sprintf("m%d: &m%d {<<: [%s*m%d], k%d: 1}\n", i, i, strings.Repeat(fmt.Sprintf("*m%d, ", i-1), 8), i-1, i)
	}
	return map[string]string{
		"billion laughs":     laughs,
		"quadratic aliases":  quadratic,
		"merge keys":         merges,
		"nested lists":       "a: " + strings.Repeat("[", 400_000) + strings.Repeat("]", 400_000),
		"nested lists, open": "a: " + strings.Repeat("[", 900_000),
		"nested mappings":    "a: " + strings.Repeat("{a: ", 100_000) + "1" + strings.Repeat("}", 100_000),
		"nested blocks":      strings.Repeat("- ", 400_000) + "x",
		"nested keys":        strings.Repeat("? ", 400_000) + "x",
		"alias of itself":    "a: &a [*a]\n",
		"a huge text":        "a: " + strings.Repeat("x", 8<<20),
		"a huge block":       "a: |\n" + strings.Repeat("  xxxxxxxx\n", 400_000),
		"many documents":     strings.Repeat("---\na: 1\n", 120_000),
		"keys twice":         "a: 1\nb: 2\na: 3\n",
		"many keys": func() string {
			var b strings.Builder
			for i := range 90_000 {
				fmt.Fprintf(&b, "k%d: 1\n", i)
			}
			return b.String()
		}(),
		"many anchors":  strings.Repeat("- &a x\n", 140_000),
		"many comments": strings.Repeat("#\n", 500_000) + "a: [",
		"quotes":        "a: \"" + strings.Repeat(`\u0041`, 170_000),
		"flow on lines": "a: [" + strings.Repeat("x,\n", 250_000),
		"simple keys":   strings.Repeat("a ", 500_000) + ": 1",
	}
}

// bombTime is ten times what the slowest takes, in time on processors: it distinguishes a bomb
// from a slow machine, and a busy one has no part in it.
const bombTime = 20 * time.Second

// cpu is the time that this process has spent on processors.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestYAMLBombs: each is answered in its time and within 256 MB, and those that are refused say why.
func TestYAMLBombs(t *testing.T) {
	refused := 0
	for name, text := range bombs() {
		for door, read := range map[string]func() error{
			"Read":      func() error { _, err := configs.Read("f.yaml", []byte(text)); return err },
			"CheckYAML": func() error { return configs.CheckYAML("f.yaml", []byte(text)) },
		} {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			began := cpu(t)
			err := read()
			took := cpu(t) - began
			runtime.ReadMemStats(&after)
			if bytes := after.TotalAlloc - before.TotalAlloc; took > bombTime || bytes > 256<<20 {
				t.Errorf("%s, %s: %v and %d MB: %.100v", name, door, took, bytes>>20, err)
			}
			if err != nil {
				refused++
				if len(err.Error()) > 400 || !strings.HasPrefix(err.Error(), "f.yaml") {
					t.Errorf("%s, %s: %.600s", name, door, err)
				}
			} else if name != "many keys" && name != "many anchors" && name != "a huge block" {
				t.Errorf("%s, %s: taken", name, door)
			}
		}
	}
	t.Logf("%d texts by two doors, %d refused", len(bombs()), refused)
	for name, text := range map[string]string{
		"anchors": "a: &x [1, 2]\nb: *x\n", "merge": "a: &x {k: 1}\nb: {<<: *x, l: 2}\n", "tags": "a: !!binary aGk=\nb: !!float 1\nc: !!str 2\n", "empty": "",
	} {
		if err := configs.CheckYAML("f.yaml", []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestYAMLIsReadBehindOneDoor: what decodes YAML looks at it with CheckYAML or Read first, or
// says here why it need not.
func TestYAMLIsReadBehindOneDoor(t *testing.T) {
	excused := map[string]string{
		"rollout/rundir/manifest.go":   "run.yaml, which hermes has written",
		"rollout/tool/toolset.go":      "a section that Read has checked, or a text of ours",
		"rollout/tool/distribution.go": "as above",
		"rollout/tool/box/lint.go":     "into nodes alone, which aliases do not make larger; the parser bounds nesting",
	}
	seen := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "../configs/") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text, name := string(raw), strings.TrimPrefix(filepath.ToSlash(path), "../")
		if !strings.Contains(text, "yaml.Unmarshal(") && !strings.Contains(text, "yaml.NewDecoder(") {
			return nil
		}
		seen++
		if excused[name] == "" && !strings.Contains(text, "configs.CheckYAML(") {
			t.Errorf("%s decodes unchecked YAML: call configs.CheckYAML first", name)
		}
		return nil
	})
	if err != nil || seen < 6 {
		t.Error(seen, err)
	}
}

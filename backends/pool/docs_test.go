package pool_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocs: every test that docs/pool.md names is there.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/pool.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, pattern := range []string{"../*/*_test.go", "../slotd/*/*_test.go", "../../cmd/hermes/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(raw)
		}
	}
	for _, name := range regexp.MustCompile("`(Test[A-Z]\\w*)").FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(all.String(), "func "+name[1]+"(") {
			t.Errorf("docs/pool.md names %s, which is no test", name[1])
		}
	}
}

// Package realdata finds the real data beside a checkout, for tests: the folder shared/data of
// the folder in which the checkout lies. It is not part of the repository.
//
// A test whose package moves keeps its data: the checkout is found by its go.mod. Where the
// folder is there and a name in it is not, the test fails. It skips only where the whole folder
// is missing.
package realdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Path returns the path of a file or folder of the data. The test is skipped where there is no
// data at all.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	folder, found := Folder(t)
	if !found {
		t.Skipf("no real data beside the checkout: %s is not there", folder)
	}
	path := filepath.Join(append([]string{folder}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the real data is there, but not this: %v", err)
	}
	return path
}

// Folder returns the folder of the data, and whether it is there: for tests that only do more
// where it is.
func Folder(t testing.TB) (path string, found bool) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if raw, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && string(raw[:min(len(raw), 14)]) == "module hermes\n" {
			break
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod of hermes above the test")
		}
		dir = filepath.Dir(dir)
	}
	path = filepath.Join(filepath.Dir(dir), "shared", "data")
	_, err = os.Stat(path)
	return path, err == nil
}

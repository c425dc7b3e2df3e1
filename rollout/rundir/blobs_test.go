package rundir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"hermes/rollout/rundir"
)

func TestBlobs(t *testing.T) {
	dir := t.TempDir()
	b := rundir.NewBlobs(nil, dir)
	name, err := b.Put([]byte("large"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := b.Put([]byte("large")); err != nil || again != name {
		t.Errorf("%s, %v", again, err)
	}
	if got, err := b.Get(name); string(got) != "large" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := b.Get("../../../etc/passwd"); err == nil {
		t.Error("a path is a name")
	}
	if _, err := b.Get("00" + name[2:]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "blobs", name[:2], name), []byte("lArge"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(name); err == nil {
		t.Error("damage was not seen")
	}
	if _, err := b.Put([]byte("large")); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Get(name); string(got) != "large" || err != nil {
		t.Errorf("damage was not mended: %q, %v", got, err)
	}
}

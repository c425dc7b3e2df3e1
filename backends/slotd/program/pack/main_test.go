package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestPack: what is packed comes out whole, and within the window that it names.
func TestPack(t *testing.T) {
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Skip("no program to pack: ", err)
	}
	dir := t.TempDir()
	from, to := filepath.Join(dir, "program"), filepath.Join(dir, "program.zst")
	if err := os.WriteFile(from, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := pack(from, to); err != nil {
		t.Fatal(err)
	}
	small, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxWindow(window))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := d.DecodeAll(small, nil)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes of %d: %v", len(got), len(text), err)
	}
	if 2*len(small) > len(text) {
		t.Errorf("%d bytes became %d", len(text), len(small))
	}
	if err := pack(filepath.Join(dir, "none"), to); err == nil {
		t.Error("a file that is not there was packed")
	}
}

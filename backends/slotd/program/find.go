package program

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// name is what the program is called wherever it is put.
const name = "hermes-slotd"

// Find finds a program that is slotd wherever it is put: the configured one, the one that
// is embedded, this program where it is static, else the one named slotd beside it. The
// embedded one is written to a new folder whose name begins with prefix. forget removes
// what was made for it.
func Find(configured, arch, prefix string) (path string, forget func() error, err error) {
	forget = func() error { return nil }
	if configured != "" {
		path, err := filepath.Abs(configured)
		if err == nil {
			err = static(path, arch)
		}
		return path, forget, err
	}
	if arch == runtime.GOARCH {
		if path, err := write(prefix); err == nil {
			return path, func() error { return os.RemoveAll(filepath.Dir(path)) }, nil
		}
	}
	path, err = own(arch)
	return path, forget, err
}

// write puts the embedded program where others can start it.
func write(prefix string) (string, error) {
	if len(packed()) == 0 { // before a folder is made
		return "", unpack(nil)
	}
	if err := canStart(os.TempDir()); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err == nil {
		err = errors.Join(unpack(to), to.Close())
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return path, nil
}

// own is this program, or its neighbour.
func own(arch string) (string, error) {
	if arch != runtime.GOARCH {
		return "", fmt.Errorf("the engine's machine is %s and this program %s: name a slotd for it (slotd: PATH in the section of the back-end)", arch, runtime.GOARCH)
	}
	this, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	cause := static(this, arch)
	if cause == nil {
		return this, nil
	}
	beside := filepath.Join(filepath.Dir(this), "slotd")
	if err := static(beside, arch); err != nil {
		return "", errors.Join(cause, err)
	}
	return beside, nil
}

// static objects to programs that need more than the kernel.
func static(path, arch string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("slotd for boxes: %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("slotd for boxes: %s is not static (build it with CGO_ENABLED=0)", path)
		}
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	if f.Machine != want {
		return fmt.Errorf("slotd for boxes: %s is for %v, the engine's machine is %s", path, f.Machine, arch)
	}
	return nil
}

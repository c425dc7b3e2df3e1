package ssh

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"hermes/backends/slotd/program"
)

// readProgram reads a program that can be the station on a host of this architecture:
// the configured one, the embedded one, else this program, else slotd beside it.
func readProgram(configured, arch string) (text []byte, hash string, err error) {
	switch {
	case configured != "":
		text, err = readELF(configured, arch, false)
	case arch != runtime.GOARCH:
		err = fmt.Errorf("the host is %s and this program %s: name a slotd for it (slotd: in the section backends.ssh)", arch, runtime.GOARCH)
	default:
		text, err = ownProgram(arch)
	}
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:8]), err
}

func ownProgram(arch string) ([]byte, error) {
	if text, err := program.Bytes(); err == nil {
		return text, nil
	}
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	text, err := readELF(own, arch, true)
	if err == nil {
		return text, nil
	}
	beside, err2 := readELF(filepath.Join(filepath.Dir(own), "slotd"), arch, true)
	if err2 != nil {
		return nil, errors.Join(err, err2)
	}
	return beside, nil
}

// readELF reads a program and objects to one for other machines, or that needs libraries
// which the host may not have.
func readELF(path, arch string, static bool) ([]byte, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("slotd for the host: %s: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if static && p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("slotd for the host: %s is not static (build it with CGO_ENABLED=0)", path)
		}
	}
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]
	if f.Machine != want {
		return nil, fmt.Errorf("slotd for the host: %s is for %v, the host is %s", path, f.Machine, arch)
	}
	return os.ReadFile(path)
}

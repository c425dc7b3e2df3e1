package singularity

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"hermes/backends"
)

// images turns the names of images into files that can be started. What is not a file
// already becomes a SIF in the cache: built under another name and renamed, by one
// process at a time.
type images struct {
	program *singular
	conf    Config
	owner   backends.Owner
	tell    func(string)
	mu      sync.Mutex
	fresh   map[string]bool // pulled by this process
}

// transports that `pull` understands, and those that only `build` does.
var (
	pulled = []string{"docker://", "oras://", "library://", "https://", "http://"}
	built  = []string{"docker-archive:", "oci-archive:", "oci:", "docker-daemon:"}
)

// source is an image as the program wants it; file reports a path of this machine.
func source(name string) (text string, file bool, err error) {
	if filepath.IsAbs(name) {
		return filepath.Clean(name), true, nil
	}
	for _, t := range append(pulled, built...) {
		if rest, ok := strings.CutPrefix(name, t); ok && rest != "" {
			return name, false, nil
		}
	}
	if name == "" || strings.Contains(name, "://") || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " \t\n\x00") {
		return "", false, fmt.Errorf("image %q: %w: want an absolute path of a SIF file or folder, a name as of docker, or %s", name, backends.ErrImage, strings.Join(append(pulled, built...), " "))
	}
	return "docker://" + name, false, nil
}

// ready returns the path of an image, which it gets first where it is missing.
func (i *images) ready(ctx context.Context, name string) (string, error) {
	from, file, err := source(name)
	if err != nil {
		return "", err
	}
	if file {
		if _, err := os.Stat(from); err != nil {
			return "", fmt.Errorf("image %q: %w: %w", name, backends.ErrImage, err)
		}
		return from, nil
	}
	if err := os.MkdirAll(i.conf.Cache, 0o700); err != nil {
		return "", fmt.Errorf("cache of images: %w", err)
	}
	// The version is part of the key: what one wrote another may not read.
	sum := sha256.Sum256([]byte(i.program.version + "\x00" + from))
	path := filepath.Join(i.conf.Cache, hex.EncodeToString(sum[:12])+".sif")
	unlock, err := backends.LockFile(ctx, path+".lock")
	if err != nil {
		return "", fmt.Errorf("image %q: wait for whoever gets it: %w", name, err)
	}
	defer unlock()
	i.mu.Lock()
	fresh := i.fresh[path]
	i.mu.Unlock()
	_, err = os.Stat(path)
	switch {
	case err == nil && (fresh || i.conf.Pull != "always"):
		return path, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("image %q: %w", name, err)
	case err != nil && i.conf.Pull == "never":
		return "", fmt.Errorf("image %q: %w: it is not in %s, and pull is never", name, backends.ErrImage, i.conf.Cache)
	}
	if err := i.fetch(ctx, from, path); err != nil {
		return "", pullError(name, err)
	}
	i.mu.Lock()
	i.fresh[path] = true
	i.mu.Unlock()
	return path, nil
}

// fetch makes a SIF.
func (i *images) fetch(ctx context.Context, from, path string) error {
	if i.tell != nil {
		i.tell("getting image " + from)
	}
	temp := filepath.Join(i.conf.Cache, fmt.Sprintf("hermes-%s-%s", i.owner, filepath.Base(path)))
	defer os.Remove(temp)
	what := "pull"
	for _, t := range built {
		if strings.HasPrefix(from, t) {
			what = "build"
		}
	}
	if _, err := i.program.run(ctx, what, "--force", temp, from); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

//go:build linux

package namespace

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"hermes/backends"
	"hermes/backends/namespace/unpack"
)

// openStore returns the store of images, which costs nothing until one is unpacked.
func openStore(c Config) (*unpack.Store, error) {
	if c.Store == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, nil // an image that needs it says so
		}
		c.Store = filepath.Join(cache, "hermes", "images")
	}
	return unpack.NewStore(filepath.Clean(c.Store), unpack.Options{})
}

// image finds what a Spec names, and unpacks what has to be. The zero Image is the host's
// programs.
func (b *Backend) image(ctx context.Context, s backends.Spec) (unpack.Image, error) {
	name := cmp.Or(s.Image, b.conf.Root)
	if name == hostRoot {
		return unpack.Image{}, nil
	}
	if !unpack.IsRef(name) {
		return unpack.Image{}, fmt.Errorf("image %q: %w: the namespace back-end takes %q, or %s; what an engine has, docker save -o FILE makes a tar of", name, backends.ErrImage, hostRoot, unpack.Forms)
	}
	r, err := unpack.Find(name)
	switch {
	case err != nil:
		return unpack.Image{}, fmt.Errorf("image %q: %w", name, err)
	case r.Kind == unpack.Dir:
		return unpack.Image{Root: r.Path}, nil
	case b.store == nil:
		return unpack.Image{}, fmt.Errorf("image %q: there is no place to unpack it, as this user has no cache folder: set backends.namespace.store", name)
	}
	return b.store.Get(ctx, r)
}

// openImage opens the directory of an image. Root opens its mount here, where it may
// see it, and hands it to the box, whose id may not; -1 lets the box open it.
func (b *Backend) openImage(p *plan) (int, error) {
	s, err := os.Stat(p.ImageDir)
	if err == nil && !s.IsDir() {
		err = fmt.Errorf("%s is not a directory", p.ImageDir)
	}
	if err != nil {
		return -1, fmt.Errorf("image %q: %w: %w", p.ImageDir, backends.ErrImage, err)
	}
	if !b.ids.root {
		return -1, nil
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, p.ImageDir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("image %q: %w: clone its mount: %w", p.ImageDir, backends.ErrImage, err)
	}
	set := unix.MountAttr{Attr_set: noSetuid, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &set); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("image %q: %w: set its mount attributes: %w", p.ImageDir, backends.ErrImage, err)
	}
	p.ImageDir = ""
	return fd, nil
}

// mapImage shows what the host's root owns in the image as the box's own, where the file
// system can. Where it cannot, the box may read those files and not change them.
func mapImage(image, pid int) {
	ns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
	if err != nil {
		return
	}
	defer ns.Close()
	unix.MountSetattr(image, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())})
}

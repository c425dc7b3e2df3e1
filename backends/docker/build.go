package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"

	"hermes/backends"
)

// buildPrefix begins the name of an image that is built: dockerfile:FOLDER, or
// dockerfile:FILE whose folder is the context.
const buildPrefix = "dockerfile:"

// build makes an image from a folder with a Dockerfile. Its tag is a digest of all that
// goes in, so what was built once is not built again, by any process.
func (i *images) build(ctx context.Context, path string) (string, error) {
	dir, file, err := dockerfile(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", backends.ErrImage, err)
	}
	key, err := i.key(dir, file)
	if err != nil {
		return "", fmt.Errorf("%w: read the context: %w", backends.ErrImage, err)
	}
	ref := "hermes-build:" + key[:32]
	if _, err := i.engine.web.ImageInspect(ctx, ref); err == nil || !cerrdefs.IsNotFound(err) {
		return ref, err
	}
	args := map[string]*string{}
	for k, v := range i.conf.Build.Args {
		args[k] = &v
	}
	began := time.Now()
	i.say("building image " + ref + " from " + path)
	r, w := io.Pipe()
	var packing sync.WaitGroup
	defer packing.Wait()
	defer r.Close()
	packing.Go(func() { w.CloseWithError(pack(w, dir)) })
	answer, err := i.engine.web.ImageBuild(ctx, r, build.ImageBuildOptions{Tags: []string{ref}, Dockerfile: file, Remove: true, ForceRemove: true,
		NetworkMode: i.conf.Build.Network, BuildArgs: args, Labels: map[string]string{labelKind: "build"}})
	if err != nil {
		return "", notMade("build", err)
	}
	defer answer.Body.Close()
	if err := i.follow(answer.Body, ref); err != nil {
		return "", notMade("build", err)
	}
	i.say(fmt.Sprintf("built image %s in %.1f s", ref, time.Since(began).Seconds()))
	return ref, nil
}

// dockerfile splits what follows the prefix into the context and the file in it.
func dockerfile(path string) (dir, file string, err error) {
	if !filepath.IsAbs(path) {
		return "", "", fmt.Errorf("%s%s: want an absolute path", buildPrefix, path)
	}
	st, err := os.Stat(path)
	if err != nil {
		return "", "", err
	}
	dir, file = path, "Dockerfile"
	if !st.IsDir() {
		dir, file = filepath.Split(path)
	}
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		return "", "", err
	}
	return filepath.Clean(dir), file, nil
}

// key is the digest of a build: engine's architecture, options, names, modes, contents.
func (i *images) key(dir, file string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "1\n%s\n%q\n%q\n", i.engine.arch, file, i.conf.Build.Network)
	for _, k := range slices.Sorted(maps.Keys(i.conf.Build.Args)) {
		fmt.Fprintf(h, "%q=%q\n", k, i.conf.Build.Args[k])
	}
	if err := pack(h, dir); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// pack writes a folder as tar, always the same bytes for the same names, contents,
// modes and links. A .dockerignore is not looked at: what it names is part of the context.
func pack(to io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := tar.NewWriter(to)
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		return packOne(w, root, name)
	})
	if err != nil {
		return err
	}
	return w.Close()
}

func packOne(w *tar.Writer, root *os.Root, name string) error {
	st, err := root.Lstat(name)
	if err != nil {
		return err
	}
	link := ""
	switch {
	case st.Mode()&fs.ModeSymlink != 0:
		link, err = root.Readlink(name)
		if err != nil {
			return err
		}
	case !st.IsDir() && !st.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file, a folder nor a link", name)
	}
	h, err := tar.FileInfoHeader(st, link)
	if err != nil {
		return err
	}
	h.Name = name
	if st.IsDir() {
		h.Name += "/"
	}
	h.ModTime = time.Unix(0, 0)
	h.AccessTime = time.Time{}
	h.ChangeTime = time.Time{}
	h.Uid = 0
	h.Gid = 0
	h.Uname = ""
	h.Gname = ""
	h.Format = tar.FormatPAX
	if err := w.WriteHeader(h); err != nil || !st.Mode().IsRegular() {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if n, err := io.Copy(w, io.LimitReader(f, st.Size())); err != nil || n != st.Size() {
		return fmt.Errorf("%s: %d of %d bytes: %w", name, n, st.Size(), errOr(err, io.ErrUnexpectedEOF))
	}
	return nil
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

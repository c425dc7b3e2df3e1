package backendtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hermes/backends"
)

func fileRows() []Row {
	return []Row{
		{Number: 36, Name: "files exact", run: func(e *Env) {
			all := make([]byte, 256)
			for i := range all {
				all[i] = byte(i)
			}
			for i, data := range [][]byte{{}, {0}, all, pattern(5 << 20)} {
				name := fmt.Sprintf("f%d", i)
				e.write(name, data)
				e.same(name, e.read(name), data)
			}
		}},
		{Number: 37, Name: "odd names", run: func(e *Env) {
			for _, name := range []string{"with space", "-n", "ünï ☃", "a'b\"c", "new\nline", "100%", "a?b#c&d=e+f", strings.Repeat("x", 255)} {
				e.write("odd/"+name, []byte(name))
				e.same(name, e.read("odd/"+name), []byte(name))
				e.same(name+" seen by a command", e.exec(backends.Cmd{Argv: []string{"cat", "odd/" + name}}).Stdout, []byte(name))
			}
		}},
		{Number: 38, Name: "folders are made", run: func(e *Env) {
			e.write("a/b/c/d.txt", []byte("x"))
			if got := e.sh("cat a/b/c/d.txt"); got != "x" {
				e.Errorf("%q", got)
			}
		}},
		{Number: 39, Name: "modes", run: func(e *Env) {
			box := e.box()
			must := func(err error) {
				if err != nil {
					e.Fatalf("write: %v", err)
				}
			}
			must(box.WriteFile(e.ctx, "run.sh", []byte("#!/bin/sh\necho one\n"), 0o755))
			if got := e.sh("./run.sh"); got != "one" {
				e.Errorf("%q", got)
			}
			must(box.WriteFile(e.ctx, "run.sh", []byte("#!/bin/sh\necho two\n"), 0))
			if got := e.sh("./run.sh; ls -l run.sh | cut -c1-10"); got != "two\n-rwxr-xr-x" {
				e.Errorf("after an overwrite: %q", got)
			}
			must(box.WriteFile(e.ctx, "run.sh", nil, 0o600))
			if got := e.sh("ls -l run.sh | cut -c1-10"); got != "-rw-------" {
				e.Errorf("mode given: %q", got)
			}
		}},
		{Number: 40, Name: "a reader never sees half a file", run: neverHalf},
		{Number: 41, Name: "read limit", run: func(e *Env) {
			e.write("f", []byte("12345"))
			if data, err := e.box().ReadFile(e.ctx, "f", 5); err != nil || string(data) != "12345" {
				e.Errorf("limit of its length: %q, %v", data, err)
			}
			var pe *fs.PathError
			if data, err := e.box().ReadFile(e.ctx, "f", 4); !errors.Is(err, backends.ErrTooLarge) || !errors.As(err, &pe) {
				e.Errorf("limit below its length: %q, %v", data, err)
			}
		}},
		{Number: 42, Name: "missing file", run: func(e *Env) {
			for _, name := range []string{"none", "none/deeper", "/no/such/file"} {
				if _, err := e.box().ReadFile(e.ctx, name, 0); !errors.Is(err, fs.ErrNotExist) {
					e.Errorf("%s: %v", name, err)
				}
			}
		}},
		{Number: 43, Name: "directory and permission", run: func(e *Env) {
			e.sh("mkdir dir; mkfifo pipe; echo x > secret; chmod 000 secret")
			if _, err := e.box().ReadFile(e.ctx, "dir", 0); err == nil || errors.Is(err, backends.ErrLost) {
				e.Errorf("read a directory: %v", err)
			}
			if err := e.box().WriteFile(e.ctx, "dir", []byte("x"), 0); err == nil || errors.Is(err, backends.ErrLost) {
				e.Errorf("write to a directory: %v", err)
			}
			if _, err := e.box().ReadFile(e.ctx, "pipe", 0); err == nil || errors.Is(err, backends.ErrLost) {
				e.Errorf("read a fifo: %v", err)
			}
			if _, err := e.box().ReadFile(e.ctx, "secret", 0); !e.traits.Root && !errors.Is(err, fs.ErrPermission) {
				e.Errorf("read without permission: %v", err)
			}
		}},
		{Number: 44, Name: "links", run: func(e *Env) {
			e.sh("echo real > real; ln -s real link; mkdir d; ln -s ../real d/link; ln -s nowhere dangling; ln -s loop loop")
			e.same("through a link", e.read("d/link"), []byte("real\n"))
			e.write("d/link", []byte("new"))
			if got := e.sh("cat real; test -L d/link && echo ' link'"); got != "new link" {
				e.Errorf("after writing through a link: %q", got)
			}
			if _, err := e.box().ReadFile(e.ctx, "dangling", 0); !errors.Is(err, fs.ErrNotExist) {
				e.Errorf("dangling: %v", err)
			}
			if err := e.box().WriteFile(e.ctx, "loop", nil, 0); err == nil {
				e.Errorf("wrote through a loop of links")
			}
		}},
		{Number: 45, Name: "commands and file calls agree", run: func(e *Env) {
			for _, dir := range []string{"", e.sh("echo ${TMPDIR:-/tmp}") + "/", "/dev/shm/"} {
				if e.exec(backends.Cmd{Shell: "test -w " + "'" + dir + "./'"}).Code != 0 {
					continue
				}
				name := fmt.Sprintf("%shermes-%d", dir, time.Now().UnixNano())
				e.sh("echo cmd > " + name)
				e.same(name, e.read(name), []byte("cmd\n"))
				e.write(name, []byte("call"))
				if got := e.sh("cat " + name + "; rm " + name); got != "call" {
					e.Errorf("%s: %q", name, got)
				}
			}
		}},
		{Number: 46, Name: "full disk", needs: enforces("disk"), run: fullDisk},
		{Number: 47, Name: "tar in and out", run: tarRound},
		{Number: 48, Name: "hostile tar", run: hostileTar},
		{Number: 49, Name: "64 writers at once", run: func(e *Env) {
			var all sync.WaitGroup
			box := e.box()
			errs := make([]error, 64)
			for i := range errs {
				all.Go(func() {
					errs[i] = box.WriteFile(e.ctx, fmt.Sprintf("d%d/f%d", i%4, i), bytes.Repeat([]byte{byte(i)}, 10_000), 0)
				})
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				e.Fatalf("%v", err)
			}
			for i := range errs {
				e.same("file", e.read(fmt.Sprintf("d%d/f%d", i%4, i)), bytes.Repeat([]byte{byte(i)}, 10_000))
			}
			if got := e.sh("ls -A d0 | wc -l | tr -d ' '"); got != "16" {
				e.Errorf("%s files in d0, want 16 and no temporary ones", got)
			}
		}},
	}
}

func neverHalf(e *Env) {
	box := e.box()
	data := [2][]byte{bytes.Repeat([]byte("a"), 300_000), bytes.Repeat([]byte("b"), 200_000)}
	e.write("f", data[0])
	var stop atomic.Bool
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil && !stop.Load(); i++ {
			err = box.WriteFile(e.ctx, "f", data[i%2], 0)
		}
		done <- err
	}()
	for range 40 {
		got, err := box.ReadFile(e.ctx, "f", 0)
		if err != nil || !bytes.Equal(got, data[0]) && !bytes.Equal(got, data[1]) {
			e.Errorf("%d bytes, %v", len(got), err)
			break
		}
	}
	stop.Store(true)
	if err := <-done; err != nil {
		e.Errorf("write: %v", err)
	}
}

func fullDisk(e *Env) {
	box := e.open(backends.Spec{Limits: backends.Limits{Disk: 8 << 20}})
	var err error
	for i := 0; i < 4 && err == nil; i++ {
		err = box.WriteFile(e.ctx, fmt.Sprintf("f%d", i), pattern(4<<20), 0)
	}
	if err == nil || errors.Is(err, backends.ErrLost) {
		e.Errorf("16 MiB on a disk of 8: %v", err)
	}
	e.shIn(box, "rm -f f*; echo small > f; cat f")
}

func tarRound(e *Env) {
	c := ability[backends.Copier](e)
	when := time.Unix(1_500_000_000, 0)
	var in bytes.Buffer
	w := tar.NewWriter(&in)
	for _, h := range []tar.Header{
		{Name: "empty/", Typeflag: tar.TypeDir, Mode: 0o750, ModTime: when},
		{Name: "run.sh", Typeflag: tar.TypeReg, Mode: 0o755, Size: 5, ModTime: when},
		{Name: "deep/er/file", Typeflag: tar.TypeReg, Mode: 0o640, Size: 5, ModTime: when},
		{Name: "deep/link", Typeflag: tar.TypeSymlink, Linkname: "er/file", ModTime: when},
		{Name: "hard", Typeflag: tar.TypeLink, Linkname: "run.sh", ModTime: when},
	} {
		if w.WriteHeader(&h) != nil {
			e.Fatalf("header %s", h.Name)
		}
		w.Write([]byte("12345")[:h.Size])
	}
	w.Close()
	if err := c.CopyIn(e.ctx, "tree", &in); err != nil {
		e.Fatalf("copy in: %v", err)
	}
	if got := e.sh("cd tree; cat deep/link; test run.sh -ef hard && ls -ld empty run.sh deep/er/file | cut -c1-10"); got != "12345-rw-r-----\ndrwxr-x---\n-rwxr-xr-x" {
		e.Errorf("in the box: %q", got)
	}
	var out bytes.Buffer
	if err := c.CopyOut(e.ctx, "tree", &out); err != nil {
		e.Fatalf("copy out: %v", err)
	}
	got := map[string]string{}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		got[h.Name] = fmt.Sprintf("%c %o %d %s %v", h.Typeflag, h.Mode, h.Size, h.Linkname, h.Typeflag != tar.TypeReg || h.ModTime.Equal(when))
	}
	for name, want := range map[string]string{"empty/": "5 750 0  true", "run.sh": "0 755 5  true", "deep/er/file": "0 640 5  true", "deep/link": "2 777 0 er/file true"} {
		if got[name] != want {
			e.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

func hostileTar(e *Env) {
	c := ability[backends.Copier](e)
	e.sh("mkdir outside")
	home := e.sh("pwd")
	for name, entries := range map[string][]tar.Header{
		"parent":        {{Name: "../outside/evil", Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}},
		"deep parent":   {{Name: "a/../../outside/evil", Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}},
		"absolute":      {{Name: home + "/outside/evil", Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}},
		"through link":  {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../outside"}, {Name: "l/evil", Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}},
		"absolute link": {{Name: "m", Typeflag: tar.TypeSymlink, Linkname: home + "/outside"}, {Name: "m/evil", Typeflag: tar.TypeReg, Size: 1, Mode: 0o644}},
		"hard link":     {{Name: "h", Typeflag: tar.TypeLink, Linkname: "../outside/evil"}},
	} {
		var in bytes.Buffer
		w := tar.NewWriter(&in)
		for _, h := range entries {
			w.WriteHeader(&h)
			w.Write(make([]byte, h.Size))
		}
		w.Close()
		if err := c.CopyIn(e.ctx, "tree", &in); err == nil || errors.Is(err, backends.ErrLost) {
			e.Errorf("%s: error %v", name, err)
		}
	}
	if got := e.sh("ls -A outside"); got != "" {
		e.Errorf("the archive wrote outside of its place: %q", got)
	}
}

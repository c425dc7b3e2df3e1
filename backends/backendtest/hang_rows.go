package backendtest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"hermes/backends"
)

// hangRows put what makes careless programs wait where file calls look: each call ends within
// its bound, and the box lives.
func hangRows() []Row {
	return []Row{
		{Number: 100, Name: "FIFOs, sockets, devices", run: specialFiles},
		{Number: 101, Name: "thousands of folders in each other", run: deepTree},
		{Number: 102, Name: "a file that grows", run: growingFile},
		{Number: 103, Name: "files that become FIFOs", run: exchanged},
		{Number: 104, Name: "a folder of many files", run: manyFiles},
		{Number: 105, Name: "input that is not read", run: unreadInput},
	}
}

// prompt is what a call of these rows takes at most, on a slow and loaded machine. One that ends
// by the bound of calls, which comes sooner, says so with ErrSlow.
const prompt = 2 * time.Minute

// soon demands that a call ends within a time, and that the box lives on. What error it comes to
// is returned.
func (e *Env) soon(what string, most time.Duration, call func(ctx context.Context) error) error {
	e.Helper()
	ctx, cancel := context.WithTimeout(e.ctx, most+patience)
	defer cancel()
	began := time.Now()
	err := call(ctx)
	if took := time.Since(began); took > most {
		e.Errorf("%s took %v: %v", what, took.Round(time.Millisecond), err)
	}
	if errors.Is(err, backends.ErrSlow) && most == prompt {
		e.Errorf("%s did not end but by its bound, after %v: %v", what, time.Since(began).Round(time.Millisecond), err)
	}
	if errors.Is(err, backends.ErrLost) || errors.Is(err, backends.ErrBroken) || errors.Is(err, backends.ErrClosed) {
		e.Fatalf("%s: %v", what, err)
	}
	return err
}

// calls are all file calls with one name, as far as the box has them.
func (e *Env) calls(name string) map[string]func(context.Context) error {
	e.Helper()
	all := map[string]func(context.Context) error{
		"read":  func(ctx context.Context) error { _, err := e.box().ReadFile(ctx, name, 0); return err },
		"write": func(ctx context.Context) error { return e.box().WriteFile(ctx, name, []byte("x"), 0) },
	}
	if s, ok := backends.As[backends.Searcher](e.box()); ok {
		all["search"] = func(ctx context.Context) error {
			_, err := s.Search(ctx, backends.Query{Root: name, Pattern: "needle", Content: true})
			return err
		}
		all["search names"] = func(ctx context.Context) error {
			_, err := s.Search(ctx, backends.Query{Root: name, Pattern: "*", Hidden: true})
			return err
		}
	}
	if s, ok := backends.As[backends.Stater](e.box()); ok {
		all["list"] = func(ctx context.Context) error { _, err := s.List(ctx, name, 0); return err }
		all["stat"] = func(ctx context.Context) error { _, err := s.Stat(ctx, name); return err }
	}
	if c, ok := backends.As[backends.Copier](e.box()); ok {
		all["copy out"] = func(ctx context.Context) error { return c.CopyOut(ctx, name, io.Discard) }
	}
	return all
}

func specialFiles(e *Env) {
	e.sh(`mkfifo ff .gitignore; ln -s ff link; ln -s /dev/zero zero; mkdir d; mkfifo d/ff d/.gitignore; echo needle > d/file
		python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")' 2>/dev/null || mkfifo sock`)
	for _, name := range []string{"ff", "link", "zero", "sock", "d/ff", ".gitignore"} {
		for what, call := range e.calls(name) {
			err := e.soon(what+" "+name, prompt, call)
			if linked := name == "link" || name == "zero"; err == nil && what != "stat" && !(linked && what == "copy out") {
				e.Errorf("%s %s: no error", what, name)
			}
		}
		if err := e.soon("write below "+name, prompt, func(ctx context.Context) error { return e.box().WriteFile(ctx, name+"/x", nil, 0) }); err == nil {
			e.Errorf("wrote below %s", name)
		}
		if r := e.exec(backends.Cmd{Argv: []string{"true"}, Dir: name}); r.Code != 126 {
			e.Errorf("a command with directory %s: code %d", name, r.Code)
		}
	}
	for what, call := range e.calls(".") {
		if err := e.soon(what+" all", prompt, call); err != nil && what != "read" && what != "write" {
			e.Errorf("%s of the folder: %v", what, err)
		}
	}
	if s, ok := backends.As[backends.Searcher](e.box()); ok {
		f, err := s.Search(e.ctx, backends.Query{Root: ".", Pattern: "needle", Content: true})
		if err != nil || f.Total != 1 || f.Skipped.Special != 3 {
			e.Errorf("search: %d matches, %+v, %v", f.Total, f.Skipped, err)
		}
	}
}

func deepTree(e *Env) {
	thousands := 5 // deeper than any path is long
	if e.opt.Heavy {
		thousands = 20
	}
	e.sh(fmt.Sprintf(`p=d; for i in 1 2 3 4 5 6 7 8 9 10; do p=$p/$p; done
		mkdir a; echo needle > a/file; i=0
		while [ $i -lt %d ]; do mkdir -p b/$p && mv a b/$p/a && mv b a || exit 1; i=$((i+1)); done; echo needle > a/file`, thousands))
	for _, name := range []string{".", "a"} {
		for what, call := range e.calls(name) {
			if err := e.soon(what+" "+name, prompt, call); what == "copy out" && (err == nil || !strings.Contains(err.Error(), "bound")) {
				e.Errorf("%s: %v, want an error that names the bound", what, err)
			} else if err != nil && what != "copy out" && what != "read" && what != "write" {
				e.Errorf("%s: %v", what, err)
			}
		}
	}
	if s, ok := backends.As[backends.Searcher](e.box()); ok {
		f, err := s.Search(e.ctx, backends.Query{Root: ".", Pattern: "needle", Content: true})
		if err != nil || f.Total != 1 || f.Skipped.Deep != 1 {
			e.Errorf("search: %d matches, %+v, %v", f.Total, f.Skipped, err)
		}
	}
	long := strings.Repeat("d/", 3000) + "f"
	for what, call := range e.calls(long) {
		if err := e.soon(what+" of a long path", prompt, call); err == nil {
			e.Errorf("%s of a long path: no error", what)
		}
	}
	if e.opt.Shallow {
		e.sh("rm -rf a b")
	}
	// What is left when the row ends is removed with the box, within the patience of a row.
}

func growingFile(e *Env) {
	e.sh("head -c 100000 /dev/zero | tr '\\0' 'x' > block; echo >> block; cp block grow")
	p := e.begin(backends.Cmd{Shell: "i=0; while [ $i -lt 500 ]; do cat block >> grow; i=$((i+1)); done"}, backends.StartOptions{})
	for range 5 {
		for what, call := range e.calls("grow") {
			if what != "write" && what != "list" {
				if err := e.soon(what, prompt, call); err != nil {
					e.Errorf("%s: %v", what, err)
				}
			}
		}
		c, ok := backends.As[backends.Copier](e.box())
		if !ok {
			continue
		}
		var out bytes.Buffer
		if err := e.soon("copy out of the folder", prompt, func(ctx context.Context) error { return c.CopyOut(ctx, ".", &out) }); err != nil {
			e.Errorf("copy out: %v", err)
		}
		for r := tar.NewReader(&out); ; {
			h, err := r.Next()
			if err == io.EOF {
				break
			}
			if err == nil {
				_, err = io.CopyN(io.Discard, r, h.Size)
			}
			if err != nil {
				e.Fatalf("the copy is damaged: %v", err)
			}
		}
	}
	if err := p.Kill(e.ctx, 0); err != nil {
		e.Errorf("kill: %v", err)
	}
}

func exchanged(e *Env) {
	p := e.begin(backends.Cmd{Shell: "while :; do mkfifo n1 n2; mv -f n1 x; mv -f n2 .gitignore; echo needle > n3; mv -f n3 x; rmdir z; mkfifo z; rm -f z; mkdir z; done 2>/dev/null"}, backends.StartOptions{})
	for range 40 {
		for _, name := range []string{"x", "z", "."} {
			for what, call := range e.calls(name) {
				if what != "write" || name == "z" {
					e.soon(what+" "+name, prompt, call) // any error that is not a loss will do
				}
			}
		}
	}
	if err := p.Kill(e.ctx, 0); err != nil {
		e.Errorf("kill: %v", err)
	}
}

func manyFiles(e *Env) {
	n, most := 5_000, prompt
	if e.opt.Heavy {
		n, most = 1_000_000, 75*time.Second
	}
	e.exec(backends.Cmd{Shell: fmt.Sprintf("mkdir many; cd many && awk 'BEGIN { for (i = 0; i < %d; i++) print \"f\" i }' | xargs touch", n), Timeout: 10 * time.Minute})
	n = 0 // a box may have room for fewer
	fmt.Sscan(e.sh("ls -f many | wc -l"), &n)
	n -= 2
	for what, call := range e.calls("many") {
		err := e.soon(what, most, call)
		e.Logf("%s of %d files: %v", what, n, err)
		if bound := err != nil && strings.Contains(err.Error(), "bound"); err != nil && what != "read" && what != "write" && !bound {
			e.Errorf("%s of %d files: %v", what, n, err)
		}
	}
	if s, ok := backends.As[backends.Searcher](e.box()); ok {
		var f backends.Found
		err := e.soon("search", most, func(ctx context.Context) (err error) {
			f, err = s.Search(ctx, backends.Query{Root: ".", Pattern: "*"})
			return err
		})
		if said := f.Total == n || f.More && len(f.Skipped.Bounds) > 0; err != nil || !said {
			e.Errorf("search of %d files: %d, more %v, %+v, %v", n, f.Total, f.More, f.Skipped, err)
		}
	}
	e.exec(backends.Cmd{Shell: "rm -rf many", Timeout: 10 * time.Minute})
}

// unreadInput ends with its caller. The long form waits for the bound of the call itself.
func unreadInput(e *Env) {
	p := e.begin(backends.Cmd{Shell: "exec sleep 600"}, backends.StartOptions{})
	write := func(ctx context.Context) error { return p.Write(ctx, make([]byte, 1<<20)) }
	short := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		return write(ctx)
	}
	if err := e.soon("write with a deadline", prompt, short); !errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("write with a deadline: %v", err)
	}
	if e.opt.Heavy {
		if err := e.soon("write", 30*time.Second+prompt, write); !errors.Is(err, backends.ErrSlow) {
			e.Errorf("write: %v, want an error that names the bound", err)
		}
	}
	if err := p.Kill(e.ctx, 0); err != nil {
		e.Errorf("kill: %v", err)
	}
}

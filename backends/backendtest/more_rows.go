package backendtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"time"

	"hermes/backends"
)

func moreRows() []Row {
	return []Row{
		{Number: 82, Name: "background processes", run: background},
		{Number: 83, Name: "terminal", needs: func(e *Env) string {
			if !e.traits.PTY {
				return "the boxes have no terminals"
			}
			return ""
		}, run: terminal},
		{Number: 84, Name: "snapshot", needs: func(e *Env) string {
			if !e.traits.Snapshot {
				return "the boxes cannot be frozen"
			}
			return ""
		}, run: snapshot},
		{Number: 85, Name: "forwarded port", run: forwarded},
		{Number: 86, Name: "abilities through wrappers", run: func(e *Env) {
			if _, ok := backends.As[backends.Starter](wrapped{e.box()}); !ok {
				e.Skipf("the box has no such ability")
			}
		}},
		{Number: 89, Name: "stat and list", run: statList},
		{Number: 90, Name: "search of lines", run: searchLines},
		{Number: 91, Name: "search of names", run: searchNames},
		{Number: 92, Name: "streamed command", run: streamed},
		{Number: 93, Name: "kept file", run: keptFile},
		{Number: 94, Name: "lines of a long log", run: longLog},
	}
}

// wrapped hides what a box can do besides.
type wrapped struct{ backends.Sandbox }

func (w wrapped) Unwrap() backends.Sandbox { return w.Sandbox }

// shows waits until a process has written a text.
func (e *Env) shows(p backends.Process, text string) {
	e.Helper()
	e.until(fmt.Sprintf("output %q", text), func() bool {
		data, _, _, err := p.Output(e.ctx, 0, 0)
		if err != nil {
			e.Fatalf("output: %v", err)
		}
		return bytes.Contains(data, []byte(text))
	})
}

func (e *Env) begin(c backends.Cmd, o backends.StartOptions) backends.Process {
	e.Helper()
	p, err := ability[backends.Starter](e).Start(e.ctx, c, o)
	if err != nil {
		e.Fatalf("start: %v", err)
	}
	return p
}

func background(e *Env) {
	p := e.begin(backends.Cmd{Shell: "echo one; read x; echo got $x; cat; exit 5"}, backends.StartOptions{})
	e.shows(p, "one\n")
	must := func(what string, err error) {
		if err != nil {
			e.Fatalf("%s: %v", what, err)
		}
	}
	must("write", p.Write(e.ctx, []byte("two\nrest")))
	e.shows(p, "rest")
	data, first, next, err := p.Output(e.ctx, 4, 7)
	if err != nil || string(data) != "got two" || first != 4 || next != 11 {
		e.Errorf("output from 4: %q, first %d, next %d, %v", data, first, next, err)
	}
	must("close stdin", p.CloseStdin(e.ctx))
	if r, err := p.Wait(e.ctx); err != nil || r.Code != 5 {
		e.Errorf("wait: code %d, %v", r.Code, err)
	}
	p = e.begin(backends.Cmd{Shell: "i=0; while [ $i -lt 1000 ]; do echo line $i; i=$((i+1)); done"}, backends.StartOptions{Buffer: 100})
	if _, err := p.Wait(e.ctx); err != nil {
		e.Errorf("wait: %v", err)
	}
	data, first, next, err = p.Output(e.ctx, 0, 0)
	if err != nil || len(data) != 100 || first != 8890-100 || next != 8890 || !bytes.HasSuffix(data, []byte("line 999\n")) {
		e.Errorf("small buffer: %d bytes from %d to %d, %v", len(data), first, next, err)
	}
	p = e.begin(backends.Cmd{Shell: "echo $$ > pids; trap '' TERM; (setsid sh -c 'echo $$ >> pids; exec sleep 1000' &); while :; do sleep 1; done"}, backends.StartOptions{})
	e.until("start", func() bool { return len(e.pids(e.box())) == 2 })
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		e.Errorf("wait with a cancelled context: %v", err)
	}
	must("kill", p.Kill(e.ctx, 50*time.Millisecond))
	if r, err := p.Wait(e.ctx); err != nil || r.Signal != 9 {
		e.Errorf("after kill: %+v, %v", r, err)
	}
	e.gone(e.box())
	p = e.begin(backends.Cmd{Argv: []string{"no-such-program"}}, backends.StartOptions{})
	if r, err := p.Wait(e.ctx); err != nil || r.Code != 127 {
		e.Errorf("missing program: code %d, %v", r.Code, err)
	}
}

func terminal(e *Env) {
	p := e.begin(backends.Cmd{Shell: "test -t 0 && test -t 1 && echo tty; stty size; read x; echo got $x; stty size; cat; echo end"},
		backends.StartOptions{PTY: true, Rows: 33, Cols: 101})
	e.shows(p, "tty\r\n")
	e.shows(p, "33 101")
	if err := p.Resize(e.ctx, 40, 120); err != nil {
		e.Fatalf("resize: %v", err)
	}
	if err := p.Write(e.ctx, []byte("in\n")); err != nil {
		e.Fatalf("write: %v", err)
	}
	e.shows(p, "got in\r\n")
	e.shows(p, "40 120")
	if err := p.CloseStdin(e.ctx); err != nil {
		e.Fatalf("end of file: %v", err)
	}
	e.shows(p, "end\r\n")
	if r, err := p.Wait(e.ctx); err != nil || r.Code != 0 {
		e.Errorf("code %d, %v", r.Code, err)
	}
}

// forwarded asks a server in the box for an answer. Where the box shares the host's
// network, the server is the suite itself; else it needs a program that can listen.
func forwarded(e *Env) {
	f := ability[backends.Forwarder](e)
	port := 47831
	if e.traits.Network == "host" && !e.traits.Isolated {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			e.Fatalf("listen: %v", err)
		}
		defer l.Close()
		port = l.Addr().(*net.TCPAddr).Port
		go func() {
			c, err := l.Accept()
			if err == nil {
				io.Copy(c, c)
				c.Close()
			}
		}()
	} else {
		if e.exec(backends.Cmd{Shell: "command -v python3"}).Code != 0 {
			e.Logf("the box has no program that can listen: only the refusal is checked")
			if _, err := f.Forward(e.ctx, port); err == nil {
				e.Errorf("a port without a listener was opened")
			}
			return
		}
		p := e.begin(backends.Cmd{Argv: []string{"python3", "-c", "import socket\ns=socket.create_server(('127.0.0.1'," + fmt.Sprint(port) +
			"))\nprint('ready',flush=True)\nc,_=s.accept()\nwhile True:\n d=c.recv(65536)\n if not d: break\n c.sendall(d)"}}, backends.StartOptions{})
		e.shows(p, "ready")
	}
	c, err := f.Forward(e.ctx, port)
	if err != nil {
		e.Fatalf("forward: %v", err)
	}
	defer c.Close()
	go c.Write(pattern(100_000))
	got := make([]byte, 100_000)
	if _, err := io.ReadFull(c, got); err != nil {
		e.Fatalf("read: %v", err)
	}
	e.same("echo", got, pattern(100_000))
}

func statList(e *Env) {
	s := ability[backends.Stater](e)
	e.sh("mkdir d; printf 123 > d/b; printf 1 > d/a; ln -s b d/c; mkdir d/d; chmod 640 d/b")
	if i, err := s.Stat(e.ctx, "d/b"); err != nil || i.Size != 3 || i.Mode != 0o640 || i.Path != "d/b" {
		e.Errorf("stat: %+v, %v", i, err)
	}
	if _, err := s.Stat(e.ctx, "none"); !errors.Is(err, fs.ErrNotExist) {
		e.Errorf("stat of nothing: %v", err)
	}
	all, err := s.List(e.ctx, "d", 0)
	if err != nil || len(all) != 4 || all[0].Path != "d/a" || all[2].Link != "b" || !all[3].Mode.IsDir() {
		e.Errorf("list: %+v, %v", all, err)
	}
	if some, err := s.List(e.ctx, "d", 2); err != nil || len(some) != 2 {
		e.Errorf("list of 2: %+v, %v", some, err)
	}
	if _, err := s.List(e.ctx, "d/a", 0); err == nil {
		e.Errorf("a file was listed")
	}
}

// tree plants files for searches.
func (e *Env) tree() {
	e.sh(`mkdir -p src/sub src/.git src/build src/.hid
		printf 'one\nneedle two\nthree\nneedle four\nfive\n' > src/a.txt
		printf 'x\r\nneedle crlf\r\n' > src/sub/b.go
		printf 'needle\0binary' > src/bin; printf 'needle' > src/.git/x; printf 'needle\n' > src/.hid/y
		printf 'needle' > src/build/out; printf 'needle' > src/z.log; printf 'needle keep\n' > src/keep.log
		printf 'build/\n*.log\n!keep.log\n' > src/.gitignore
		touch -t 202001010000 src/a.txt; touch -t 202101010000 src/sub/b.go; touch -t 202201010000 src/keep.log src/bin`)
}

func (e *Env) search(q backends.Query) (backends.Found, string) {
	e.Helper()
	f, err := ability[backends.Searcher](e).Search(e.ctx, q)
	if err != nil {
		e.Fatalf("search %+v: %v", q, err)
	}
	var lines []string
	for _, m := range f.Matches {
		lines = append(lines, fmt.Sprintf("%s:%d:%s", m.Path, m.Line, m.Text))
	}
	return f, strings.Join(lines, "|")
}

func searchLines(e *Env) {
	e.tree()
	f, got := e.search(backends.Query{Root: "src", Pattern: "need.e", Content: true})
	if got != "src/a.txt:2:needle two|src/a.txt:4:needle four|src/keep.log:1:needle keep|src/sub/b.go:2:needle crlf" || f.Total != 4 || f.More {
		e.Errorf("%s, total %d", got, f.Total)
	}
	f, got = e.search(backends.Query{Root: "src", Pattern: "needle", Content: true, Limit: 1, Offset: 1})
	if got != "src/a.txt:4:needle four" || f.Total != 4 {
		e.Errorf("second match: %s, total %d", got, f.Total)
	}
	_, got = e.search(backends.Query{Root: "src", Pattern: "^needle (two|four)$", Content: true, Glob: "*.txt", Context: 1})
	if got !=
		"src/a.txt:1:one|src/a.txt:2:needle two|src/a.txt:3:three|src/a.txt:4:needle four|src/a.txt:5:five" {
		e.Errorf("with neighbours: %s", got)
	}
	_, got = e.search(backends.Query{Root: "src/a.txt", Pattern: "five", Content: true})
	if got != "src/a.txt:5:five" {
		e.Errorf("in one file: %s", got)
	}
	if _, err := ability[backends.Searcher](e).Search(e.ctx, backends.Query{Root: "src", Pattern: "(", Content: true}); !errors.Is(err, fs.ErrInvalid) {
		e.Errorf("bad expression: %v", err)
	}
	if _, err := ability[backends.Searcher](e).Search(e.ctx, backends.Query{Root: "none", Pattern: "x", Content: true}); !errors.Is(err, fs.ErrNotExist) {
		e.Errorf("missing root: %v", err)
	}
}

func searchNames(e *Env) {
	e.tree()
	f, got := e.search(backends.Query{Root: "src", Pattern: "*"})
	if got != "src/bin:0:|src/keep.log:0:|src/sub/b.go:0:|src/a.txt:0:" || f.Total != 4 {
		e.Errorf("newest first: %s, total %d", got, f.Total)
	}
	_, got = e.search(backends.Query{Root: "src", Pattern: "**/*.go"})
	if got != "src/sub/b.go:0:" {
		e.Errorf("with folders: %s", got)
	}
	_, got = e.search(backends.Query{Root: "src", Pattern: "y", Hidden: true})
	if got != "src/.hid/y:0:" {
		e.Errorf("hidden: %s", got)
	}
	f, got = e.search(backends.Query{Root: "src", Pattern: "*", Limit: 1, Offset: 2})
	if got != "src/sub/b.go:0:" || f.Total != 4 {
		e.Errorf("third: %s, total %d", got, f.Total)
	}
}

// streamed looks at each direction of a streamed command: answers before the end of the
// input, all bytes, the exit code, a reader that leaves, a cancelled caller.
func streamed(e *Env) {
	s := ability[backends.Streamer](e)
	in, feed := io.Pipe()
	out, answers := io.Pipe()
	type answer struct {
		r   backends.Result
		err error
	}
	done := make(chan answer, 1)
	go func() {
		r, err := s.Stream(e.ctx, backends.Cmd{Shell: `while read -r x; do echo "said $x"; done; echo bad >&2; exit 7`}, backends.Streams{In: in, Out: answers})
		answers.Close()
		done <- answer{r, err}
	}()
	lines := bufio.NewReader(out)
	for _, word := range []string{"one", "two"} {
		go io.WriteString(feed, word+"\n")
		if got, err := lines.ReadString('\n'); err != nil || got != "said "+word+"\n" {
			e.Fatalf("answer to %s: %q, %v", word, got, err)
		}
	}
	feed.Close()
	if a := <-done; a.err != nil || a.r.Code != 7 || a.r.OutBytes != 18 || a.r.ErrBytes != 4 || len(a.r.Stdout) > 0 {
		e.Errorf("end: %+v, %v", a.r, a.err)
	}
	var copied, errs bytes.Buffer
	r, err := s.Stream(e.ctx, backends.Cmd{Shell: "cat; echo e >&2"}, backends.Streams{In: bytes.NewReader(pattern(5 << 20)), Out: &copied, Err: &errs})
	if err != nil || r.Code != 0 || errs.String() != "e\n" {
		e.Errorf("cat: %+v, %q, %v", r, errs.String(), err)
	}
	e.same("cat", copied.Bytes(), pattern(5<<20))
	r, err = s.Stream(e.ctx, backends.Cmd{Argv: []string{"hermes-no-such-program"}}, backends.Streams{})
	if err != nil || r.Code != 127 {
		e.Errorf("missing program: %+v, %v", r, err)
	}
	full := &fullWriter{room: 10_000}
	r, err = s.Stream(e.ctx, backends.Cmd{Shell: "trap '' PIPE; exec yes 2>/dev/null", Timeout: patience}, backends.Streams{Out: full})
	if err != nil || r.TimedOut || r.Code == 0 {
		e.Errorf("a reader that left: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	_, err = s.Stream(ctx, backends.Cmd{Shell: "echo $$ >> pids; (setsid sh -c 'echo $$ >> pids; echo go; exec sleep 1000' &); exec sleep 1000"},
		backends.Streams{Out: onWrite(cancel)})
	if !errors.Is(err, context.Canceled) {
		e.Errorf("cancelled: %v", err)
	}
	e.gone(e.box())
}

// onWrite is called for every write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

// fullWriter fails once it holds enough.
type fullWriter struct{ room int }

func (w *fullWriter) Write(p []byte) (int, error) {
	w.room -= len(p)
	if w.room < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// snapshot: files are in it, processes are not.
func snapshot(e *Env) {
	e.sh("echo kept > f; (sleep 1000 >/dev/null 2>&1 &)")
	image, err := ability[backends.Snapshotter](e).Snapshot(e.ctx, "hermes-check")
	if err != nil {
		e.Fatalf("snapshot: %v", err)
	}
	again := e.open(backends.Spec{Image: image})
	if got := e.shIn(again, "cat f; ps ax 2>/dev/null | grep -c '[s]leep 1000 '; :"); got != "kept" && got != "kept\n0" {
		e.Errorf("in the new box: %q", got)
	}
}

// leftRows are promises that no contract of a single box can be asked yet.
func leftRows() []Row {
	left := func(why string, names map[int]string) (rows []Row) {
		for n, name := range names {
			rows = append(rows, Row{Number: n, Name: name, Left: why})
		}
		return rows
	}
	rows := left("Spec has no key by which a box could be found again", map[int]string{59: "open with the same key twice"})
	rows = append(rows, left("belongs to the driver's own test: it restarts an engine", map[int]string{67: "engine restarted during exec"})...)
	rows = append(rows, left("belongs to the driver's own test: it needs a second process as owner", map[int]string{68: "owner killed", 69: "sweep spares living owners"})...)
	return append(rows, left("belongs to slotd's own test: back-ends that lease slots use its lease table", map[int]string{71: "expired lease", 72: "renewed lease", 73: "second owner"})...)
}

//go:build linux

package namespace_test

import (
	"strings"
	"testing"
	"time"

	"hermes/backends"
	"hermes/backends/namespace"
)

// programs are what the filter must let work: a script for each, which says ok.
func programs() []struct{ name, needs, script string } {
	return []struct{ name, needs, script string }{
		{"pipes, jobs, limits", "bash", `ulimit -n 100; (ulimit -c 0; nice -n 3 true); sleep 0.01 & wait; [ "$(ulimit -n)" = 100 ]`},
		{
			"files",
			"cp",
			`mkdir -p a/b && echo x > a/b/f && cp -a a c && mv c d && ln d/b/f l && ln -s l s && touch -d yesterday s && truncate -s 1M h && cp --sparse=always h i && rm -rf a d && mkfifo p && sync`,
		},
		{"sort, locale", "sort", `seq 100000 | sort -R | LC_ALL=C.UTF-8 sort -n --parallel=2 -S 1M | tail -1 | grep -x 100000 && locale -a >/dev/null`},
		{"tar, gzip", "tar", `mkdir t && echo x > t/f && tar --xattrs -czf t.tgz t && rm -r t && tar --same-owner -xzf t.tgz && cat t/f`},
		{
			"git",
			"git",
			`git init -q r && cd r && git config user.email a@b && git config user.name a && echo x > f && git add f && git commit -qm m && git gc -q && git clone -q . ../r2 && git -C ../r2 log --oneline | wc -l | grep -x 1`,
		},
		{"gcc, make", "gcc", `printf 'int main(){return 0;}\n' > m.c && printf 'm: m.c\n\tgcc -O2 -pthread -o m m.c\n' > Makefile && make -j4 && ./m`},
		{"perl", "perl", `perl -MIO::Select -MTime::HiRes=sleep -e 'sleep 0.01; pipe(R,W); if(fork){wait;print "x"}else{exit 0}'`},
		{"openssl", "openssl", `openssl rand -hex 8 && openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -subj /CN=x -days 1 2>/dev/null`},
		{"curl", "curl", `curl -s file:///etc/passwd >/dev/null; curl -sS http://127.0.0.1:1/ 2>&1 | grep -i connect`},
		{"tmux", "tmux", `export TERM=xterm; tmux new-session -d -s a 'sleep 5' && tmux ls && tmux kill-server`},
		{
			"dpkg",
			"dpkg-deb",
			`mkdir -p k/DEBIAN k/opt && printf 'Package: k\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: k\n' > k/DEBIAN/control && dpkg-deb -b k k.deb && dpkg-deb -x k.deb out && dpkg-deb -c k.deb`,
		},
		{"apt", "apt-get", `apt-get --version && apt-config dump >/dev/null`},
		{
			"node",
			"node",
			`node -e 'const fs=require("fs");fs.watch(".",()=>{}).close();new (require("worker_threads").Worker)("process.exit(0)",{eval:true}).on("exit",()=>fs.readFile("/etc/passwd",()=>process.exit(0)))'`,
		},
		{
			"go build",
			"/usr/local/go/bin/go",
			`export PATH=$PATH:/usr/local/go/bin; mkdir g && cd g && export HOME=$PWD GOCACHE=$PWD/.c GOFLAGS=-mod=mod GOTOOLCHAIN=local && printf 'module m\n' > go.mod && printf 'package main\nfunc main(){c:=make(chan int);go func(){c<-1}();<-c}\n' > m.go && go vet . && go run .`,
		},
		{"java", "java", `java -version`},
		{"multiprocessing", "python3", `python3 - <<'P'
import multiprocessing as m, multiprocessing.shared_memory as s, mmap, os, resource, signal, select, socket, subprocess, tempfile, threading, ctypes
def f(x): return x * x
if __name__ == "__main__":
    with m.get_context("fork").Pool(3) as p: assert p.map(f, range(50)) == [x * x for x in range(50)]
    b = s.SharedMemory(create=True, size=1 << 20); b.buf[0] = 1; b.close(); b.unlink()
    q = m.Queue(); q.put(1); assert q.get() == 1
    with m.Lock(), m.Semaphore(2): pass
    a = mmap.mmap(-1, 4 << 20); a.madvise(mmap.MADV_HUGEPAGE); a[0] = 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)); resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)); resource.prlimit(os.getppid(), resource.RLIMIT_CPU)
    os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1); os.sched_yield(); os.memfd_create("x"); os.getrandom(4); os.eventfd(0)
    p = subprocess.Popen(["sleep", "9"], preexec_fn=os.setsid); fd = os.pidfd_open(p.pid); signal.pidfd_send_signal(fd, 9); assert p.wait() == -9
    os.setpriority(os.PRIO_PROCESS, subprocess.Popen(["sleep", "0.1"]).pid, 19)
    e = select.epoll(); r, w = os.pipe(); e.register(r); os.write(w, b"x"); assert e.poll(1)
    l = ctypes.CDLL(None, use_errno=True); assert l.inotify_init1(0) >= 0
    t = [threading.Thread(target=lambda: None) for _ in range(8)]; [x.start() for x in t]; [x.join() for x in t]
    signal.signal(signal.SIGALRM, lambda *a: None); signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()
P`},
		{"asyncio", "python3", `python3 -c '
import asyncio
async def main():
    s = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname())
    await r.read()
    p = await asyncio.create_subprocess_exec("true"); await p.wait()
asyncio.run(main())'`},
		{"sqlite", "python3", `python3 -c '
import sqlite3
c = sqlite3.connect("d.db"); c.execute("pragma journal_mode=wal"); c.execute("create table t(x)"); c.executemany("insert into t values(?)", [(i,) for i in range(1000)]); c.commit()'`},
		{
			"venv, pip",
			"python3",
			`python3 -m venv --without-pip v && v/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix' && { ! python3 -m pip --version >/dev/null 2>&1 || python3 -m pip list >/dev/null; }`,
		},
	}
}

// TestPrograms: the filter refuses nothing that usual programs need.
func TestPrograms(t *testing.T) {
	b := open(t, namespace.Config{})
	for _, tt := range programs() {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "go build" && !*long {
				t.Skip("a quarter of a minute: with -long")
			}
			x := boxOf(t, b, backends.Spec{Limits: backends.Limits{Disk: 1 << 30}})
			if code, _ := sh(t, x, "command -v "+tt.needs); code != 0 {
				t.Skip("no such program here: ", tt.needs)
			}
			script := "set -e\n" + tt.script + "\necho ok"
			r, err := x.Exec(t.Context(), backends.Cmd{Argv: []string{"bash", "-c", script}, Merge: true, Timeout: 2 * time.Minute})
			if err != nil || !strings.HasSuffix(strings.TrimSpace(string(r.Stdout)), "ok") {
				t.Errorf("exit code %d, %v: %s", r.Code, err, r.Stdout)
			}
			x.Close(t.Context())
		})
	}
}

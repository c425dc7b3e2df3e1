package backendtest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hermes/backends"
)

func execRows() []Row {
	return []Row{
		{Number: 1, Name: "stdout exact", run: func(e *Env) {
			r := e.exec(backends.Cmd{Argv: []string{"printf", `a\n\tb `}})
			e.same("stdout", r.Stdout, []byte("a\n\tb "))
		}},
		{Number: 2, Name: "stderr separate", run: func(e *Env) {
			r := e.exec(backends.Cmd{Shell: "echo out; echo err >&2"})
			e.same("stdout", r.Stdout, []byte("out\n"))
			e.same("stderr", r.Stderr, []byte("err\n"))
		}},
		{Number: 3, Name: "exit codes pass through", run: func(e *Env) {
			for _, code := range []int{0, 1, 2, 125, 126, 127, 255} {
				if r := e.exec(backends.Cmd{Shell: fmt.Sprintf("exit %d", code)}); r.Code != code || r.Signal != 0 {
					e.Errorf("exit %d: code %d, signal %d", code, r.Code, r.Signal)
				}
			}
		}},
		{Number: 4, Name: "death by signal", run: func(e *Env) {
			for _, s := range []int{15, 9, 11} {
				if r := e.exec(backends.Cmd{Shell: fmt.Sprintf("kill -%d $$", s)}); r.Code != 128+s || r.Signal != s {
					e.Errorf("signal %d: code %d, signal %d", s, r.Code, r.Signal)
				}
			}
		}},
		{Number: 5, Name: "program missing is 127", run: refusedWith(127, backends.Cmd{Argv: []string{"no-such-program"}})},
		{Number: 6, Name: "not executable is 126", run: func(e *Env) {
			e.write("plain", []byte("text"))
			refusedWith(126, backends.Cmd{Argv: []string{"./plain"}})(e)
			refusedWith(126, backends.Cmd{Argv: []string{"/"}})(e)
		}},
		{Number: 7, Name: "bad directory is 126", run: refusedWith(126, backends.Cmd{Argv: []string{"true"}, Dir: "no/such/dir"})},
		{Number: 8, Name: "arguments arrive exactly", run: argumentsArrive},
		{Number: 9, Name: "shell form", run: func(e *Env) {
			if got := e.sh(`x='a b'; for i in 1 2; do printf '%s;' "$x$i"; done | cat`); got != "a b1;a b2;" {
				e.Errorf("script gave %q", got)
			}
		}},
		{Number: 10, Name: "working directory", run: func(e *Env) {
			home := e.sh("pwd")
			e.sh("mkdir -p sub/deep")
			for dir, want := range map[string]string{"": home, "sub/deep": home + "/sub/deep", home + "/sub": home + "/sub", "/": "/"} {
				r := e.exec(backends.Cmd{Argv: []string{"pwd"}, Dir: dir})
				e.same("pwd in "+dir, r.Stdout, []byte(want+"\n"))
			}
		}},
		{Number: 11, Name: "environment", run: environment},
		{Number: 12, Name: "secrets of the host are invisible", needs: func(e *Env) string {
			if e.opt.Secret == "" {
				return "no secret was given to look for"
			}
			return ""
		}, run: func(e *Env) { e.nowhere(e.opt.Secret) }},
		{Number: 13, Name: "empty stdin ends at once", run: func(e *Env) {
			for _, in := range [][]byte{nil, {}} {
				if r := e.exec(backends.Cmd{Argv: []string{"cat"}, Stdin: in, Timeout: patience}); r.Code != 0 || len(r.Stdout) > 0 {
					e.Errorf("cat of nothing: code %d, %q", r.Code, r.Stdout)
				}
			}
		}},
		{Number: 14, Name: "stdin of 5 MiB", run: func(e *Env) {
			in := pattern(5 << 20)
			r := e.exec(backends.Cmd{Argv: []string{"cat"}, Stdin: in, MaxOutput: 6 << 20})
			e.same("cat", r.Stdout, in)
		}},
		{Number: 15, Name: "unread stdin", run: func(e *Env) {
			if r := e.exec(backends.Cmd{Shell: "exit 4", Stdin: pattern(5 << 20), Timeout: patience}); r.Code != 4 {
				e.Errorf("code %d", r.Code)
			}
		}},
		{Number: 16, Name: "100 MB of output under a cap", run: func(e *Env) {
			r := e.exec(backends.Cmd{Shell: "head -c 100000000 /dev/zero", MaxOutput: 1 << 16})
			if len(r.Stdout) != 1<<16 || r.OutBytes != 100_000_000 || !r.Truncated || r.Dropped != 100_000_000-1<<16 {
				e.Errorf("kept %d of %d, truncated %v, dropped %d", len(r.Stdout), r.OutBytes, r.Truncated, r.Dropped)
			}
		}},
		{Number: 17, Name: "head, tail and both", run: func(e *Env) {
			for keep, want := range map[backends.Keep]string{"": "0123456789", backends.KeepHead: "0123456789",
				backends.KeepTail: "qrstuvwxyz", backends.KeepBoth: "0123uvwxyz"} {
				r := e.exec(backends.Cmd{Argv: []string{"printf", "0123456789abcdefghijklmnopqrstuvwxyz"}, MaxOutput: 10, Keep: keep})
				e.same("keep "+string(keep), r.Stdout, []byte(want))
				if !r.Truncated || r.Dropped != 26 || r.OutBytes != 36 {
					e.Errorf("keep %s: truncated %v, dropped %d, bytes %d", keep, r.Truncated, r.Dropped, r.OutBytes)
				}
			}
		}},
		{Number: 18, Name: "NUL and invalid UTF-8 kept", run: func(e *Env) {
			r := e.exec(backends.Cmd{Shell: `printf 'a\000b\377\303'; printf '\000\376' >&2`})
			e.same("stdout", r.Stdout, []byte("a\x00b\xff\xc3"))
			e.same("stderr", r.Stderr, []byte("\x00\xfe"))
		}},
		{Number: 19, Name: "order within a stream", run: func(e *Env) {
			var want strings.Builder
			for i := range 2000 {
				fmt.Fprintln(&want, i)
			}
			r := e.exec(backends.Cmd{Shell: "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done"})
			e.same("lines", r.Stdout, []byte(want.String()))
		}},
		{Number: 20, Name: "merged streams in order", run: func(e *Env) {
			r := e.exec(backends.Cmd{Shell: "echo 1; echo 2 >&2; echo 3", Merge: true})
			e.same("merged", r.Stdout, []byte("1\n2\n3\n"))
			e.same("stderr", r.Stderr, nil)
		}},
		{Number: 21, Name: "no output", run: func(e *Env) {
			if r := e.exec(backends.Cmd{Argv: []string{"true"}}); r.Code != 0 || len(r.Stdout)+len(r.Stderr) > 0 || r.Truncated {
				e.Errorf("result %+v", r)
			}
		}},
		{Number: 22, Name: "user as the traits say", run: func(e *Env) {
			if uid := e.sh("id -u"); (uid == "0") != e.traits.Root {
				e.Errorf("uid %s, Traits.Root %v", uid, e.traits.Root)
			}
		}},
		{Number: 23, Name: "umask", run: func(e *Env) {
			if mask := e.sh("umask"); !slices.Contains([]string{"0022", "022", "0002", "002", "0077", "077", "0027", "027"}, mask) {
				e.Errorf("umask %s lets others write", mask)
			}
		}},
		{Number: 24, Name: "latency", run: func(e *Env) {
			var took []time.Duration
			for range 20 {
				began := time.Now()
				e.exec(backends.Cmd{Argv: []string{"true"}})
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			e.Logf("warm exec: p50 %v, p95 %v", took[10], took[18])
		}},
	}
}

// refusedWith checks that a command which cannot start is a result with a reason.
func refusedWith(code int, c backends.Cmd) func(*Env) {
	return func(e *Env) {
		e.Helper()
		if r := e.exec(c); r.Code != code || len(r.Stderr) == 0 {
			e.Errorf("%q in %q: code %d, stderr %q, want code %d and a reason", c.Argv, c.Dir, r.Code, r.Stderr, code)
		}
	}
}

func argumentsArrive(e *Env) {
	args := []string{"two words", "", `"quoted' $HOME`, "line\nbreak", "*", "-n", "\\", "naïve ☃", "\xff\xfe", "", "`id`;&|<>"}
	r := e.exec(backends.Cmd{Argv: append([]string{"sh", "-c", `for a in "$@"; do printf '%s\0' "$a"; done`, "x"}, args...)})
	e.same("arguments", r.Stdout, []byte(strings.Join(args, "\x00")+"\x00"))
}

func environment(e *Env) {
	box := e.open(backends.Spec{Env: map[string]string{"FROM_SPEC": "s", "BOTH": "spec"}})
	odd := "line\nbreak=and ' \"quotes\" \xff"
	get := func(c backends.Cmd) map[string]string {
		c.Argv = []string{"cat", "/proc/self/environ"}
		vars := map[string]string{}
		for kv := range bytes.SplitSeq(e.in(box, c).Stdout, []byte{0}) {
			if k, v, ok := strings.Cut(string(kv), "="); ok {
				vars[k] = v
			}
		}
		return vars
	}
	got := get(backends.Cmd{Env: map[string]string{"ODD": odd, "EMPTY": "", "BOTH": "cmd"}})
	for k, want := range map[string]string{"FROM_SPEC": "s", "BOTH": "cmd", "ODD": odd, "EMPTY": ""} {
		if v, ok := got[k]; !ok || v != want {
			e.Errorf("%s = %q (%v), want %q", k, v, ok, want)
		}
	}
	if got["PATH"] == "" || got["HOME"] == "" {
		e.Errorf("PATH %q, HOME %q", got["PATH"], got["HOME"])
	}
	if again := get(backends.Cmd{}); again["BOTH"] != "spec" || again["ODD"] != "" {
		e.Errorf("variables of one command reach the next: %v", again)
	}
	clear := get(backends.Cmd{ClearEnv: true, Env: map[string]string{"ONLY": "1"}})
	maps.DeleteFunc(clear, func(k, _ string) bool { return k == "HERMES_EXEC" }) // the mark of a tree
	if !maps.Equal(clear, map[string]string{"ONLY": "1"}) {
		e.Errorf("ClearEnv left %v", clear)
	}
}

// nowhere demands that a text is in the environment and arguments of no process
// that a command can look at.
func (e *Env) nowhere(text string) {
	e.Helper()
	where := "/proc/self/environ /proc/self/cmdline"
	if e.traits.Isolated {
		where = "/proc/[0-9]*/environ /proc/[0-9]*/cmdline"
	}
	r := e.exec(backends.Cmd{Shell: "cat " + where + " 2>/dev/null; :", MaxOutput: 8 << 20})
	if len(r.Stdout) == 0 {
		e.Errorf("nothing could be read from %s", where)
	}
	if bytes.Contains(r.Stdout, []byte(text)) {
		e.Errorf("the secret is in %s", where)
	}
}

// pattern is n bytes in which every value occurs and no period is short.
func pattern(n int) []byte {
	data := make([]byte, n)
	x := uint32(2463534242)
	for i := range data {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		data[i] = byte(x)
	}
	return data
}

package backendtest

import (
	"bytes"
	"fmt"
	"strings"

	"hermes/backends"
)

// keptFile is the file of a command without a name.
func keptFile(e *Env) {
	at := fmt.Sprintf("/proc/self/fd/%d", backends.KeptFD)
	long := bytes.Repeat([]byte("0123456789abcde\n"), backends.MaxKept/16)
	for _, c := range []struct {
		name, shell string
		kept        []byte
		out, want   string
	}{
		{"as it was", "cat " + at, []byte("a\x00b\xff\n"), "a\x00b\xff\n", "a\x00b\xff\n"},
		{"empty", "cat " + at + "; echo new >|" + at, []byte{}, "", "new\n"},
		{"written by a child and appended", "printf x >" + at + "; (printf y >>" + at + ")", []byte("old"), "", "xy"},
		{"left by a shell that is killed", "printf half >" + at + "; kill -9 $$", []byte("old"), "", "half"},
		{"closed", fmt.Sprintf("exec %d>&-; cat %s 2>/dev/null", backends.KeptFD, at), []byte("old"), "", "old"},
		{"long", "wc -c <" + at + " | tr -d ' '", long, fmt.Sprintf("%d\n", len(long)), string(long)},
		{"too long at its end", "echo x >>" + at, long, "", ""},
		{"none", "test -e " + at + " || echo none", nil, "none\n", ""},
	} {
		r := e.exec(backends.Cmd{Shell: c.shell, Kept: c.kept})
		e.same("stdout, "+c.name, r.Stdout, []byte(c.out))
		if !bytes.Equal(r.Kept, []byte(c.want)) {
			e.Errorf("%s: the kept file holds %d bytes at the end, want %d", c.name, len(r.Kept), len(c.want))
		}
	}
	if _, err := e.box().Exec(e.ctx, backends.Cmd{Shell: "true", Kept: append(long, 'x')}); err == nil {
		e.Errorf("a kept file of %d bytes is taken", len(long)+1)
	}
	if r := e.exec(backends.Cmd{Argv: []string{"cat"}, Stdin: []byte("input"), Kept: []byte("kept")}); string(r.Stdout) != "input" || string(r.Kept) != "kept" {
		e.Errorf("beside an input: stdout %q, kept %q", r.Stdout, r.Kept)
	}
	if starter, ok := backends.As[backends.Starter](e.box()); ok {
		p, err := starter.Start(e.ctx, backends.Cmd{Shell: "cat " + at, Kept: []byte("to a process\n")}, backends.StartOptions{})
		if err != nil {
			e.Fatalf("start: %v", err)
		}
		e.shows(p, "to a process\n")
	}
}

// longLog holds that a process knows how much of its output is gone.
func longLog(e *Env) {
	line := strings.Repeat("x", 99)
	p := e.begin(backends.Cmd{Shell: "i=0; while [ $i -lt 1000 ]; do echo " + line + "; i=$((i+1)); done; printf end"}, backends.StartOptions{Buffer: 2000})
	if _, err := p.Wait(e.ctx); err != nil {
		e.Fatalf("wait: %v", err)
	}
	data, first, lines, err := p.Log(e.ctx)
	if err != nil {
		e.Fatalf("log: %v", err)
	}
	if total := first + int64(len(data)); total != 100_003 || len(data) != 2000 || lines+int64(bytes.Count(data, []byte{'\n'})) != 1000 {
		e.Errorf("%d bytes from %d on after %d line feeds, of 100,003 bytes in 1,000 lines and a bit", len(data), first, lines)
	}
}

package backendtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"hermes/backends"
)

func isolationRows() []Row {
	return []Row{
		{Number: 50, Name: "boxes do not see each other", needs: isolated, run: func(e *Env) {
			a, b := e.box(), e.open(backends.Spec{})
			mark := "hermes-" + a.ID()
			e.shIn(a, "echo x > /tmp/"+mark+"; echo x > "+mark+"; (sleep 1000 "+mark+" >/dev/null 2>&1 &); :")
			if s, ok := backends.As[backends.Starter](a); ok {
				if _, err := s.Start(e.ctx, backends.Cmd{Argv: []string{"sh", "-c", "sleep 1000; :", mark}}, backends.StartOptions{}); err != nil {
					e.Fatalf("start: %v", err)
				}
			}
			if got := e.shIn(b, "ls -d /tmp/hermes-* hermes-* /dev/shm/hermes-* 2>/dev/null; :"); got != "" {
				e.Errorf("files of another box: %q", got)
			}
			if got := e.shIn(b, `cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' '; :`); strings.Contains(got, mark) {
				e.Errorf("processes of another box are visible")
			}
		}},
		{Number: 51, Name: "files and processes of the host are invisible", needs: isolated, run: func(e *Env) {
			dir, err := os.MkdirTemp("", "hermes-host-")
			if err != nil {
				e.Fatalf("%v", err)
			}
			defer os.RemoveAll(dir)
			file := filepath.Join(dir, "secret")
			if err := os.WriteFile(file, []byte("host"), 0o644); err != nil {
				e.Fatalf("%v", err)
			}
			if _, err := e.box().ReadFile(e.ctx, file, 0); err == nil {
				e.Errorf("%s of the host can be read", file)
			}
			if r := e.exec(backends.Cmd{Argv: []string{"cat", file}}); r.Code == 0 {
				e.Errorf("%s of the host can be read by a command", file)
			}
			n := e.sh("n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; echo $n")
			if c, err := strconv.Atoi(n); err != nil || c > 16 {
				e.Errorf("%s processes are visible in a fresh box", n)
			}
		}},
		{Number: 52, Name: "no network", needs: func(e *Env) string {
			if e.traits.Network != "none" && e.traits.Network != "allow-list" {
				return "the network of the boxes is " + e.traits.Network
			}
			return ""
		}, run: func(e *Env) {
			if got := e.sh("cat /proc/net/route | wc -l | tr -d ' '"); got != "1" && got != "0" {
				e.Errorf("routes: %s", e.sh("cat /proc/net/route"))
			}
			for line := range strings.Lines(e.sh("cat /proc/net/dev")) {
				name, _, ok := strings.Cut(line, ":")
				if ok && strings.TrimSpace(name) != "lo" {
					e.Errorf("interface %s", name)
				}
			}
		}},
		{Number: 53, Name: "network by allow-list", needs: proxied, run: allowList},
		{Number: 54, Name: "memory limit", needs: enforces("memory"), run: func(e *Env) {
			box := e.open(backends.Spec{Limits: backends.Limits{Memory: 64 << 20}})
			r, err := box.Exec(e.ctx, backends.Cmd{Shell: "head -c 300000000 /dev/zero | tail -n 1 | wc -c", Timeout: patience})
			if err == nil && r.Code == 0 && strings.TrimSpace(string(r.Stdout)) == "300000000" {
				e.Errorf("300 MB fit into 64 MiB")
			}
		}},
		{Number: 55, Name: "disk limit of commands", needs: enforces("disk"), run: func(e *Env) {
			box := e.open(backends.Spec{Limits: backends.Limits{Disk: 8 << 20}})
			if r := e.in(box, backends.Cmd{Shell: "head -c 20000000 /dev/zero > big"}); r.Code == 0 {
				e.Errorf("20 MB fit onto a disk of 8 MiB")
			}
		}},
		{Number: 56, Name: "no new privileges", needs: isolated, run: func(e *Env) {
			if got := e.sh("grep NoNewPrivs /proc/self/status | tr -d '\t '"); got != "NoNewPrivs:1" {
				e.Errorf("%s", got)
			}
			if r := e.exec(backends.Cmd{Shell: "mkdir m && mount -t tmpfs none m"}); r.Code == 0 {
				e.Errorf("mount is allowed")
			}
		}},
		{Number: 57, Name: "slotd's token is not to be found", needs: func(e *Env) string {
			if e.opt.Token == "" {
				return "no token was given to look for"
			}
			return ""
		}, run: func(e *Env) { e.nowhere(e.opt.Token) }},
	}
}

// proxied says why boxes cannot be asked about their allow-list.
func proxied(e *Env) string {
	switch {
	case e.traits.Network != "allow-list":
		return "the network of the boxes is " + e.traits.Network
	case e.opt.Allowed == "" || e.opt.Refused == "":
		return "no servers were given to try"
	}
	return ""
}

// allowList asks for a listed server and for another, with what the box has: bash, or nc.
func allowList(e *Env) {
	ask := func(x backends.Sandbox, target string) string {
		return e.shIn(x, `at=${HTTP_PROXY#http://} host=${at%:*} port=${at##*:}
			ask() { printf 'GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n' `+target+` `+target+`; }
			if command -v bash >/dev/null; then
				export target="$(ask; echo .)"
				bash -c 'exec 3<>/dev/tcp/$0/$1 && printf %s "${target%.}" >&3 && cat <&3' $host $port
			else
				ask | nc $host $port
			fi`)
	}
	if got := ask(e.box(), e.opt.Allowed); !strings.HasPrefix(got, "HTTP/1.1 200") {
		e.Errorf("%s is listed: %s", e.opt.Allowed, got)
	}
	if got := ask(e.box(), e.opt.Refused); !strings.HasPrefix(got, "HTTP/1.1 403") || !strings.Contains(got, "allow-list") {
		e.Errorf("%s is not listed: %s", e.opt.Refused, got)
	}
	host, port, _ := strings.Cut(e.opt.Allowed, ":")
	if r := e.exec(backends.Cmd{Shell: "if command -v bash >/dev/null; then bash -c 'exec 3<>/dev/tcp/$0/$1' " + host + " " + port + "; else nc -z " + host + " " + port + "; fi", Timeout: patience}); r.Code == 0 {
		e.Errorf("%s is reached around the proxy", e.opt.Allowed)
	}
	n, ok := e.back.(backends.Narrower)
	if !ok {
		return
	}
	if got := ask(e.open(backends.Spec{Network: []string{e.opt.Allowed}}), e.opt.Allowed); !strings.HasPrefix(got, "HTTP/1.1 200") {
		e.Errorf("%s is what the task wants alone: %s", e.opt.Allowed, got)
	}
	if got := e.shIn(e.open(backends.Spec{Network: []string{}}), "echo x$HTTP_PROXY; cat /proc/net/tcp | wc -l | tr -d ' '"); got != "x\n1" {
		e.Errorf("a box that wants no network has a proxy or a socket: %q", got)
	}
	if err := n.Narrow([]string{e.opt.Refused}); err == nil {
		e.Errorf("a task may reach %s, which the operator does not list", e.opt.Refused)
	}
}

package backendtest

import (
	"bytes"

	"hermes/backends"
)

func reportRows() []Row {
	report := func(e *Env, script string) backends.Result {
		return e.exec(backends.Cmd{Shell: script, Report: "VERDICT", Timeout: patience})
	}
	return []Row{
		{Number: 95, Name: "a report by its path and by its descriptor", run: func(e *Env) {
			for _, script := range []string{`echo 0.5 > "$VERDICT"`, `echo 0.5 >&3`, `echo 1 > "$VERDICT"; echo 0.5 > "$VERDICT"`, `sh -c 'echo 0.5 > "$VERDICT"'`} {
				r := report(e, script)
				e.same(script, r.Report, []byte("0.5\n"))
			}
			if r := e.exec(backends.Cmd{Shell: `echo "[$VERDICT]"; ls -l /proc/self/fd`}); bytes.Contains(r.Stdout, []byte("memfd:report")) || !bytes.HasPrefix(r.Stdout, []byte("[]\n")) {
				e.Errorf("without asking: %q", r.Stdout)
			}
		}},
		{Number: 96, Name: "a report is out of reach of what does not inherit it", run: func(e *Env) {
			r := report(e, `(echo 1 > "$VERDICT") 3>&- 2>/dev/null; :`)
			e.same("report", r.Report, nil)
		}},
		{Number: 97, Name: "a long report is cut", run: func(e *Env) {
			if r := report(e, `head -c 1000000 /dev/zero > "$VERDICT"`); len(r.Report) != backends.MaxReport+1 {
				e.Errorf("%d bytes", len(r.Report))
			}
		}},
		{Number: 98, Name: "what the command left is ended before the report is read", run: func(e *Env) {
			r := report(e, `(sh -c 'echo $$ >> pids; sleep 5; echo 1 > "$VERDICT"; echo late; sleep 1000' &); while ! [ -s pids ]; do :; done; echo 0 > "$VERDICT"; echo in time`)
			e.same("report", r.Report, []byte("0\n"))
			e.same("output", r.Stdout, []byte("in time\n"))
			if r.Left == 0 {
				e.Errorf("nothing is counted as left running")
			}
			e.gone(e.box())
		}},
		{Number: 99, Name: "alone: what others left is ended first", run: func(e *Env) {
			e.sh(`(setsid sh -c 'echo $$ >> pids; exec sleep 1000' >/dev/null 2>&1 &); while ! [ -s pids ]; do :; done`)
			r := e.exec(backends.Cmd{Shell: `{ read -r a b state rest < /proc/$(cat pids)/stat; } 2>/dev/null; case "$state" in "" | Z | X) ;; *) echo runs ;; esac`, Alone: true})
			e.same("output", r.Stdout, nil)
			if r.Ended == 0 {
				e.Errorf("nothing is counted as ended")
			}
			e.gone(e.box())
		}},
	}
}

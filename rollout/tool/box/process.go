package box

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"hermes/backends"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/edit"
	"hermes/rollout/tool/box/shell"
)

const processParameters = `{
  "type": "object",
  "properties": {
    "action": {"type": "string", "enum": ["list", "poll", "log", "wait", "kill", "write", "submit", "close"], "description": "What to do."},
    "session_id": {"type": "string", "description": "The process, as terminal named it; all actions but list need it."},
    "data": {"type": "string", "description": "Text for write and submit."},
    "timeout": {"type": "integer", "minimum": 1, "description": "Seconds that wait may take."},
    "offset": {"type": "integer", "minimum": 0, "description": "First line of log, from 0; default is the last lines."},
    "limit": {"type": "integer", "minimum": 1, "description": "Lines of log, default 200."}
  },
  "required": ["action"],
  "additionalProperties": false
}`

const (
	processBuffer = 200 << 10 // bytes of output kept of each process
	killGrace     = 2 * time.Second
)

type processArgs struct {
	Action  string `json:"action"`
	ID      string `json:"session_id"`
	Data    string `json:"data"`
	Timeout int    `json:"timeout"`
	Offset  *int   `json:"offset"`
	Limit   int    `json:"limit"`
}

// background starts a command and returns at once.
func (x *session) background(ctx context.Context, b backends.Sandbox, a terminalArgs) (tool.Result, error) {
	starter, ok := backends.As[backends.Starter](b)
	if !ok {
		return notRun("disabled", "this sandbox cannot run processes in the background"), nil
	}
	c, err := x.sh.Command(ctx, b, a.Command, a.Workdir)
	if err != nil {
		return tool.Result{}, err
	}
	cwd, err := x.sh.Path(ctx, b, cmp.Or(a.Workdir, "."))
	if err != nil {
		return tool.Result{}, err
	}
	started, err := starter.Start(ctx, c, backends.StartOptions{PTY: a.PTY, Rows: 24, Cols: 120, Buffer: processBuffer})
	if err != nil {
		return tool.Result{}, fmt.Errorf("start in the background: %w", err)
	}
	p := &shell.Process{Process: started, Name: x.name("proc_"), Command: a.Command, Dir: cwd, Began: x.now()}
	var notify func(string)
	if a.Notify {
		notify = x.scope.Notify
	}
	if !x.procs.Add(p, notify) {
		err := started.Kill(ctx, 0)
		return notRun("", "%d background processes are running; end one first", shell.MaxProcesses), err
	}
	res := map[string]any{"output": "Background process started", "session_id": p.Name, "pid": p.PID(), "exit_code": 0, "error": nil}
	if a.Notify {
		res["notify_on_complete"] = notify != nil
		if notify == nil {
			res["note"] = "nobody can be notified here; use process with action wait or poll"
		}
	} else if len(a.Patterns) > 0 {
		res["watch_patterns"] = []string{}
		res["note"] = "output cannot be watched here; use process with action poll or log"
	}
	return tool.Result{Text: tool.JSON(res)}, nil
}

func process(o Options) tool.Def {
	return tool.Def{
		Spec: spec("process", processParameters), Toolset: "terminal",
		Traits: tool.Traits{NeedsBox: true},
		Open: func(s *tool.Scope) (tool.Handler, error) {
			x := open(s, o)
			return tool.Typed(x.process), nil
		},
	}
}

func (x *session) process(ctx context.Context, a processArgs) (tool.Result, error) {
	x.files.other(x)
	if a.Action == "list" {
		return x.listProcesses(ctx)
	}
	if a.ID == "" {
		return tool.Errorf("session_id is required for action %s", a.Action), nil
	}
	p := x.procs.Find(a.ID)
	if p == nil {
		return tool.Result{Text: tool.JSON(map[string]string{"status": "not_found", "error": "No process with ID " + edit.Clip(a.ID, 80)}), Failed: true}, nil
	}
	if _, _, err, _ := p.Ended(); err != nil {
		return tool.Result{}, fmt.Errorf("process %s: %w", p.Name, err)
	}
	switch a.Action {
	case "poll":
		return x.poll(ctx, p)
	case "log":
		return x.log(ctx, p, a)
	case "wait":
		return x.wait(ctx, p, a.Timeout)
	case "kill":
		return x.kill(ctx, p)
	}
	return x.input(ctx, p, a)
}

func (x *session) listProcesses(ctx context.Context) (tool.Result, error) {
	type item struct {
		ID      string `json:"session_id"`
		Command string `json:"command"`
		Cwd     string `json:"cwd"`
		PID     int    `json:"pid"`
		Started string `json:"started_at"`
		Uptime  int    `json:"uptime_seconds"`
		Status  string `json:"status"`
		Preview string `json:"output_preview"`
		Code    *int   `json:"exit_code,omitempty"`
	}
	list := []item{}
	for _, p := range x.procs.All() {
		out, err := p.Tail(ctx, 200)
		if err != nil {
			return tool.Result{}, err
		}
		status, code, up := x.status(p)
		list = append(list, item{p.Name, edit.Clip(p.Command, 200), p.Dir, p.PID(), p.Began.UTC().Format(time.RFC3339), up, status, out, code})
	}
	return tool.Result{Text: tool.JSON(map[string]any{"processes": list})}, nil
}

func (x *session) status(p *shell.Process) (status string, code *int, uptime int) {
	c, at, _, ended := p.Ended()
	if !ended {
		return "running", nil, int(x.now().Sub(p.Began).Seconds())
	}
	return "exited", &c, int(at.Sub(p.Began).Seconds())
}

func (x *session) poll(ctx context.Context, p *shell.Process) (tool.Result, error) {
	status, code, up := x.status(p)
	out, err := p.Tail(ctx, 1000)
	if err != nil {
		return tool.Result{}, err
	}
	res := struct {
		ID      string `json:"session_id"`
		Command string `json:"command"`
		Status  string `json:"status"`
		PID     int    `json:"pid"`
		Uptime  int    `json:"uptime_seconds"`
		Preview string `json:"output_preview"`
		Code    *int   `json:"exit_code,omitempty"`
	}{p.Name, p.Command, status, p.PID(), up, out, code}
	return tool.Result{Text: tool.JSON(res)}, nil
}

func (x *session) log(ctx context.Context, p *shell.Process, a processArgs) (tool.Result, error) {
	status, _, _ := x.status(p)
	raw, first, gone, err := p.Log(ctx)
	if err != nil {
		return tool.Result{}, fmt.Errorf("output of process %s: %w", p.Name, err)
	}
	lines, before := edit.Lines(shell.Clean(raw)), int(gone)
	limit, total := cmp.Or(a.Limit, 200), before+len(lines)
	from := max(before, total-limit)
	if a.Offset != nil {
		from = max(before, min(*a.Offset, total))
	}
	to := min(total, from+limit)
	showing := fmt.Sprintf("%d lines", to-from)
	if to > from {
		showing = fmt.Sprintf("lines %d-%d of %d", from+1, to, total)
	}
	dropped := ""
	if first > 0 {
		dropped = fmt.Sprintf("The first %d bytes of the output are not kept any more (%d whole lines, and what line %d began with); write long output to a file.", first, before, before+1)
	}
	return tool.Result{Text: tool.JSON(struct {
		ID      string `json:"session_id"`
		Status  string `json:"status"`
		Output  string `json:"output"`
		Total   int    `json:"total_lines"`
		Showing string `json:"showing"`
		Dropped string `json:"dropped,omitempty"`
	}{p.Name, status, strings.Join(lines[from-before:to-before], "\n"), total, showing, dropped})}, nil
}

func (x *session) wait(ctx context.Context, p *shell.Process, seconds int) (tool.Result, error) {
	type waited struct {
		Status string `json:"status"`
		Code   *int   `json:"exit_code,omitempty"`
		Output string `json:"output"`
		Note   string `json:"timeout_note,omitempty"`
	}
	limit := x.opt.Timeout
	var w waited
	if asked := time.Duration(seconds) * time.Second; asked > limit {
		w.Note = fmt.Sprintf("%d seconds were asked for, %d are the most", seconds, int(limit.Seconds()))
	} else if seconds > 0 {
		limit = asked
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	w.Status = "exited"
	select {
	case <-p.Done():
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	case <-timer.C:
		w.Status = "timeout"
		w.Note = cmp.Or(w.Note, fmt.Sprintf("still running after %d seconds", int(limit.Seconds())))
	}
	if w.Status == "exited" {
		code, _, err, _ := p.Ended()
		if err != nil {
			return tool.Result{}, fmt.Errorf("process %s: %w", p.Name, err)
		}
		w.Code = &code
	}
	var err error
	w.Output, err = p.Tail(ctx, 2000)
	return tool.Result{Text: tool.JSON(w)}, err
}

func (x *session) kill(ctx context.Context, p *shell.Process) (tool.Result, error) {
	if code, _, _, ended := p.Ended(); ended {
		return tool.Result{Text: tool.JSON(map[string]any{"status": "already_exited", "session_id": p.Name, "exit_code": code})}, nil
	}
	if err := p.Kill(ctx, killGrace); err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Text: tool.JSON(map[string]any{"status": "killed", "session_id": p.Name})}, nil
}

// input is write, submit and close.
func (x *session) input(ctx context.Context, p *shell.Process, a processArgs) (tool.Result, error) {
	if code, _, _, ended := p.Ended(); ended {
		return tool.Result{Text: tool.JSON(map[string]any{"status": "already_exited", "error": "the process has ended", "exit_code": code}), Failed: true}, nil
	}
	if ok, err := x.approved(ctx, kindInput, "process %s %s, to %s:\n%s", a.Action, p.Name, p.Command, a.Data); err != nil || !ok {
		return tool.Errorf("%s", notAllowed("the input")), err
	}
	if a.Action == "close" {
		if err := p.CloseStdin(ctx); err != nil {
			return x.inputError(err, p)
		}
		return tool.Result{Text: tool.JSON(map[string]any{"status": "ok", "message": "input closed"})}, nil
	}
	data := a.Data
	if a.Action == "submit" {
		data += "\n"
	}
	if err := p.Write(ctx, []byte(data)); err != nil {
		return x.inputError(err, p)
	}
	return tool.Result{Text: tool.JSON(map[string]any{"status": "ok", "bytes_written": len(data)})}, nil
}

// inputError tells the model of a closed input; a failed box is an error.
func (x *session) inputError(err error, p *shell.Process) (tool.Result, error) {
	if fatal(err) {
		return tool.Result{}, fmt.Errorf("input of process %s: %w", p.Name, err)
	}
	return tool.Errorf("input of process %s: %v", p.Name, err), nil
}

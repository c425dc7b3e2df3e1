package box

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"hermes/backends"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/edit"
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

// Bounds of background processes.
const (
	processBuffer = 200 << 10 // bytes of output kept of each
	processMost   = 64        // tracked at once; the oldest that has ended makes room
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

// job is one background process.
type job struct {
	id, command, cwd string
	p                backends.Process
	began            time.Time
	done             chan struct{} // closed when it has ended and code is set

	mu     sync.Mutex
	killed bool
	code   int
	ended  time.Time
	err    error // the box failed
}

func (j *job) running() bool {
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// processes are the background processes of a rollout.
type processes struct {
	x      *session
	ctx    context.Context // ends with the rollout, not with the call that started a process
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	jobs   []*job
}

func newProcesses(x *session) *processes {
	ctx, cancel := context.WithCancel(context.Background())
	return &processes{x: x, ctx: ctx, cancel: cancel}
}

func (p *processes) close(ctx context.Context) error {
	p.mu.Lock()
	jobs := slices.Clone(p.jobs)
	p.mu.Unlock()
	for _, j := range jobs {
		if j.running() {
			_ = j.p.Kill(ctx, 0) // the box ends what is left
		}
	}
	p.cancel()
	p.wg.Wait()
	return nil
}

// add makes room and follows the process to its end.
func (p *processes) add(j *job, notify func(string)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.jobs) >= processMost {
		i := slices.IndexFunc(p.jobs, func(j *job) bool { return !j.running() })
		if i < 0 {
			return false
		}
		p.jobs = slices.Delete(p.jobs, i, i+1)
	}
	p.jobs = append(p.jobs, j)
	p.wg.Go(func() {
		r, err := j.p.Wait(p.ctx)
		j.mu.Lock()
		j.code = r.Code
		j.err = err
		j.ended = p.x.now()
		if j.killed {
			j.code, j.err = -15, nil
		}
		j.mu.Unlock()
		close(j.done)
		if notify != nil && err == nil {
			out, _ := p.x.tail(p.ctx, j, 2000)
			notify(fmt.Sprintf("Background process %s has ended with exit code %d.\nCommand: %s\nOutput:\n%s", j.id, j.code, j.command, out))
		}
	})
	return true
}

func (p *processes) find(id string) *job {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}

// background starts a command and returns at once.
func (x *session) background(ctx context.Context, b backends.Sandbox, a terminalArgs) (tool.Result, error) {
	starter, ok := backends.As[backends.Starter](b)
	if !ok {
		return notRun("disabled", "this sandbox cannot run processes in the background"), nil
	}
	c, err := x.command(ctx, b, a.Command, a.Workdir, false)
	if err != nil {
		return tool.Result{}, err
	}
	cwd, err := x.path(ctx, b, cmp.Or(a.Workdir, "."))
	if err != nil {
		return tool.Result{}, err
	}
	p, err := starter.Start(ctx, c, backends.StartOptions{PTY: a.PTY, Rows: 24, Cols: 120, Buffer: processBuffer})
	if err != nil {
		return tool.Result{}, fmt.Errorf("start in the background: %w", err)
	}
	j := &job{id: x.name("proc_"), command: a.Command, cwd: cwd, p: p, began: x.now(), done: make(chan struct{})}
	var notify func(string)
	if a.Notify {
		notify = x.scope.Notify
	}
	if !x.procs.add(j, notify) {
		err := p.Kill(ctx, 0)
		return notRun("", "%d background processes are running; end one first", processMost), err
	}
	res := map[string]any{"output": "Background process started", "session_id": j.id, "pid": p.PID(), "exit_code": 0, "error": nil}
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
		return x.listJobs(ctx)
	}
	if a.ID == "" {
		return tool.Errorf("session_id is required for action %s", a.Action), nil
	}
	j := x.procs.find(a.ID)
	if j == nil {
		return tool.Result{Text: tool.JSON(map[string]string{"status": "not_found", "error": "No process with ID " + edit.Clip(a.ID, 80)}), Failed: true}, nil
	}
	if !j.running() && j.err != nil {
		return tool.Result{}, fmt.Errorf("process %s: %w", j.id, j.err)
	}
	switch a.Action {
	case "poll":
		return x.poll(ctx, j)
	case "log":
		return x.log(ctx, j, a)
	case "wait":
		return x.wait(ctx, j, a.Timeout)
	case "kill":
		return x.kill(ctx, j)
	}
	return x.input(ctx, j, a)
}

// tail returns the newest n characters of the output.
func (x *session) tail(ctx context.Context, j *job, n int) (string, error) {
	raw, _, _, err := j.p.Output(ctx, 0, 0)
	if err != nil {
		return "", fmt.Errorf("output of process %s: %w", j.id, err)
	}
	runes := []rune(clean(raw))
	return string(runes[max(0, len(runes)-n):]), nil
}

func (x *session) listJobs(ctx context.Context) (tool.Result, error) {
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
	x.procs.mu.Lock()
	jobs := slices.Clone(x.procs.jobs)
	x.procs.mu.Unlock()
	list := []item{}
	for _, j := range jobs {
		out, err := x.tail(ctx, j, 200)
		if err != nil {
			return tool.Result{}, err
		}
		status, code, up := x.status(j)
		list = append(list, item{j.id, edit.Clip(j.command, 200), j.cwd, j.p.PID(), j.began.UTC().Format(time.RFC3339), up, status, out, code})
	}
	return tool.Result{Text: tool.JSON(map[string]any{"processes": list})}, nil
}

func (x *session) status(j *job) (status string, code *int, uptime int) {
	if j.running() {
		return "running", nil, int(x.now().Sub(j.began).Seconds())
	}
	c := j.code
	return "exited", &c, int(j.ended.Sub(j.began).Seconds())
}

func (x *session) poll(ctx context.Context, j *job) (tool.Result, error) {
	status, code, up := x.status(j)
	out, err := x.tail(ctx, j, 1000)
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
	}{j.id, j.command, status, j.p.PID(), up, out, code}
	return tool.Result{Text: tool.JSON(res)}, nil
}

func (x *session) log(ctx context.Context, j *job, a processArgs) (tool.Result, error) {
	status, _, _ := x.status(j)
	raw, first, gone, err := j.p.Log(ctx)
	if err != nil {
		return tool.Result{}, fmt.Errorf("output of process %s: %w", j.id, err)
	}
	lines, before := edit.Lines(clean(raw)), int(gone)
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
	}{j.id, status, strings.Join(lines[from-before:to-before], "\n"), total, showing, dropped})}, nil
}

func (x *session) wait(ctx context.Context, j *job, seconds int) (tool.Result, error) {
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
	case <-j.done:
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	case <-timer.C:
		w.Status = "timeout"
		w.Note = cmp.Or(w.Note, fmt.Sprintf("still running after %d seconds", int(limit.Seconds())))
	}
	if w.Status == "exited" {
		if j.err != nil {
			return tool.Result{}, fmt.Errorf("process %s: %w", j.id, j.err)
		}
		w.Code = &j.code
	}
	var err error
	w.Output, err = x.tail(ctx, j, 2000)
	return tool.Result{Text: tool.JSON(w)}, err
}

func (x *session) kill(ctx context.Context, j *job) (tool.Result, error) {
	if !j.running() {
		return tool.Result{Text: tool.JSON(map[string]any{"status": "already_exited", "session_id": j.id, "exit_code": j.code})}, nil
	}
	j.mu.Lock()
	j.killed = true
	j.mu.Unlock()
	if err := j.p.Kill(ctx, killGrace); err != nil {
		return tool.Result{}, fmt.Errorf("kill process %s: %w", j.id, err)
	}
	select {
	case <-j.done:
	case <-ctx.Done():
		return tool.Result{}, ctx.Err()
	}
	return tool.Result{Text: tool.JSON(map[string]any{"status": "killed", "session_id": j.id})}, nil
}

// input is write, submit and close.
func (x *session) input(ctx context.Context, j *job, a processArgs) (tool.Result, error) {
	if !j.running() {
		return tool.Result{Text: tool.JSON(map[string]any{"status": "already_exited", "error": "the process has ended", "exit_code": j.code}), Failed: true}, nil
	}
	if ok, err := x.approved(ctx, kindInput, "process %s %s, to %s:\n%s", a.Action, j.id, j.command, a.Data); err != nil || !ok {
		return tool.Errorf("%s", notAllowed("the input")), err
	}
	if a.Action == "close" {
		if err := j.p.CloseStdin(ctx); err != nil {
			return x.inputError(err, j)
		}
		return tool.Result{Text: tool.JSON(map[string]any{"status": "ok", "message": "input closed"})}, nil
	}
	data := a.Data
	if a.Action == "submit" {
		data += "\n"
	}
	if err := j.p.Write(ctx, []byte(data)); err != nil {
		return x.inputError(err, j)
	}
	return tool.Result{Text: tool.JSON(map[string]any{"status": "ok", "bytes_written": len(data)})}, nil
}

// inputError tells the model of a closed input; a failed box is an error.
func (x *session) inputError(err error, j *job) (tool.Result, error) {
	if fatal(err) {
		return tool.Result{}, fmt.Errorf("input of process %s: %w", j.id, err)
	}
	return tool.Errorf("input of process %s: %v", j.id, err), nil
}

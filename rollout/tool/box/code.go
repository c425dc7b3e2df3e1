package box

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"hermes/backends"
	"hermes/rollout/tool"
	"hermes/rollout/tool/box/edit"
	"hermes/rollout/tool/box/shell"
	"hermes/trajectory"
)

const codeParameters = `{
  "type": "object",
  "properties": {
    "code": {"type": "string", "description": "The Python script. What it prints is the result."}
  },
  "required": ["code"],
  "additionalProperties": false
}`

// Bounds of execute_code, in bytes.
const (
	codeOutput  = 50_000
	codeErrors  = 10_000
	codeRequest = 16 << 20
	codeAnswer  = 700 << 10
)

type codeArgs struct {
	Code string `json:"code"`
}

type codeResult struct {
	Status   string  `json:"status"`
	Output   string  `json:"output"`
	Calls    int     `json:"tool_calls_made"`
	Duration float64 `json:"duration_seconds"`
	Error    string  `json:"error,omitempty"`
}

// fromCode are the tools that the description of execute_code may name.
func fromCode() []string {
	return []string{"web_search", "web_extract", "read_file", "write_file", "search_files", "patch", "terminal"}
}

func executeCode(o Options) tool.Def {
	describe := func(s trajectory.ToolSpec, have func(string) bool) trajectory.ToolSpec {
		names := slices.DeleteFunc(fromCode(), func(n string) bool { return !have(n) })
		if len(names) == 0 {
			names = []string{"json_parse"}
		}
		s.Description = strings.TrimSpace(strings.ReplaceAll(text("execute_code.md"), "{{TOOLS}}", strings.Join(names, ", ")))
		return s
	}
	return tool.Def{
		Spec:    describe(spec("execute_code", codeParameters), func(string) bool { return true }),
		Toolset: "code_execution", About: "Run Python that can call tools.",
		Traits: tool.Traits{NeedsBox: true},
		Open: func(s *tool.Scope) (tool.Handler, error) {
			x := open(s, o)
			return tool.Typed(x.code), nil
		},
		Fits: fitsCode,
		Respec: func(s trajectory.ToolSpec, names []string) trajectory.ToolSpec {
			return describe(s, func(n string) bool { return slices.Contains(names, n) })
		},
	}
}

// fitsCode refuses boxes without Python 3.
func fitsCode(ctx context.Context, b backends.Sandbox) error {
	r, err := b.Exec(ctx, backends.Cmd{Argv: []string{"python3", "-I", "-c", "import fcntl, json, os, sys; sys.exit(sys.version_info < (3, 6))"}})
	switch {
	case err != nil:
		return fmt.Errorf("look for python3: %w", err)
	case r.Code == 127 || r.Code == 126:
		return errors.New("the sandbox has no python3")
	case r.Code != 0:
		return fmt.Errorf("python3 of the sandbox is too old or does not work: %s", edit.Clip(strings.TrimSpace(shell.Clean(r.Stderr)), 200))
	}
	return nil
}

func (x *session) code(ctx context.Context, a codeArgs) (tool.Result, error) {
	x.files.other(x)
	if strings.TrimSpace(a.Code) == "" {
		return tool.Errorf("code is empty"), nil
	}
	if ok, err := x.approved(ctx, kindCode, "execute_code, in %s:\n%s", x.folder(""), a.Code); err != nil || !ok {
		return tool.Result{Text: tool.JSON(codeResult{Status: "error", Error: "the script was not allowed"}), Failed: true}, err
	}
	b, err := x.box(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	r := &run{x: x, b: b}
	if err := r.prepare(ctx); err != nil {
		return tool.Result{}, err
	}
	defer r.tidy(ctx)
	res, err := r.run(ctx, a.Code)
	if err != nil {
		return tool.Result{}, fmt.Errorf("execute_code: %w", err)
	}
	return r.result(res), nil
}

// run is one script. Its calls come through two pipes in its folder: one command in the box
// waits for a request, and writes the answer to the one before, so nothing polls.
type run struct {
	x     *session
	b     backends.Sandbox
	dir   string
	calls int
}

func (r *run) prepare(ctx context.Context) error {
	fault := r.x.sh.Blame()
	const script = `t=${TMPDIR:-/tmp}; mkdir -p "$t"; d=$(mktemp -d "$t/.hermes-XXXXXXXX") && mkfifo "$d/request" "$d/answer" && printf %s "$d"`
	res, err := r.b.Exec(ctx, backends.Cmd{Shell: "umask 077; " + script, Dir: "/"})
	if err != nil {
		return fmt.Errorf("prepare the script: %w", err)
	}
	r.dir = string(res.Stdout)
	if res.Code != 0 || !path.IsAbs(r.dir) {
		return fmt.Errorf("prepare the script: make a folder with pipes for it: exit code %d: %s: %w", res.Code, edit.Clip(shell.Clean(res.Stderr), 200), fault)
	}
	return nil
}

func (r *run) tidy(ctx context.Context) {
	_, _ = r.b.Exec(context.WithoutCancel(ctx), backends.Cmd{Argv: []string{"rm", "-rf", "--", r.dir}, Dir: "/"})
}

// run starts the script and answers its calls until it ends.
func (r *run) run(ctx context.Context, code string) (backends.Result, error) {
	files, err := json.Marshal(map[string]string{"script.py": code, "hermes_boot.py": text("boot.py"), "hermes_tools.py": text("client.py") + functions(r.x.scope)})
	if err != nil {
		return backends.Result{}, err
	}
	c, err := r.x.sh.Command(ctx, r.b, "exec python3 -I -c "+shell.Quote(text("runner.py"))+" "+shell.Quote(r.dir), "")
	if err != nil {
		return backends.Result{}, err
	}
	c.Stdin = files
	c.Timeout = r.x.opt.CodeTimeout
	c.MaxOutput = 256 << 10
	c.Keep = backends.KeepBoth
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	serving, stop := context.WithCancel(ctx)
	go func() {
		err := r.serve(serving)
		if err != nil && serving.Err() == nil {
			cancel() // a call failed for reasons of ours: the script cannot go on
		}
		served <- err
	}()
	res, err := r.b.Exec(ctx, c)
	stop()
	if callErr := <-served; callErr != nil && !errors.Is(callErr, context.Canceled) {
		return res, callErr
	}
	return res, err
}

// serve answers calls. It ends with an error: that of a call, or of its context.
func (r *run) serve(ctx context.Context) error {
	q := shell.Quote(r.dir)
	script, answer := fmt.Sprintf("cat %s/request", q), []byte(nil)
	for {
		res, err := r.b.Exec(ctx, backends.Cmd{Shell: script, Dir: "/", Stdin: answer, MaxOutput: codeRequest})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("wait for a call: %w", err)
		}
		if res.Code != 0 {
			<-ctx.Done() // the script removed its pipes: it gets no more answers
			return ctx.Err()
		}
		text, err := r.answer(ctx, res)
		if err != nil {
			return err
		}
		answer = []byte(text)
		script = fmt.Sprintf("cat >%s/answer && exec cat %s/request", q, q)
	}
}

func (r *run) answer(ctx context.Context, res backends.Result) (string, error) {
	var req struct {
		Tool string          `json:"tool"`
		Args json.RawMessage `json:"args"`
	}
	fault := func(format string, args ...any) (string, error) { return tool.Errorf(format, args...).Text, nil }
	if res.Truncated || json.Unmarshal(res.Stdout, &req) != nil {
		return fault("the request cannot be read, or is larger than %d MiB", codeRequest>>20)
	}
	if r.calls >= r.x.opt.CodeCalls {
		return fault("the limit of %d tool calls is reached; no more calls are answered", r.x.opt.CodeCalls)
	}
	r.calls++
	if r.x.scope.Dispatch == nil {
		return fault("no tools can be called here")
	}
	if refused := hidden(req.Tool, req.Args); refused != "" {
		return fault("%s cannot be used from code", refused)
	}
	out, err := r.x.scope.Dispatch(ctx, req.Tool, req.Args)
	if err != nil {
		return "", fmt.Errorf("%s: %w", req.Tool, err)
	}
	if len(out.Text) > codeAnswer {
		return fault("the result has %d bytes, more than %d; ask for less", len(out.Text), codeAnswer)
	}
	return out.Text, nil
}

func (r *run) result(res backends.Result) tool.Result {
	c := codeResult{Status: "success", Calls: r.calls, Duration: math.Round(res.Took.Seconds()*100) / 100,
		Output: shell.HeadTail(shell.Clean(res.Stdout), codeOutput, res.Dropped)}
	errs := strings.TrimSpace(strings.ReplaceAll(shell.Clean(res.Stderr), r.dir+"/", ""))
	switch {
	case res.TimedOut:
		c.Status, c.Error = "timeout", fmt.Sprintf("the script was ended after %d seconds", int(r.x.opt.CodeTimeout.Seconds()))
	case res.Code != 0:
		c.Status, c.Error = "error", shell.HeadTail(errs, codeErrors, 0)
		if c.Error == "" {
			c.Error = fmt.Sprintf("the script ended with exit code %d", res.Code)
		}
	}
	return tool.Result{Text: tool.JSON(c), Failed: c.Status != "success"}
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"hermes/backends"
)

// agenticStep is what the model does in one turn, and how bash on the host does the same.
type agenticStep struct {
	tool, bash string
	arguments  map[string]any
}

// agenticSteps are the turns of the shape agentic: commands, of which some need the state that others
// left, and a file that is written and read.
func agenticSteps() []agenticStep {
	run := func(command string) agenticStep {
		return agenticStep{"terminal", command, map[string]any{"command": command}}
	}
	return []agenticStep{
		run("pwd; ls -la"),
		{"write_file", `printf 'line %s\n' 1 2 3 >notes.txt`, map[string]any{"path": "notes.txt", "content": "line 1\nline 2\nline 3\n"}},
		run("mkdir -p src && cd src"),
		run(`printf '%s\n' one two three >list.txt`),
		run("grep -n two list.txt"),
		run("export WORD=agent; echo $WORD"),
		run("wc -l list.txt"),
		run("sort -r list.txt | head -n 2"),
		run("echo done $WORD; cd"),
		{"read_file", "cat notes.txt", map[string]any{"path": "notes.txt"}},
	}
}

// agenticCall is the call of the n-th turn. More turns than there are steps begin again.
func agenticCall(n int) map[string]any {
	steps := agenticSteps()
	s := steps[n%len(steps)]
	return map[string]any{"name": s.tool, "arguments": s.arguments}
}

// bareRollouts is how often the floor of the shape agentic is measured in a round, at most.
const bareRollouts = 200

// commands is the floor of the shape agentic: the same commands with bash on the host, a
// process each, and a box that is made and closed. It returns the processor time of a
// rollout in µs, of all processes.
func (b Bench) commands(ctx context.Context) (cost float64, err error) {
	n := min(b.Rollouts, bareRollouts)
	steps := agenticSteps()
	cpu := everything()
	back, err := b.Typed.Backend(ctx)
	if err != nil {
		return 0, err
	}
	var made atomic.Int64
	err = inParallel(min(n, runtime.GOMAXPROCS(0)), n, func() error {
		box, err := back.Open(ctx, backends.Spec{})
		if err != nil {
			return err
		}
		dir := filepath.Join(b.Dir, fmt.Sprint("bare-", made.Add(1)))
		err = os.Mkdir(dir, 0o700)
		for i := 0; i < b.Turns-1 && err == nil; i++ {
			err = b.Typed.Bash(ctx, dir, steps[i%len(steps)].bash)
		}
		return errors.Join(err, box.Close(context.WithoutCancel(ctx)), os.RemoveAll(dir))
	})
	err = errors.Join(err, back.Close(context.WithoutCancel(ctx))) // its helper is counted when it has ended
	return micros(everything()-cpu) / float64(n), err
}

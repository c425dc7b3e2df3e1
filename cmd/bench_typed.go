package cmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hermes/backends"
	"hermes/internal/build"
	"hermes/internal/runs/bench"
)

// typed starts the model servers of the shapes that run `hermes batch` itself, and gives
// the benchmark what it needs for that.
func (c *benchCmd) typed(h *host, b *bench.Bench) (stop func(), err error) {
	if names := build.BackendNames(h.Parts.Backends); b.Backend != build.AutoBackend && !slices.Contains(names, b.Backend) {
		return nil, Usage("--backend %q: want auto, %s", b.Backend, strings.Join(names, ", "))
	}
	script := filepath.Join(b.Dir, "script.jsonl")
	text, err := b.TypedScript()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(script, text, 0o600); err != nil {
		return nil, err
	}
	url, pid, stopModel, err := c.server(h, "model", "fake", "--listen", "127.0.0.1:0", "--script", script, "--latency", b.Latency.String())
	if err != nil {
		return nil, err
	}
	free, _, stopFree, err := c.server(h, "model", "fake", "--listen", "127.0.0.1:0")
	if err != nil {
		stopModel()
		return nil, err
	}
	b.Base = url + "/v1"
	b.Typed = bench.Typed{
		Hermes: func(ctx context.Context, args ...string) error { return h.again(ctx, b.Dir, args) },
		Backend: func(ctx context.Context) (backends.Backend, error) {
			return build.OpenBackend(ctx, c.Backend, h.Layers.Section("backends"), h.Parts.Backends)
		},
		Bash: func(ctx context.Context, dir, command string) error {
			bash := exec.CommandContext(ctx, "bash", "-c", command)
			bash.Dir = dir
			if out, err := bash.CombinedOutput(); err != nil {
				return fmt.Errorf("bash -c %q: %w: %s", command, err, out)
			}
			return nil
		},
		Free:   free + "/v1",
		Server: func() time.Duration { return processorOf(pid) },
	}
	return func() { stopFree(); stopModel() }, nil
}

// again runs a command line of hermes in this process: with the same parts, and without
// the settings of the user.
func (h *host) again(ctx context.Context, home string, args []string) error {
	var said bytes.Buffer
	environ := []string{"PATH=" + h.Env.Get("PATH"), "HOME=" + home, "HERMES_HOME=" + filepath.Join(home, "none")}
	code := run(ctx, args, process{stdio: Stdio{In: strings.NewReader(""), Out: io.Discard, Err: &said}, environ: environ, program: h.Program}, h.Parts)
	if code != 0 {
		text := said.String()
		return fmt.Errorf("exit code %d: %s", code, text[max(0, len(text)-1000):])
	}
	return nil
}

// clockTicks are the units of /proc/PID/stat: 100 a second on every Linux that Go knows.
const clockTicks = 100

// processorOf is the processor time of another process; 0 where the system does not tell.
func processorOf(pid int) time.Duration {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	var ticks time.Duration
	for _, f := range fields[11:13] { // utime, stime
		n, _ := strconv.ParseInt(f, 10, 64) // of the kernel's own making
		ticks += time.Duration(n)
	}
	return ticks * time.Second / clockTicks
}

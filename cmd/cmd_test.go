package cmd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hermes/cmd"
	"hermes/configs"
)

// TestBadConfiguration: whatever is wrong with the configuration, nothing is started,
// the exit code is 2, stdout is empty and the message names the culprit.
func TestBadConfiguration(t *testing.T) {
	tests := []struct {
		name, user, dotenv, run string
		env, args               []string
		want                    string
	}{
		{name: "unknown key", run: "log-levle: info\n", want: "run.yaml:1: unknown key log-levle (did you mean log-level?)"},
		{name: "unknown key in line 3", run: "log-level: info\n\nfoo_bar: 1\n", want: "run.yaml:3: unknown key foo_bar"},
		{name: "another command's key", run: "out: x\n", want: "run.yaml:1: key out belongs to hermes"},
		{name: "wrong type", run: "log-format: {a: 1}\n", want: "run.yaml:1: log-format: want text, got a mapping"},
		{name: "list", run: "log-format: [json]\n", want: "log-format: want text, got a list"},
		{name: "nothing", run: "log-format:\n", want: "log-format: want text, got nothing"},
		{name: "enum", run: "log-format: jsno\n", want: `log-format: "jsno" is none of text, logfmt, json (did you mean json?)`},
		{name: "level", run: "log-level: loud\n", want: "run.yaml:1: log-level:"},
		{name: "duplicate", run: "log-format: json\nlog-format: text\n", want: "run.yaml:2: key log-format is given twice"},
		{name: "tab", run: "backends:\n\tx: 1\n", want: "run.yaml:2: a tab"},
		{name: "two documents", run: "log-format: json\n---\n{}\n", want: "second document"},
		{name: "byte order mark", run: "\ufefflog-format: json\n", want: "run.yaml:1: begins with a byte order mark"},
		{name: "not a mapping", run: "[]\n", want: "run.yaml:1: want keys and values"},
		{name: "syntax", run: "log-format: 'json\n", want: "run.yaml"},
		{name: "secret", run: "hf-token: abcdefgh\n", want: "run.yaml:1: key hf-token looks like a secret"},
		{name: "preset", run: "preset: nope\n", want: `run.yaml:1: no preset "nope" (have measure, sft, trial)`},
		{name: "preset flag", args: []string{"--preset", "sftt"}, want: `--preset: no preset "sftt"`},
		{name: "preset variable", env: []string{"HERMES_PRESET=x"}, want: `HERMES_PRESET: no preset "x"`},
		{name: "variable enum", env: []string{"HERMES_LOG_FORMAT=xml"}, want: `HERMES_LOG_FORMAT: log-format: "xml" is none of text, logfmt, json`},
		{name: "variable level", env: []string{"HERMES_LOG_LEVEL=xml"}, want: "HERMES_LOG_LEVEL: log-level:"},
		{name: "user file syntax", user: "a: [\n", want: "config.yaml"},
		{name: "user file value", user: "x: 1\nlog-format: xml\n", want: `config.yaml:2: log-format: "xml" is none of`},
		{name: "user file twice", user: "x: 1\nx: 2\n", want: "config.yaml:2: key x is given twice"},
		{name: "dotenv", dotenv: "A=1\nB\n", want: ".env:2: want NAME=value"},
		{name: "dotenv quote", dotenv: "KEY='abcdefgh\n", want: ".env:1: KEY: the quote is not closed"},
		{name: "dotenv setting", dotenv: "HERMES_LOG_FORMAT=xml\n", want: ".env:1: log-format:"},
		{name: "flag enum", args: []string{"--log-format=xml"}, want: "--log-format must be one of"},
		{name: "flag type", args: []string{"--log-level=xml"}, want: "--log-level"},
		{name: "no such run file", args: []string{"-c", "/nowhere/run.yaml"}, want: "/nowhere/run.yaml: no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			args := append([]string{"version"}, tt.args...)
			for name, text := range map[string]string{"config.yaml": tt.user, ".env": tt.dotenv, "run.yaml": tt.run} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if name == "run.yaml" {
					args = append(args, "-c", filepath.Join(dir, name))
				}
			}
			code, stdout, stderr := cmd.Run(t.Context(), append(tt.env, "HERMES_HOME="+dir), nil, cmd.Builtin(), args...)
			if code != cmd.ExitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit %d, stdout %q, stderr %q; want 2 and %q", code, stdout, stderr, tt.want)
			}
			if strings.Contains(stderr, "abcdefgh") {
				t.Errorf("a secret was shown: %q", stderr)
			}
		})
	}
}

func TestNoHome(t *testing.T) {
	if code, _, _ := cmd.Run(t.Context(), nil, nil, cmd.Builtin(), "version"); code != 0 {
		t.Errorf("version without a home: exit %d", code)
	}
	if code, _, stderr := cmd.Run(t.Context(), nil, nil, cmd.Builtin(), "config", "init"); code != 2 || !strings.Contains(stderr, "HERMES_HOME") {
		t.Errorf("init without a home: exit %d, %q", code, stderr)
	}
}

func TestProgram(t *testing.T) {
	p := cmd.Builtin()
	p.Programs = map[string]func([]string) int{"hermes-x": func(args []string) int { return 40 + len(args) }}
	if code := cmd.Main(t.Context(), []string{"/some/where/hermes-x", "a"}, p); code != 42 {
		t.Errorf("exit %d", code)
	}
}

// TestSlotdProgram: the built-in parts make this program the server inside a box.
func TestSlotdProgram(t *testing.T) {
	if code := cmd.Main(t.Context(), []string{"/proc/self/exe/hermes-slotd", "no-such-command"}, cmd.Builtin()); code != 2 {
		t.Errorf("exit %d", code)
	}
}

func TestSignals(t *testing.T) {
	for _, tt := range []struct {
		first, second os.Signal
		code          int
	}{{os.Interrupt, os.Interrupt, 130}, {syscall.SIGTERM, os.Interrupt, 143}, {syscall.SIGHUP, syscall.SIGTERM, 143}} {
		in := make(chan os.Signal)
		said := make(chan string, 9)
		ctx, s, stop := cmd.Watch(t.Context(), in, func(text string) { said <- text }, nil)
		if s.Draining() || s.Code() != 0 {
			t.Error("draining before a signal")
		}
		in <- tt.first
		<-s.Drain()
		if ctx.Err() != nil || s.Code() != tt.code || !strings.Contains(<-said, "once more cancels") {
			t.Errorf("%v: context %v, code %d", tt.first, ctx.Err(), s.Code())
		}
		in <- tt.second
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), cmd.ErrInterrupted) || s.Code() != tt.code {
			t.Errorf("%v: cause %v, code %d", tt.second, context.Cause(ctx), s.Code())
		}
		in <- os.Interrupt // a third one changes nothing
		stop()
		stop()
	}
}

// TestForcedEnd: a process that does not end although it was cancelled is ended, by a third signal
// or by time; also one whose command takes the first SIGINT for itself.
func TestForcedEnd(t *testing.T) {
	for _, tt := range []struct {
		name    string
		signals int
		asks    bool
		within  time.Duration
	}{{"third signal", 3, false, 0}, {"time", 2, false, 10 * time.Second}, {"chat", 3, true, 10 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, ended := make(chan os.Signal), make(chan int, 9)
				_, s, stop := cmd.Watch(t.Context(), in, nil, func(code int) { ended <- code })
				defer stop()
				if tt.asks {
					once := true
					s.Intercept(func() bool { defer func() { once = false }(); return once })
				}
				began := time.Now()
				for range tt.signals {
					in <- os.Interrupt
				}
				if code := <-ended; code != 130 || time.Since(began) > tt.within {
					t.Errorf("exit %d after %v", code, time.Since(began))
				}
			})
		})
	}
}

func TestExitCodes(t *testing.T) {
	in := make(chan os.Signal)
	_, s, stop := cmd.Watch(t.Context(), in, nil, nil)
	defer stop()
	in <- os.Interrupt
	<-s.Drain()
	boom := errors.New("boom")
	for _, tt := range []struct {
		err     error
		signals *cmd.Signals
		want    int
	}{
		{nil, nil, 0},
		{boom, nil, 1},
		{cmd.Usage("x"), nil, 2},
		{fmt.Errorf("wrapped: %w", cmd.Usage("x")), nil, 2},
		{fmt.Errorf("wrapped: %w", &configs.Error{File: "f", Msg: "m"}), nil, 2},
		{&cmd.Exit{Code: 3}, nil, 3},
		{&cmd.Exit{Code: 4, Err: boom}, nil, 4},
		{nil, s, 130},
		{context.Canceled, s, 130},
		{&cmd.Exit{Code: 3}, s, 130},
		{&cmd.Exit{Code: 1}, s, 1},
		{boom, s, 1},
	} {
		if got := cmd.Finish(tt.err, tt.signals); got != tt.want {
			t.Errorf("%v: exit %d, want %d", tt.err, got, tt.want)
		}
	}
	for _, tt := range [][3]int{{0, 3, 3}, {3, 4, 4}, {4, 130, 130}, {143, 1, 1}, {1, 3, 1}, {0, 0, 0}} {
		if got := cmd.Worse(tt[0], tt[1]); got != tt[2] {
			t.Errorf("Worse(%d, %d) = %d, want %d", tt[0], tt[1], got, tt[2])
		}
	}
}

package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"hermes/configs"
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/fakellm"
	"hermes/internal/runs/chat"
	"hermes/internal/settings"
	"hermes/rollout/tool/box"
)

// pane is a stream that tests look at while it is written.
type pane struct {
	mu   sync.Mutex
	cond *sync.Cond
	text strings.Builder
}

func newPane() *pane {
	p := &pane{}
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *pane) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Write(b)
	p.cond.Broadcast()
	return len(b), nil
}

func (p *pane) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// await returns when text was written n times, or ctx ended.
func (p *pane) await(ctx context.Context, text string, n int) bool {
	stop := context.AfterFunc(ctx, func() { p.mu.Lock(); p.cond.Broadcast(); p.mu.Unlock() })
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for strings.Count(p.text.String(), text) < n {
		if ctx.Err() != nil {
			return false
		}
		p.cond.Wait()
	}
	return true
}

// talk is one conversation with a model that plays turns.
type talk struct {
	say       func(string)
	interrupt func() bool
	out, err  *pane
	done      chan error
	eof       func() error
}

func converse(t *testing.T, terminal bool, flags settings.ChatFlags, turns ...fakellm.Turn) *talk {
	t.Helper()
	s, err := fakellm.New(fakellm.Options{Models: []string{"m"}, Default: turns})
	if err != nil {
		t.Fatal(err)
	}
	return converseWith(t, s, terminal, flags)
}

// converseWith holds a conversation with a model server.
func converseWith(t *testing.T, model http.Handler, terminal bool, flags settings.ChatFlags) *talk {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	running := httptest.NewServer(model)
	in, w := io.Pipe()
	k := &talk{out: newPane(), err: newPane(), done: make(chan error, 1), eof: w.Close}
	k.say = func(text string) { _, _ = io.WriteString(w, text+"\n") }
	ready := make(chan struct{})
	var once sync.Once
	h := build.Host{Env: func(string) string { return "" }, Section: func(string) configs.Section { return configs.Section{} },
		In: in, Out: k.out, Err: k.err, Terminal: terminal, Handler: func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
		Backends: build.Backends(nil), Tools: box.Builtin(),
		Intercept: func(f func() bool) {
			once.Do(func() { k.interrupt = f; close(ready) })
		}}
	flags.Backend, flags.MaxTurns = "local", 20
	c := settings.Chat{ModelFlags: settings.ModelFlags{Model: "m", BaseURL: []string{running.URL + "/v1"}, Server: "auto"}, ChatFlags: flags}
	go func() { k.done <- chat.Run(ctx, h, c) }()
	select {
	case <-ready:
	case err := <-k.done:
		t.Fatalf("the conversation did not begin: %v; %s", err, k.err)
	}
	t.Cleanup(func() {
		_ = w.Close()
		stop()
		running.Close()
	})
	return k
}

func command(text string) fakellm.Turn {
	args, _ := json.Marshal(map[string]string{"command": text})
	return fakellm.Turn{Calls: []fakellm.Call{{Name: "terminal", Arguments: args}}}
}

// TestChatInterrupted: an interrupt ends a command and the turn; the call has its one
// answer when the model is asked again.
func TestChatInterrupted(t *testing.T) {
	k := converse(t, false, settings.ChatFlags{Toolsets: []string{"terminal"}, Yes: true},
		command("sleep 600 # long"), fakellm.Turn{Content: "I saw {{last_result}}"})
	k.say("begin")
	if !k.err.await(t.Context(), "sleep 600 # long", 1) || !k.interrupt() {
		t.Fatalf("no turn to interrupt; %s", k.err)
	}
	if k.interrupt() {
		t.Error("the second interrupt of a turn was taken too")
	}
	if !k.err.await(t.Context(), "the conversation goes on", 1) {
		t.Fatal(k.err)
	}
	k.say("go on")
	k.say("/exit")
	if err := <-k.done; err != nil {
		t.Fatalf("%v; %s", err, k.err)
	}
	if got := k.out.String(); got != "I saw {\"error\":\"interrupted: this call was not run, or not to its end\"}\n" {
		t.Errorf("stdout %q", got)
	}
	if k.interrupt() {
		t.Error("an interrupt between turns was taken")
	}
}

// TestChatApproval: on a terminal each command is asked for; what is no answer becomes
// the next message.
func TestChatApproval(t *testing.T) {
	const question = "Allow it?"
	k := converse(t, true, settings.ChatFlags{Toolsets: []string{"terminal"}}, command("echo first"), command("echo sec\u202eond"), command("echo third"),
		command("echo fourth"),
		fakellm.Turn{Content: "end: \x1b[2J{{last_result}}"}, fakellm.Turn{Content: "one more"})
	k.say("begin")
	for i, answer := range []string{"n", "tell me why", "y", "always"} {
		if !k.err.await(t.Context(), question, i+1) {
			t.Fatal(k.err)
		}
		k.say(answer)
	}
	if !k.out.await(t.Context(), "one more", 1) {
		t.Fatal(k.err)
	}
	if err := k.eof(); err != nil {
		t.Fatal(err)
	}
	if err := <-k.done; err != nil {
		t.Fatalf("%v; %s", err, k.err)
	}
	stderr := k.err.String()
	if n := strings.Count(stderr, question); n != 4 {
		t.Errorf("asked %d times, want 4; %s", n, stderr)
	}
	if strings.Count(stderr, "terminal failed") != 1 || strings.Count(stderr, "terminal done") != 3 || strings.Contains(stderr, "\u202e") {
		t.Errorf("stderr %q", stderr)
	}
	if got := k.out.String(); strings.Contains(got, "\x1b") || !strings.Contains(got, "fourth") {
		t.Errorf("stdout %q", got)
	}
}

// TestChatRecovers: a message that the server refuses is reported and stays; the next one
// gets its answer, and a script learns that something went wrong.
func TestChatRecovers(t *testing.T) {
	s, err := fakellm.New(fakellm.Options{Models: []string{"m"}, Default: []fakellm.Turn{{Content: "fine"}}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	first := true
	k := converseWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		refuse := first && strings.HasSuffix(r.URL.Path, "/chat/completions") && r.Method == http.MethodPost
		first = first && !refuse
		mu.Unlock()
		if refuse {
			http.Error(w, `{"error":{"message":"no, thank you"}}`, http.StatusBadRequest)
			return
		}
		s.ServeHTTP(w, r)
	}), false, settings.ChatFlags{Toolsets: []string{"todo"}})
	k.say("one")
	k.say("two")
	if err := k.eof(); err != nil {
		t.Fatal(err)
	}
	err = <-k.done
	var e *exit.Error
	if !errors.As(err, &e) || e.Code != 3 || !strings.Contains(k.err.String(), "no, thank you") {
		t.Fatalf("got %v, want exit code 3; %s", err, k.err)
	}
	if got := k.out.String(); got != "fine\n" {
		t.Errorf("stdout %q; stderr %s", got, k.err)
	}
}

// TestChatBadLine: input that is no text ends the conversation with exit code 2.
func TestChatBadLine(t *testing.T) {
	k := converse(t, false, settings.ChatFlags{Toolsets: []string{"todo"}}, fakellm.Turn{Content: "fine"})
	k.say("a\xff")
	var e *exit.Error
	if err := <-k.done; !errors.As(err, &e) || e.Code != 2 || !strings.Contains(err.Error(), "line 1: not UTF-8") {
		t.Fatalf("got %v", err)
	}
}

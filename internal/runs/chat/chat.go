// Package chat holds a conversation with a model that has tools, or answers one question.
package chat

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"hermes/backends"
	"hermes/internal/build"
	"hermes/internal/exit"
	"hermes/internal/settings"
	"hermes/rollout"
	"hermes/rollout/policy"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// Run holds the conversation, or answers the one question. The error, if any, has its
// exit code, or is the cause of ctx.
func Run(ctx context.Context, h build.Host, c settings.Chat) error {
	r := &conversation{flags: c.ChatFlags, all: c.Yes, host: h, log: h.Logger()}
	var err error
	r.parts, err = c.Parts()
	if err != nil {
		return exit.Usage(err)
	}
	defer r.closed.Log(r.log)
	for _, step := range []func(context.Context) error{r.check, r.open, r.openLoop} {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return exit.Usage(err)
		}
	}
	if h.Intercept != nil {
		h.Intercept(r.interrupt)
		defer h.Intercept(nil)
	}
	if c.Query != nil {
		return r.once(ctx, *c.Query)
	}
	return r.talk(ctx)
}

// check reads everything that needs no part at all.
func (r *conversation) check(context.Context) error {
	if q := r.flags.Query; q != nil && strings.TrimSpace(*q) == "" {
		return errors.New("--query: no question")
	}
	for name, n := range map[string]int{"--max-turns": r.flags.MaxTurns, "--max-tokens": r.parts.MaxTokens, "--result-chars": r.flags.ResultChars, "--turn-chars": r.flags.TurnChars} {
		if n < 0 {
			return fmt.Errorf("%s %d: want 0 or more", name, n)
		}
	}
	r.screen = &screen{out: r.host.Out, err: r.host.Err, stream: r.flags.Query == nil, clean: r.host.Terminal}
	r.lines = newLines(r.host.In)
	var err error
	r.flags.System, err = settings.SystemText(r.flags.System)
	return err
}

// open makes the parts. Toolsets that cannot be served are left out, with the reason.
func (r *conversation) open(ctx context.Context) (err error) {
	r.model, err = build.OpenModel(ctx, r.host, r.parts)
	if err != nil {
		return err
	}
	r.closed.Add(r.model.Close)
	r.boxes, err = build.OpenBoxes(ctx, r.host, r.parts)
	if err != nil {
		return err
	}
	r.closed.Add(r.boxes.Close)
	r.tools, err = build.ChooseTools(r.host, r.parts)
	if err != nil {
		return err
	}
	if err := r.tools.Fit(ctx, r.boxes.Backend, r.flags.Image); err != nil {
		return err
	}
	for _, d := range r.tools.All.Dropped {
		r.screen.say("left out: %s", d)
	}
	return nil
}

// openLoop makes the one loop of the conversation.
func (r *conversation) openLoop(context.Context) error {
	key, backend := trajectory.NewKey(fmt.Sprintf("chat %x", rand.Uint64()), 0, 0, 0), r.boxes.Backend
	box, closeBox := rollout.OneBox(backend, backends.Spec{Image: r.flags.Image, Labels: map[string]string{"rollout": key.String()}}, 5*time.Minute)
	scope := &tool.Scope{Key: key, Box: box, Log: r.log, Now: time.Now, Rand: rand.New(rand.NewPCG(rand.Uint64(), 0)),
		Isolated: backend.Traits().Isolated, Approve: r.approve}
	r.closed.Add(func() error { return grace(closeBox) })
	set, err := tool.NewSet(r.tools.All.Defs, scope, tool.SetOptions{ResultLimit: r.flags.ResultChars, TurnLimit: r.flags.TurnChars, After: r.after(key)})
	if err != nil {
		return err
	}
	r.closed.Add(func() error { return grace(set.Close) })
	o := r.parts.Options()
	o.Key = key
	o.Attempt = 1
	o.Notes = func(text string) { r.screen.say("%s", text) }
	s, err := r.model.Policy.Open(set.Specs(), o)
	if err != nil {
		return err
	}
	r.closed.Add(s.Close)
	r.trace = trajectory.New(r.model.Policy.Info().Mode, set.Specs())
	r.loop = &rollout.HermesAgentLoop{Sampler: s, Tools: set, Limits: rollout.Limits{Turns: r.flags.MaxTurns}, Faults: rollout.Resample,
		Observer: r.screen, Key: key}
	if r.flags.System != "" {
		r.loop.Left = []trajectory.Message{trajectory.Text(trajectory.System, r.flags.System)}
	}
	return nil
}

// grace closes something with its own deadline, also after cancellation.
func grace(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return f(ctx)
}

// once answers the one question: the answer alone goes to stdout.
func (r *conversation) once(ctx context.Context, question string) error {
	stop, err := r.send(ctx, question)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return r.failure(err)
	}
	if p := r.trace.Prefix(); p.Len() > 0 {
		if _, n := p.Node(p.Len() - 1); n.Sampled() && len(n.Delta.Message.Calls) == 0 {
			r.screen.answer(n.Delta.Message.Content())
		}
	}
	if err := r.screen.broken(); err != nil {
		return exit.Ours(err)
	}
	if stop.Reason != trajectory.StopAnswer {
		return exit.Stopped(errors.New(reason(stop)))
	}
	return nil
}

// failure gives an error of model server or box its exit code.
func (r *conversation) failure(err error) error {
	var pe *policy.Error
	if errors.As(err, &pe) && !r.had && (pe.Kind == policy.Auth || pe.Kind == policy.NoModel || pe.Kind == policy.NoTools || pe.Kind == policy.Leaked) {
		return exit.Usage(err)
	}
	return exit.Failures(err)
}

func reason(s trajectory.Stop) string {
	text := "stopped without an answer: " + string(s.Reason)
	if s.Detail != "" {
		text += " (" + s.Detail + ")"
	}
	return text
}

// talk answers line by line until the input or the user ends it.
func (r *conversation) talk(ctx context.Context) error {
	for {
		if r.host.Terminal {
			r.screen.prompt("> ")
		}
		line, ok, err := r.lines.next(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return exit.Usage(fmt.Errorf("read stdin: %w", err))
		}
		text := strings.TrimSpace(line)
		if !ok || text == "/exit" || text == "/quit" {
			return r.over()
		}
		if text == "" {
			continue
		}
		if err := r.reply(ctx, line); err != nil {
			return err
		}
	}
}

// over is the end of a conversation. A person has seen what failed; a script gets an exit code.
func (r *conversation) over() error {
	if r.failed && !r.host.Terminal {
		return exit.Failures(errors.New("some messages got no answer"))
	}
	return nil
}

// reply answers one message. An error ends the conversation.
func (r *conversation) reply(ctx context.Context, line string) error {
	stop, err := r.send(ctx, line)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, backends.ErrLost), errors.Is(err, backends.ErrImage), errors.Is(err, backends.ErrUnavailable):
		return r.failure(err) // the box is what the conversation lives in
	case err != nil:
		if failed := r.failure(err); exit.IsUsage(failed) {
			return failed
		}
		r.failed = true
		r.screen.say("%v", err)
	case stop.Reason == trajectory.StopFaultyBox:
		return exit.Failures(errors.New(reason(stop)))
	case stop.Reason == trajectory.StopInterrupted:
		r.screen.say("interrupted; the conversation goes on")
	case stop.Reason != trajectory.StopAnswer:
		r.failed = true
		r.screen.say("%s", reason(stop))
	}
	if err := r.screen.broken(); err != nil {
		return exit.Ours(err)
	}
	return nil
}

package chat

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"hermes/internal/build"
	"hermes/internal/printable"
	"hermes/internal/settings"
	"hermes/rollout"
	"hermes/rollout/event"
	"hermes/rollout/tool"
	"hermes/trajectory"
)

// conversation is one conversation: one trace, one box, one set of tools, one loop that runs
// once for each message of the user.
type conversation struct {
	flags  settings.ChatFlags
	parts  settings.Parts
	host   build.Host
	log    *slog.Logger
	model  *build.Model
	boxes  *build.Boxes
	tools  *build.Tools
	closed build.Closers

	screen *screen
	lines  *lines
	trace  *trajectory.Trace
	loop   *rollout.HermesAgentLoop
	failed bool // some message got no answer
	had    bool // some answer has come

	mu      sync.Mutex
	stop    func()                 // ends the turn that runs; nil: none, or it has been called
	ended   map[string]tool.Result // of the calls of the turn that runs
	ask     sync.Mutex             // one question at a time
	all     bool                   // everything is allowed
	allowed map[string]bool        // kinds of what is asked for that are
}

// errTurn is the cause of a turn that the user ended.
var errTurn = errors.New("interrupted by the user")

// approve asks before something that is not kept from this machine.
func (r *conversation) approve(ctx context.Context, a tool.Ask) (bool, error) {
	r.ask.Lock()
	defer r.ask.Unlock()
	if r.all || r.allowed[a.Kind] {
		return true, nil
	}
	if !r.host.Terminal {
		r.screen.say("refused: without a terminal there is no one to ask (--yes allows it): %s", short(a.What, 200))
		return false, nil
	}
	r.screen.say("%s\nThis is not kept from this machine.", strings.TrimSuffix(a.What, "\n"))
	for {
		r.screen.prompt("Allow it? [y]es, [n]o, [a]lways: all " + printable.Line(a.Kind) + " in this conversation: ")
		text, ok, err := r.lines.read(ctx)
		if err != nil {
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(text)) {
		case "y", "yes":
			return true, nil
		case "a", "always":
			if r.allowed == nil {
				r.allowed = map[string]bool{}
			}
			r.allowed[a.Kind] = true
			return true, nil
		case "n", "no":
			return false, nil
		}
		if !ok {
			return false, nil
		}
		if strings.TrimSpace(text) != "" { // written before the question was seen
			r.lines.stash = append(r.lines.stash, text)
			r.screen.say("that is kept as your next message")
		}
	}
}

// after shows and keeps what became of a call, for a turn that is ended before all calls
// are done.
func (r *conversation) after(key trajectory.Key) func(trajectory.Call, tool.Result, time.Duration) {
	return func(c trajectory.Call, res tool.Result, took time.Duration) {
		r.mu.Lock()
		if r.ended != nil && c.ID != "" {
			r.ended[c.ID] = res
		}
		r.mu.Unlock()
		r.screen.Observe(event.CallEnded{Key: key, Call: c, Result: res.Text, Failed: res.Failed, Took: took})
	}
}

// interrupt ends the turn that runs, once.
func (r *conversation) interrupt() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop == nil || r.flags.Query != nil {
		return false
	}
	r.stop()
	r.stop = nil
	return true
}

// send runs the loop for one message of the user. What no model has answered stays for
// the next message.
func (r *conversation) send(ctx context.Context, text string) (trajectory.Stop, error) {
	turn, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	r.stop, r.ended = func() { cancel(errTurn) }, map[string]tool.Result{}
	r.mu.Unlock()
	pending := append(r.loop.Left, trajectory.Text(trajectory.User, text))
	stop, err := r.loop.Run(turn, r.trace, pending)
	r.mu.Lock()
	ended := r.ended
	r.stop, r.ended = nil, nil
	r.mu.Unlock()
	cancel(nil)
	r.screen.endLine()
	r.loop.ToolErrors = nil
	r.loop.Left = append(unanswered(r.trace.Prefix(), r.loop.Left, ended, r.flags.ResultChars), r.loop.Left...)
	r.had = r.had || err == nil && stop.Reason == trajectory.StopAnswer
	return stop, err
}

// unanswered makes one answer for each call of the last message that left does not
// answer: a model is never asked again with a call that has no answer.
func unanswered(p trajectory.Prefix, left []trajectory.Message, ended map[string]tool.Result, limit int) []trajectory.Message {
	if p.Len() == 0 || len(left) > 0 && left[0].Role == trajectory.Tool {
		return nil
	}
	_, node := p.Node(p.Len() - 1)
	var out []trajectory.Message
	for _, c := range node.Delta.Message.Calls {
		res, ok := ended[c.ID]
		if !ok {
			res = tool.Errorf("interrupted: this call was not run, or not to its end")
		}
		if text := []rune(res.Text); limit > 0 && len(text) > limit {
			res.Text = string(text[:limit]) + "\n[the rest was cut: interrupted]"
		}
		m := trajectory.Text(trajectory.Tool, res.Text)
		m.Parts = append(m.Parts, res.Parts...)
		m.CallID = c.ID
		m.Name = c.Name
		m.Failed = res.Failed
		out = append(out, m)
	}
	return out
}

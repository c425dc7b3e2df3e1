package app

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"hermes/rollout/policy/wire"
)

// PartsFlags are the flags that model, boxes and tools are made from, by the groups of the help.
type PartsFlags struct {
	ModelFlags    `group:"Model and server:"`
	SamplingFlags `group:"Sampling:"`
	ProviderFlags `group:"OpenRouter:"`
	ToolFlags     `group:"Tools and boxes:"`
	BudgetFlags   `group:"Budget and price:"`
	ExactFlags    `group:"Exact tokens:"`
}

// asked is what model, boxes and tools are made from.
type asked struct {
	PartsFlags
	runDir   string // of a run; empty: none
	offline  bool   // the hub is not asked
	requests int    // to the model at once
	watch    bool   // follow the length of the server's queue
	seed     int64
	usual    []string // toolsets where none are asked for; nil: usual()
}

// parts is what every way of running the loop needs. Parts that must be closed are
// closed in the reverse order of their making.
type parts struct {
	asked
	host  Host
	log   *slog.Logger
	close []func() error
	raise []func(int)          // called with the concurrency when it is changed while the run goes on
	loads []func() []wire.Load // what the model servers carry

	model *models
	boxes *boxes
	tools *toolbox
}

func newParts(h Host, a asked) parts {
	return parts{asked: a, host: h, log: slog.New(h.Handler(h.Err))}
}

func (b *parts) later(f func() error) { b.close = append(b.close, f) }

func (b *parts) closeAll() {
	for i := len(b.close) - 1; i >= 0; i-- {
		if err := b.close[i](); err != nil {
			b.log.Warn("clean-up", "err", err)
		}
	}
	b.close = nil
}

// systemText is a system prompt, read from a file where it is @FILE.
func systemText(text string) (string, error) {
	name, ok := strings.CutPrefix(text, "@")
	if !ok {
		return text, nil
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("system prompt: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

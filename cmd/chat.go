package cmd

import (
	"hermes/internal/runs/chat"
	"hermes/internal/settings"
)

// chatCmd is `hermes chat`.
type chatCmd struct{ settings.Chat }

// Run answers one question, or holds a conversation on stdin and stdout, one message a
// line. The exit code of a question is 0 with an answer, 3 when model server or box
// failed, 4 when a limit ended it without one.
func (c *chatCmd) Run(h *host) error {
	ctx, stop := h.untilSignal()
	defer stop()
	return exitOf(chat.Run(ctx, h.build(), c.Chat))
}

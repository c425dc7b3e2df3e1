package cmd

import "hermes/internal/app"

// chatCmd is `hermes chat`.
type chatCmd struct {
	app.ModelFlags    `group:"Model and server:"`
	app.SamplingFlags `group:"Sampling:"`
	app.ProviderFlags `group:"OpenRouter:"`
	app.ChatFlags
}

// Run answers one question, or holds a conversation on stdin and stdout, one message a
// line. The exit code of a question is 0 with an answer, 3 when model server or box
// failed, 4 when a limit ended it without one.
func (c *chatCmd) Run(h *host) error {
	ctx, stop := h.untilSignal()
	defer stop()
	return exitOf(app.Chat{ModelFlags: c.ModelFlags, SamplingFlags: c.SamplingFlags, ProviderFlags: c.ProviderFlags, ChatFlags: c.ChatFlags}.Run(ctx, h.app()))
}

package settings

// ChatFlags say how a conversation is held.
type ChatFlags struct {
	Query       *string  `short:"q" help:"Answer this one question on stdout and exit." placeholder:"TEXT"`
	System      string   `help:"System prompt, or @FILE." placeholder:"TEXT"`
	Toolsets    []string `help:"Toolsets (default: terminal,file,todo,code_execution); what cannot be served is left out, with its reason."`
	Backend     string   `default:"auto" help:"Where the box lives: auto, or one of 'hermes sandbox list'." placeholder:"NAME"`
	Image       string   `help:"Image of the box." placeholder:"IMAGE"`
	ResultChars int      `name:"result-chars" default:"100000" help:"Longest tool result; the rest is kept in the box."`
	TurnChars   int      `name:"turn-chars" default:"200000" help:"Longest results of one turn together."`
	MaxTurns    int      `name:"max-turns" default:"90" help:"Model answers to one message of the user."`
	Yes         bool     `help:"Allow every command outside of a sandbox without asking."`
}

// Chat is what `hermes chat` can be given.
type Chat struct {
	ModelFlags    `group:"Model and server:"`
	SamplingFlags `group:"Sampling:"`
	ProviderFlags `group:"OpenRouter:"`
	ChatFlags
}

// Parts is what the conversation's model, box and tools are made from.
func (c Chat) Parts() (Parts, error) {
	p, err := NewParts(PartsFlags{ModelFlags: c.ModelFlags, SamplingFlags: c.SamplingFlags, ProviderFlags: c.ProviderFlags,
		ToolFlags: ToolFlags{Toolsets: c.Toolsets, MissingTools: "drop", Backend: c.Backend, Image: c.Image}}, false)
	p.Requests = 4
	return p, err
}

package settings

import (
	"time"
)

// ModelCheck is what `hermes model check` can be given. Its settings belong to one check
// and are no keys of run files; the lines that it prints are.
type ModelCheck struct {
	BaseURL    string        `name:"base-url" nokey:"" placeholder:"URL" help:"OpenAI-compatible server, ends in /v1. Without it the parts alone are checked."`
	Model      string        `nokey:"" placeholder:"NAME" help:"Model name (default: the only one that the server offers)."`
	APIKeyEnv  string        `name:"api-key-env" nokey:"" default:"OPENAI_API_KEY" placeholder:"NAME" help:"Environment variable that holds the key."`
	ModelFiles string        `name:"model-files" nokey:"" placeholder:"SPEC" help:"hf:owner/name[@revision] or a folder: tokenizer, template, generation configuration; no weights."`
	Tokenizer  string        `nokey:"" placeholder:"FILE|DIR" help:"Tokenizer file, or 'server' for the server's own (default: that of the model files, else the server's)."`
	Template   string        `nokey:"" placeholder:"FILE" help:"Chat template, or the name of one among the model files."`
	Kwargs     string        `name:"template-kwargs" nokey:"" placeholder:"JSON" help:"Further variables of the template."`
	Family     string        `nokey:"" placeholder:"NAME" help:"Parser family (default: what the template tells)."`
	Timeout    time.Duration `nokey:"" default:"2m" help:"Longest wait for one answer."`
	Offline    bool          `nokey:"" help:"Use only what the hub's cache holds."`
	JSON       bool          `nokey:"" help:"Print the findings as JSON."`
}

package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"hermes/parsers"
	"hermes/rollout/policy/chat"
	"hermes/rollout/rundir"
)

// Tokenizers and the template that need no file: for the scripted model, tests and
// demonstrations.
const (
	BuiltinTokenizer = "builtin:words" // a byte of prose is a token
	BenchTokenizer   = "builtin:prose" // the same with pieces of the benchmark's text: about three bytes a token, as models have
	BuiltinTemplate  = "builtin:chatml"
)

// ExactFlags roll out with the exact tokens.
type ExactFlags struct {
	Exact          bool   `help:"Record the exact tokens and log-probs; send tokens, never text that was tokenized again."`
	Wire           string `enum:"chat,sglang,vllm,vllm-completions,llamacpp" default:"chat" help:"What the server is asked: chat, or with --exact sglang, vllm, vllm-completions, llamacpp."`
	ModelFiles     string `name:"model-files" help:"The model's tokenizer and chat template: a folder or hf:owner/name[@revision]." placeholder:"DIR|hf:NAME"`
	Tokenizer      string `help:"Tokenizer file or folder (default: of --model-files)." placeholder:"FILE|DIR"`
	Template       string `help:"Chat template: a Jinja file, or a name among the model files' (default: the model's own)." placeholder:"FILE|NAME"`
	TemplateKwargs string `name:"template-kwargs" help:"JSON object of template variables, such as {\"enable_thinking\": false}." placeholder:"JSON"`
	Family         string `help:"How the model writes its calls ('hermes model parse --list', or a .json file with a response template; default: as the template says; in text mode, where calls that the server left in the text are looked for, that of any family)." placeholder:"NAME"`
	Dialect        string `enum:"ours,vllm,sglang,upstream" default:"ours" help:"Whose reading of calls counts: ours, vllm, sglang, upstream."`
	History        string `enum:"append,template" default:"append" help:"Earlier thinking that the template would drop: append (it stays), or template (the trace forks)."`
	VersionFrom    string `name:"version-from" enum:",server,none" default:"" help:"Who tells the version of the weights: server, none (default: the server, where it does)."`
	MaxStaleness   int    `name:"max-staleness" help:"Versions of the weights that the tokens of one rollout may lie apart (default: any)."`
	CacheSalt      string `name:"cache-salt" help:"Keep prefix caches of the server apart by this text, such as the version of the weights." placeholder:"TEXT"`
	Capture        string `help:"Also keep routed_experts, topk=K (comma-separated)." placeholder:"LIST"`
	LogProbs       string `name:"logprobs" enum:",raw,processed" default:"" help:"Of which distribution the server's log-probs are: raw or processed (default: as the server's kind does by default)."`
}

// Check refuses flags that make no sense without --exact or together.
func (f ExactFlags) Check() error {
	if _, err := f.Unread(); err != nil {
		return err
	}
	if !f.Exact {
		for _, x := range []struct{ name, value, none string }{{"--wire", f.Wire, "chat"}, {"--tokenizer", f.Tokenizer, ""}, {"--template", f.Template, ""},
			{"--template-kwargs", f.TemplateKwargs, ""}, {"--model-files", f.ModelFiles, ""}, {"--capture", f.Capture, ""},
			{"--version-from", f.VersionFrom, ""}, {"--cache-salt", f.CacheSalt, ""}, {"--logprobs", f.LogProbs, ""}} {
			if x.value != x.none && x.value != "" {
				return fmt.Errorf("%s %s is for rollouts with exact tokens: add --exact", x.name, x.value)
			}
		}
		if f.MaxStaleness != 0 {
			return errors.New("--max-staleness is for rollouts with exact tokens: add --exact")
		}
		return nil
	}
	switch {
	case f.MaxStaleness < 0:
		return fmt.Errorf("--max-staleness %d: want 0 or more", f.MaxStaleness)
	case f.Wire == "chat" && (f.Capture != "" || f.MaxStaleness > 0 || f.VersionFrom == "server"):
		return errors.New("--wire chat tells neither versions of the weights nor what --capture asks for: choose sglang, vllm or llamacpp")
	}
	return nil
}

// Unread finds the calls that a server leaves in an answer's text: those of --family, or of
// any family.
func (f ExactFlags) Unread() (chat.Unread, error) {
	if f.Family == "" {
		return chat.Unread{}, nil
	}
	family, err := Family(f.Family)
	if err != nil {
		return chat.Unread{}, fmt.Errorf("--family: %w", err)
	}
	return chat.Unread{Family: family}, nil
}

// Builtins gives the embedded model the parts that need no file.
func (f *ExactFlags) Builtins() {
	if f.Tokenizer == "" && f.ModelFiles == "" {
		f.Tokenizer = BuiltinTokenizer
		f.Template = cmp.Or(f.Template, BuiltinTemplate)
	}
}

// Family is the built-in family of that name, or the one that a file describes: a
// response template, or the tokenizer_config.json that holds it.
func Family(name string) (parsers.Family, error) {
	if !strings.HasSuffix(name, ".json") {
		return parsers.Standard().Get(name)
	}
	source, err := os.ReadFile(name)
	if err != nil {
		return parsers.Family{}, err
	}
	return parsers.FromResponseTemplate(source)
}

// Named is the distribution that every exact request names, whether its user did or not:
// what the log-probs belong to.
func (s *SamplingFlags) Named() rundir.Fields {
	number := func(v *float64, none string) string {
		if v == nil {
			return none
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	k := "all"
	if s.TopK != nil && *s.TopK > 0 {
		k = strconv.Itoa(*s.TopK)
	}
	return rundir.Fields{{Name: "temperature", Value: number(s.Temperature, "1")}, {Name: "top-p", Value: number(s.TopP, "1")}, {Name: "top-k", Value: k}, {Name: "min-p", Value: number(s.MinP, "0")}}
}

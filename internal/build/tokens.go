package build

import (
	"errors"
	"fmt"

	"hermes/internal/settings"
	"hermes/internal/viewer"
	"hermes/parsers/tokenizer"
	"hermes/rollout/rundir"
	"hermes/trajectory"
)

// TokenTexts opens the tokenizer of an exact run and tells the text of each token. spec
// names it; empty: as the configuration of the run does. One that is not the run's own is
// an error, since its texts would be wrong.
func TokenTexts(m rundir.Manifest, spec string) (viewer.Decoder, error) {
	config := map[string]string{}
	if err := m.Config.Decode(&config); err != nil {
		return nil, fmt.Errorf("configuration of the run: %w", err)
	}
	switch {
	case spec != "":
	case config["tokenizer"] != "":
		spec = config["tokenizer"]
	case config["model-files"] != "":
		spec = config["model-files"]
	case config["model"] == settings.Scripted:
		spec = settings.BuiltinTokenizer
	default:
		return nil, errors.New("the run's configuration names no tokenizer (--tokenizer)")
	}
	tok, err := LoadTokenizer(spec)
	if err != nil {
		return nil, err
	}
	if want, _ := m.Identity.Get("tokenizer"); want != "" && want != TokenizerDigest(tok) { // over chat the server has it, and no digest is known
		return nil, fmt.Errorf("tokenizer %s is another one than the run's", spec)
	}
	return func(ids []trajectory.Token) ([]string, error) {
		s := tok.Stream(tokenizer.StreamOptions{})
		out := make([]string, len(ids))
		for i, id := range ids {
			var err error
			if out[i], err = s.Push(id); err != nil {
				return nil, err
			}
		}
		if len(out) > 0 {
			out[len(out)-1] += s.Finish()
		}
		return out, nil
	}, nil
}

package app

import (
	"hermes/internal/viewer"
	"hermes/parsers/tokenizer"
	"hermes/trajectory"
)

// TokenTexts opens the tokenizer that a run's configuration names and tells the text of
// each token, as [viewer.Decoder] wants it.
func TokenTexts(spec string) (viewer.Decoder, error) {
	tok, err := LoadTokenizer(spec)
	if err != nil {
		return nil, err
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

package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hermes/trajectory"
)

// ErrUnstable says that a decoder changed text that it had given out already.
var ErrUnstable = errors.New("a later token changed text that was given out")

// The window grows to maxWindow tokens and is cut back to keepWindow, so that a token costs
// the decoding of few others, and decoders that look at a token's left neighbours see them.
const (
	keepWindow = 8
	maxWindow  = 32
)

// NewStream makes an incremental decoder of a function that decodes whole sequences, for
// tokenizers whose decoder is elsewhere. decode is called with the last tokens once or
// twice for each token. The outputs joined equal the whole decoding, except where a
// sequence ends amid a character and decode takes characters before it back for that.
func NewStream(decode func([]trajectory.Token) (string, error)) *Stream {
	return &Stream{far: &window{decode: decode}}
}

// window is the end of a sequence that is decoded again with each token.
type window struct {
	decode func([]trajectory.Token) (string, error)
	ids    []trajectory.Token
	text   string // of ids
	given  string // what was given out of it
}

// push returns what the token decided: nothing while the text ends in what may be half a
// character. A byte-fallback decoder spoils the whole run of bytes until it is complete.
func (w *window) push(id trajectory.Token) (string, error) {
	ids := append(slices.Clip(w.ids), id)
	text, err := w.decode(ids)
	if err != nil {
		return "", err
	}
	if strings.HasSuffix(text, "\uFFFD") {
		w.ids, w.text = ids, text
		return "", nil
	}
	out, ok := strings.CutPrefix(text, w.given)
	if !ok {
		return "", fmt.Errorf("token %d: %q became %q: %w", id, w.given, text, ErrUnstable)
	}
	w.ids = ids
	w.text = text
	w.given = text
	if len(ids) >= maxWindow {
		return out, w.cut()
	}
	return out, nil
}

// cut forgets old tokens where the rest decodes to the same text without them.
func (w *window) cut() error {
	rest := slices.Clone(w.ids[len(w.ids)-keepWindow:])
	text, err := w.decode(rest)
	if err == nil && text != "" && strings.HasSuffix(w.text, text) {
		w.ids = rest
		w.text = text
		w.given = text
	}
	return err
}

// finish returns what was held back.
func (w *window) finish() string {
	if rest, ok := strings.CutPrefix(w.text, w.given); ok {
		return rest
	}
	return w.text[len(strings.TrimRight(w.text, "\uFFFD")):]
}

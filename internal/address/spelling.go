package address

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// least is the length in bytes below which a secret is not looked for in the spellings that
// change each byte: they would be found by chance.
const least = 8

// Spellings lists a secret as it is, as JSON and URLs write it, in hex, and in base64, where
// of what is beside other bytes only the part is meant that these do not change. The
// longest come first.
func Spellings(secret string) []string {
	quoted, _ := json.Marshal(secret) // a text can be written
	all := []string{secret, string(quoted[1 : len(quoted)-1]), url.QueryEscape(secret), url.PathEscape(secret)}
	if len(secret) >= least {
		in := hex.EncodeToString([]byte(secret))
		all = append(all, in, strings.ToUpper(in))
		for shift := range 3 {
			padded := append(make([]byte, shift), secret...)
			from, to := (shift*8+5)/6, len(padded)*8/6
			for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				all = append(all, e.EncodeToString(padded)[from:to])
			}
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// Hider hides secrets in all their spellings. nil hides nothing. It is safe for concurrent use.
type Hider struct{ rep *strings.Replacer }

// NewHider hides these secrets; those of less than 6 bytes are left, which would hide the text.
func NewHider(secrets ...string) *Hider {
	var pairs []string
	for _, s := range secrets {
		if len(s) >= 6 {
			for _, written := range Spellings(s) {
				pairs = append(pairs, written, Hidden)
			}
		}
	}
	if pairs == nil {
		return nil
	}
	return &Hider{strings.NewReplacer(pairs...)}
}

// Text returns text without the secrets.
func (h *Hider) Text(text string) string {
	if h == nil {
		return text
	}
	return h.rep.Replace(text)
}

// Error returns err, with its text without the secrets.
func (h *Hider) Error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if clean := h.Text(text); clean != text {
		return &hiddenError{clean, err}
	}
	return err
}

// hiddenError is an error whose text had secrets. Its causes are known by their kind.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }

func (e *hiddenError) Unwrap() error { return e.err }

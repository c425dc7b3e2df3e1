package configs

import (
	"slices"
	"strings"
	"unicode"

	"hermes/internal/late"
)

// SecretName reports whether a key or a variable of this name holds a secret:
// OPENAI_API_KEY, token, db-password. Names of variables (api-key-env) and of
// vocabulary entries (eos_token) do not.
func SecretName(name string) bool {
	w := words(name)
	if len(w) == 0 {
		return false
	}
	last, before := w[len(w)-1], ""
	if len(w) > 1 {
		before = w[len(w)-2]
	}
	switch last {
	case "password", "passwd", "passphrase", "secret", "secrets", "credential", "credentials", "apikey", "authorization", "cookie":
		return true
	case "token":
		return !slices.Contains([]string{"eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "image", "special", "per", "end", "start"}, before)
	case "key", "keys":
		return slices.Contains([]string{"api", "access", "private", "secret", "auth", "signing", "encryption", "license", "bot"}, before)
	}
	return false
}

// words splits at everything but letters and digits, and where camelCase goes up.
func words(s string) []string {
	var b strings.Builder
	lower := false
	for _, r := range s {
		if unicode.IsUpper(r) && lower {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r)
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// secretValue matches the shapes of the keys that providers give out.
var secretValue = late.Regexp(`\b(?:sk-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|xox[abprs]-[A-Za-z0-9-]{20,}|AKIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,})`)

// SecretValue reports whether text contains what looks like a key of a known provider.
func SecretValue(text string) bool { return secretValue.MatchString(text) }

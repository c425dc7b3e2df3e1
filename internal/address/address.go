// Package address looks for secrets in the URLs of a text: an address that is given to hermes
// is written to run.yaml, logs and the list of processes, so it must hold none.
package address

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"hermes/internal/late"
)

// Hidden is written in the place of a secret.
const Hidden = "[redacted]"

// scheme begins each URL of a text.
var scheme = late.Regexp(`[A-Za-z][A-Za-z0-9+.-]*://`)

// user is what [Secret] says of a user, with or without a password.
const user = "a user or password"

// Secret says what the URLs in a text hold that may be a secret: "a user or password",
// "a query", or "" for nothing. It reads what no parser of URLs takes, too: a password with a
// bare % or / is one all the same. Text with spaces within is no address.
func Secret(text string) string {
	text = strings.TrimSpace(text) // a reader of addresses does so too
	if strings.ContainsAny(text, " \t\r\n") {
		return ""
	}
	starts := scheme.FindAllStringIndex(text, -1)
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		if what := heldIn(text[at[1]:end]); what != "" {
			return what
		}
	}
	return ""
}

// heldIn looks at one URL behind its scheme.
func heldIn(rest string) string {
	host := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host = rest[:i]
	}
	_, port, cut := strings.Cut(host, ":")
	odd := cut && !strings.HasPrefix(host, "[") && strings.Trim(port, "0123456789") != "" // no port: a password that goes on
	switch {
	case strings.Contains(host, "@"), strings.Contains(host, "%40"), odd && strings.Contains(rest, "@"):
		return user
	case strings.Contains(rest, "?"):
		return "a query"
	}
	return ""
}

// remedies are where a secret goes instead, by the option of its address; the others have
// the environment.
func remedies() map[string]string {
	key := "write the address alone, and name the variable that holds the key with --api-key-env"
	return map[string]string{
		"base-url": key, "fallback": key, "model-role": key,
		"api": "write the address alone, and name the variable that holds the token with --api-token-env",
	}
}

// Check refuses an address that holds a user, a password or a query: it would be written
// to run.yaml, logs and the list of processes. name is what it was given as, such as
// --base-url or HF_ENDPOINT; the message does not repeat the secret.
func Check(name, text string) error {
	what := Secret(text)
	if what == "" {
		return nil
	}
	return fmt.Errorf("%s %s holds %s, which does not belong into an address: %s", name, Hide(strings.TrimSpace(text)), what, remedy(name))
}

func remedy(name string) string {
	return cmp.Or(remedies()[strings.TrimPrefix(name, "--")],
		"write the address alone; keys and passwords come from separate variables, in the environment or $HERMES_HOME/.env")
}

// begin is how an address begins, or what is meant as one: with too few slashes, with
// backslashes, with a scheme alone. A user without a scheme is taken for a scheme, but its
// password and the @ are left.
var begin = late.Regexp(`^\s*(?:[A-Za-z][A-Za-z0-9+.-]*:)?[/\\]*`)

// CheckURL is [Check] for a text that can be nothing but one address: it finds what may be a
// secret also where the scheme is missing or written badly, or where a password holds a space.
func CheckURL(name, text string) error {
	if err := Check(name, text); err != nil {
		return err
	}
	if what := heldIn(begin.ReplaceAllString(text, "")); what != "" {
		return fmt.Errorf("%s holds %s, which does not belong into an address: %s", name, what, remedy(name))
	}
	return nil
}

var (
	userInURL  = late.Regexp(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s"'<>]*(?:@|%40)`)
	tokenInURL = late.Regexp(`([A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>/?#]*/t/)[^\s"'<>/?#]+`)
	queryInURL = late.Regexp(`([A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>?#]*\?)[^\s"'<>]+`)
	keyInURL   = late.Regexp(`(?i)([?&][a-z0-9_.-]*(?:key|token|secret|password|passwd|pwd|sig|signature|auth|credential)=)[^\s"'<>&#]+`)
)

// Hide returns text without what [Secret] finds in its URLs.
func Hide(text string) string {
	return queryInURL.ReplaceAllString(HideKeys(text), "${1}"+Hidden)
}

// HideKeys hides users, passwords, tokens in a path (/t/TOKEN) and the values of queries that
// are named like secrets. Other queries are of use in a log.
func HideKeys(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	text = userInURL.ReplaceAllStringFunc(text, func(found string) string {
		if Secret(found) != user {
			return found // the @ is one of a path
		}
		return scheme.FindString(found) + Hidden + "@"
	})
	text = tokenInURL.ReplaceAllString(text, "${1}"+Hidden)
	return keyInURL.ReplaceAllString(text, "${1}"+Hidden)
}

// Passwords lists the users and passwords of the URLs in the value of a variable, such as
// HTTPS_PROXY.
func Passwords(value string) []string {
	var out []string
	for _, m := range userInURL.FindAllStringSubmatch(value, -1) {
		if Secret(m[0]) != user {
			continue // the @ is one of a path
		}
		info := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(m[0], m[1]), "@"), "%40")
		_, word, ok := strings.Cut(info, ":")
		if !ok {
			word = info
		}
		plain, err := url.PathUnescape(word)
		if err == nil && plain != word {
			out = append(out, plain)
		}
		out = append(out, word)
	}
	return out
}

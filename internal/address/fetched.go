package address

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
)

// CheckFetched is [Check] for a URL of a file that others fetch, whose query says how
// (?checksum=sha256:…, ?archive=tar.gz): it refuses a user, a password, and in the query only
// what may be a secret by its name, such as token, sig or X-Amz-Signature.
func CheckFetched(name, text string) error {
	if what := secretFetched(text, 3); what != "" {
		if i := strings.IndexAny(text, "?#"); i >= 0 && !strings.Contains(text[i:], "@") {
			text = text[:i+1] + Hidden
		}
		return fmt.Errorf("%s %s holds %s, which does not belong into an address: write one that needs no secret", name, Hide(text), what)
	}
	return nil
}

// secretFetched says what a URL holds that may be a secret; "" for nothing. A query may hold
// another URL, and that one its own, as often as deep says.
func secretFetched(text string, deep int) string {
	base, query := text, ""
	if i := strings.IndexAny(text, "?#"); i >= 0 {
		base, query = text[:i], text[i+1:]
	}
	if what := Secret(text); what != "" && what != "a query" {
		return what
	}
	if what := Secret(base); what != "" || query != "" && strings.ContainsAny(base, " \t\r\n") {
		what = cmp.Or(what, "a space before its query")
		return what
	}
	for _, field := range strings.FieldsFunc(query, func(r rune) bool { return strings.ContainsRune("?&#;", r) }) {
		name, value, _ := strings.Cut(field, "=")
		key, err := url.QueryUnescape(name)
		plain, err2 := url.QueryUnescape(value)
		switch {
		case err != nil || err2 != nil:
			return "a query that cannot be read"
		case secretField(key):
			return fmt.Sprintf("what may be a secret in its query (%.40q)", key)
		case deep == 0 && strings.Contains(plain, "://"):
			return "addresses within addresses"
		case strings.Contains(plain, "://"):
			if what := secretFetched(plain, deep-1); what != "" {
				return what
			}
		}
	}
	return ""
}

// secretField reports whether the field of a query is named like a secret: those of signed
// addresses of S3 and Google are all part of one.
func secretField(name string) bool {
	name = strings.ToLower(name)
	for _, prefix := range []string{"x-amz-", "x-goog-", "authoriz"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for _, word := range []string{"key", "token", "secret", "passw", "passphrase", "pwd", "signature", "credential", "apikey", "bearer", "cookie", "session"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return strings.HasSuffix(name, "sig") || strings.HasSuffix(name, "auth") || name == "pass" || name == "user" || name == "username" || name == "jwt" || name == "code"
}

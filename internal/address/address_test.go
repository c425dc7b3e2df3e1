package address_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"hermes/internal/address"
)

// canary is the secret of each address; no message may repeat it.
const canary = "s3cr3tC4n4ry"

// TestSecret: what may be a secret in an address is found, also where no parser of
// URLs reads it, and nothing else is.
func TestSecret(t *testing.T) {
	const user, query = "a user or password", "a query"
	for text, want := range map[string]string{
		"":                            "",
		"http://127.0.0.1:8000/v1":    "",
		"https://h.example":           "",
		"http://[::1]:8000/v1":        "",
		"hf:owner/name@main":          "",
		"m@http://h:1/v1":             "", // a model at a server
		"user:word":                   "",
		"what is http://a:b@c about?": "", // text
		"https://h/a@b":               "",
		"https://h/#part":             "",

		"https://h/a%40b":             "",
		"unix:///run/a@b.sock":        "",
		"http://[fe80::1%25eth0]:80/": "",

		"http://u:" + canary + "@h/v1":               user,
		"\thttp://u:" + canary + "@h/v1 \n":          user,
		"http://u:" + canary + "%40h/v1":             user,
		"http://u%3A" + canary + "%40h/v1":           user,
		"http://u:" + canary + "@[::1]:80/":          user,
		"http://" + canary + "@h":                    user,
		"http://u:p%" + canary + "@h":                user,
		"http://u:p/" + canary + "@h/v1":             user,
		"http://u:p?" + canary + "@h":                user,
		"http://h,http://u:" + canary + "@g":         user,
		"m@https://u:" + canary + "@h/v1":            user,
		"unix://u:" + canary + "@h":                  user,
		"http://h/v1?key=" + canary:                  query,
		"http://h?" + canary:                         query,
		"git::https://h/x?ref=" + canary:             query,
		"http://h/a,https://g/b?api_key=" + canary:   query,
		"https://[::1]:80/?token=" + canary + "#top": query,
	} {
		if got := address.Secret(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		err := address.Check("--base-url", text)
		if (err != nil) != (want != "") || err != nil && (strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "--api-key-env")) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestCheckURL: an address that is written badly holds no secret either, and is not repeated.
func TestCheckURL(t *testing.T) {
	for _, text := range []string{
		"http://127.0.0.1:8000/v1", "localhost:8000/v1", "127.0.0.1:8000", "h.example/v1", "", "http:/h/v1", "http://h/a@b", "[::1]:80", "m", "ftp://x",
	} {
		if err := address.CheckURL("--base-url", text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"http://u:" + canary + "@h", "u:" + canary + "@h:80/v1", canary + "@h", "//u:" + canary + "@h", "http:/u:" + canary + "@h", "http:u:" + canary + "@h",
		`http:\\u:` + canary + "@h", "http://u:a " + canary + "@h", "u:" + canary + "%40h", "h:80/v1?key=" + canary, "http://h/v1?a b=" + canary,
	} {
		if err := address.CheckURL("--base-url", text); err == nil || strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "--api-key-env") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFetched: a query that says how a file is fetched is let in, one with a secret is not.
func TestFetched(t *testing.T) {
	for _, text := range []string{
		"https://h/slotd.tar.gz",
		"https://h/slotd.tar.gz?checksum=sha256:0123456789abcdef",
		"https://h/slotd?archive=tar.gz&checksum=md5:00",
		"https://h/slotd?archive=false",
		"https://h/slotd?checksum=file:https://h/SHA256SUMS",
		"https://h/slotd?checksum=file%3Ahttps%3A%2F%2Fh%2FSHA256SUMS",
		"git::https://h/repository.git?ref=v1&depth=1",
		"s3::https://s3.amazonaws.com/bucket/slotd?region=eu-west-1&version=3",
		"https://h/slotd?filename=slotd&author=me",
		"/a/file?with=this",
	} {
		if err := address.CheckFetched("artifact", text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{
		"https://u:" + canary + "@h/slotd",
		"https://u:" + canary + "@h/slotd?checksum=sha256:00",
		"https://u:p/" + canary + "@h/slotd?archive=zip",
		"https://h/slotd?token=" + canary,
		"https://h/slotd?checksum=sha256:00&sig=" + canary,
		"https://h/slotd?SIGNATURE=" + canary,
		"https://h/slotd?private_token=" + canary,
		"https://h/slotd?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=" + canary,
		"https://h/slotd?x-amz-security-token=" + canary,
		"https://h/slotd?X-Goog-Signature=" + canary,
		"https://h/slotd?%74oken=" + canary,
		"https://h/slotd?a=b;password=" + canary,
		"https://h/slotd#token=" + canary,
		"https://u:p?" + canary + "@h/slotd",
		"https://u:p#" + canary + "@h/slotd?checksum=md5:00",
		"https://h/slotd?%zz=" + canary,
		"s3::https://h/slotd?aws_access_key_id=A&aws_access_key_secret=" + canary,
		"git::https://h/x.git?sshkey=" + canary,
		"https://h/slotd?checksum=file:https://u:" + canary + "@h/SUMS",
		"https://h/slotd?checksum=file%3Ahttps%3A%2F%2Fh%2FSUMS%3Ftoken%3D" + canary,
		"https://h/a b?token=" + canary,
	} {
		if err := address.CheckFetched("artifact", text); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestHide: what is shown of a text has no secret of its URLs, and all else.
func TestHide(t *testing.T) {
	for text, want := range map[string]string{
		"plain text":                              "plain text",
		"GET http://u:" + canary + "@h/v1 now":    "GET http://[redacted]@h/v1 now",
		"http://u:" + canary + "%40h/v1":          "http://[redacted]@h/v1",
		"http://h/t/" + canary + "/batch":         "http://h/t/[redacted]/batch",
		"GET https://h/@scope/x@1: 404":           "GET https://h/@scope/x@1: 404",
		"m@http://h:1/v1,n@http://g":              "m@http://h:1/v1,n@http://g",
		"http://h/x?a=1&api_key=" + canary + "&b": "http://h/x?[redacted]",
	} {
		if got := address.Hide(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got, want := address.HideKeys("http://h/x?a=1&api_key="+canary+"&b=2"), "http://h/x?a=1&api_key=[redacted]&b=2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for value, want := range map[string]string{
		"http://u:" + canary + "@h:1":     "[" + canary + "]",
		"http://h:1":                      "[]",
		"http://u:a%2Fb@h":                "[a/b a%2Fb]",
		"http://" + canary + "@h":         "[" + canary + "]",
		"https://registry.example/@scope": "[]",
		"http://h:8000/models@main":       "[]",
	} {
		if got := fmt.Sprint(address.Passwords(value)); got != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
}

// TestHider: a secret is hidden however it is written, whatever is before it; short ones
// are left, and the causes of an error are still known.
func TestHider(t *testing.T) {
	const secret = "q7/Zx&k+22wt=A1"
	h := address.NewHider(secret, "abc")
	for _, text := range []string{
		secret,
		`{"a":"q7/Zx\u0026k+22wt=A1"}`,
		"?k=q7%2FZx%26k%2B22wt%3DA1",
		hex.EncodeToString([]byte(secret)),
		strings.ToUpper(hex.EncodeToString([]byte(secret))),
	} {
		if got := h.Text("see " + text + " abc"); !strings.Contains(got, address.Hidden) || !strings.HasSuffix(got, " abc") {
			t.Errorf("%q: %q", text, got)
		}
	}
	for i := range 4 {
		in := []byte(strings.Repeat("x", i) + secret + "yz")
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
			if text := e.EncodeToString(in); h.Text(text) == text {
				t.Errorf("%d bytes before it: %q is as it was", i, text)
			}
		}
	}
	cause := errors.New("it is " + secret)
	if err := h.Error(fmt.Errorf("try: %w", cause)); strings.Contains(err.Error(), secret) || !errors.Is(err, cause) {
		t.Error(err)
	}
	if h.Error(nil) != nil || (*address.Hider)(nil).Text(secret) != secret {
		t.Error("nil")
	}
}

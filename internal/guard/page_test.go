package guard_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"hermes/internal/guard"
)

// asked sends one request through a guard whose handler says "in" and the path.
func asked(t *testing.T, o guard.Options, method, path, host string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	g, err := guard.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, path, nil)
	r.Host, r.RemoteAddr = host, "127.0.0.1:5"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "in "+guard.Path(r, r.URL.Path)) })).ServeHTTP(w, r)
	return w
}

// TestNames: a server answers to its own names only, on the loopback too.
func TestNames(t *testing.T) {
	here, out := guard.Options{}, guard.Options{Host: "0.0.0.0", Insecure: true}
	tests := []struct {
		o    guard.Options
		host string
		in   bool
	}{
		{here, "127.0.0.1:8000", true},
		{here, "localhost", true},
		{here, "LOCALHOST.:1", true},
		{here, "[::1]:8", true},
		{here, "127.9.9.9", true},
		{here, "", true},
		{here, "evil.example", false},
		{here, "evil", false},
		{here, "a", false},
		{here, "127.0.0.1.evil.example:80", false},
		{here, "localhost.evil.example", false},
		{here, "10.0.0.1:8000", false},
		{here, "0.0.0.0:8000", false},
		{here, "a.localhost", false},
		{here, "evil@localhost", false},
		{here, "localhost:8000:1", false},
		{here, "localhost, evil", false}, {here, "box.internal", false},
		{guard.Options{Names: []string{"Box.example"}}, "box.EXAMPLE:8000", true}, {guard.Options{Names: []string{"box.example"}}, "a.box.example", false},
		{out, "10.0.0.1:8000", true},
		{out, "[fd00::1]:8000", true},
		{out, "run-api:8000", true},
		{out, "api.team.svc.cluster.local:8000", true},
		{out, "host.docker.internal", true},
		{out, "evil.example", false}, {out, "10.0.0.1.evil.example", false}, {out, "evil.local.example", false}, {out, "local", true},
		{guard.Options{Host: "box.example", Insecure: true}, "box.example:8000", true},
	}
	for _, tt := range tests {
		for _, path := range []string{"/x", "/healthz"} {
			w := asked(t, tt.o, "GET", path, tt.host)
			if in := w.Code == 200; in != tt.in || !in && (w.Code != 403 || !strings.Contains(w.Body.String(), "--allow-host")) {
				t.Errorf("host %q on %q, %s: %d %s", tt.host, tt.o.Host, path, w.Code, w.Body)
			}
		}
	}
	// Who has the token may ask by any name: no page has it.
	o := guard.Options{Host: "0.0.0.0", Token: "sesame"}
	if w := asked(t, o, "GET", "/x", "box.example", "Authorization", "Bearer sesame"); w.Code != 200 {
		t.Error(w.Code, w.Body)
	}
	if w := asked(t, o, "GET", "/t/sesame/x", "box.example"); w.Body.String() != "in /t/sesame/x" {
		t.Error(w.Code, w.Body)
	}
	if w := asked(t, o, "GET", "/x", "box.example", "Authorization", "Bearer no"); w.Code != 403 {
		t.Error(w.Code, w.Body)
	}
}

// TestPages: pages of other origins are kept out, those that are listed are not.
func TestPages(t *testing.T) {
	listed := guard.Options{Origins: []string{"http://localhost:3000", "https://App.example:443/"}}
	const host = "127.0.0.1:8000"
	tests := []struct {
		o      guard.Options
		header []string
		in     bool
		cors   string
	}{
		{o: listed, in: true},
		{o: listed, header: []string{"Origin", "http://127.0.0.1:8000"}, in: true},
		{o: listed, header: []string{"Origin", "https://127.0.0.1:8000"}, in: true},
		{o: listed, header: []string{"Sec-Fetch-Site", "same-origin"}, in: true},
		{o: listed, header: []string{"Sec-Fetch-Site", "none"}, in: true},
		{o: listed, header: []string{"Referer", "http://127.0.0.1:8000/dashboard"}, in: true},
		{o: listed, header: []string{"Origin", "http://localhost:3000", "Sec-Fetch-Site", "same-site"}, in: true, cors: "http://localhost:3000"},
		{o: listed, header: []string{"Origin", "https://app.example", "Sec-Fetch-Site", "cross-site"}, in: true, cors: "https://app.example"},
		{o: listed, header: []string{"Origin", "http://app.example"}},
		{o: guard.Options{}, header: []string{"Origin", "http://localhost:3000"}},
		{o: listed, header: []string{"Origin", "http://127.0.0.1:8001"}},
		{o: listed, header: []string{"Origin", "null"}},
		{o: listed, header: []string{"Origin", ""}},
		{o: listed, header: []string{"Origin", "http://127.0.0.1:8000", "Origin", "http://evil.example"}},
		{o: listed, header: []string{"Origin", "http://127.0.0.1:8000.evil.example"}},
		{o: listed, header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}},
		{o: listed, header: []string{"Sec-Fetch-Site", "same-site"}},
		{o: listed, header: []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"}},
		{o: listed, header: []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Site", "none"}},
		{o: listed, header: []string{"Sec-Fetch-Site", "none, cross-site"}},
		{o: listed, header: []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Site", "same-origin"}, in: true},
		{o: listed, header: []string{"Origin", "http://127.0.0.1:8000", "Sec-Fetch-Site", "cross-site"}},
	}
	for _, tt := range tests {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			w := asked(t, tt.o, method, "/x", host, tt.header...)
			if in := w.Body.String() == "in /x"; in != tt.in || !in && w.Code != 403 || w.Header().Get("Access-Control-Allow-Origin") != tt.cors {
				t.Errorf("%s %q: %d %s %v", method, tt.header, w.Code, w.Body, w.Header())
			}
		}
	}
	// A browser asks before it sends JSON: the listed are answered, without the token that it keeps back.
	listed.Token = "sesame"
	w := asked(t, listed, "OPTIONS", "/x", host, "Origin", "http://localhost:3000", "Access-Control-Request-Method",
		"POST", "Access-Control-Request-Headers", "content-type")
	if w.Code != 200 || w.Body.String() != "OK" || w.Header().Get("Access-Control-Allow-Headers") != "content-type" {
		t.Error(w.Code, w.Body, w.Header())
	}
	if w := asked(t, listed, "GET", "/x", host, "Origin", "http://localhost:3000"); w.Code != 401 || w.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Error(w.Code, w.Header())
	}
}

// TestFromPage: who may have a GET change something.
func TestFromPage(t *testing.T) {
	const browser = "Mozilla/5.0 (X11; Linux x86_64)"
	tests := []struct {
		header []string
		page   bool
	}{
		{nil, false}, {[]string{"User-Agent", "python-requests/2.32"}, false}, {[]string{"Sec-Fetch-Site", "none", "User-Agent", browser}, false},
		{[]string{"Sec-Fetch-Site", "same-origin"}, true}, {[]string{"Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"}, true},
		{[]string{"Sec-Fetch-Site", "none", "Sec-Fetch-Site", "none"}, false},
		{[]string{"Sec-Fetch-Site", "same-site"}, true},
		{[]string{"Sec-Fetch-Site", "cross-site"}, true},
		{[]string{"Referer", "http://127.0.0.1/"}, true},
		{[]string{"Origin", "http://127.0.0.1"}, true},
		{[]string{"Sec-Fetch-Site", "none", "Referer", "x"}, true},
		{[]string{"User-Agent", browser}, true}, // a browser sends no Sec-Fetch-Site to an address beyond the loopback
	}
	for _, tt := range tests {
		r := httptest.NewRequest("GET", "/reset", nil)
		for i := 0; i < len(tt.header); i += 2 {
			r.Header.Add(tt.header[i], tt.header[i+1])
		}
		if got := guard.FromPage(r); got != tt.page {
			t.Errorf("%q: %v", tt.header, got)
		}
	}
}

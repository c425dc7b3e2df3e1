package guard

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// shield sets the headers that keep an answer from the pages of others: they may not show
// it in a frame, load it as a picture or script, guess its type, or learn a token that
// is in its address.
func shield(h http.Header) {
	h["X-Content-Type-Options"] = noSniff
	h["X-Frame-Options"] = deny
	h["Referrer-Policy"] = noReferrer
	h["Cross-Origin-Resource-Policy"] = sameOrigin
}

// The values are made once, not for each request.
var (
	noSniff    = []string{"nosniff"}
	deny       = []string{"DENY"}
	noReferrer = []string{"no-referrer"}
	sameOrigin = []string{"same-origin"}
)

// named reports whether a Host header names this server. On the loopback these are the
// loopback's own names. Elsewhere any address does, and any name that cannot be registered:
// the owner of a page can make its name lead here, but owns no address, no name without a dot
// and none that is kept for local use.
func (g *Guard) named(host string) bool {
	if host == "" {
		return true // HTTP/1.0, which no browser speaks
	}
	if p := g.last.Load(); p != nil && *p == host {
		return true
	}
	name, err := hostName(host)
	if err != nil || !g.owns(name) {
		return false
	}
	g.last.Store(&host)
	return true
}

// owns is named for a name in small letters.
func (g *Guard) owns(name string) bool {
	if name == "localhost" || g.names[name] {
		return true
	}
	if a, err := netip.ParseAddr(name); err == nil {
		return a.IsLoopback() || !g.local
	}
	if g.local {
		return false
	}
	return name == strings.ToLower(g.opt.Host) || !strings.Contains(name, ".") || strings.HasSuffix(name, ".local") || strings.HasSuffix(name, ".internal")
}

// hostName is the name of HOST or HOST:PORT in small letters, without a dot at its end; an
// address has no brackets.
func hostName(text string) (string, error) {
	u, err := url.Parse("http://" + text)
	if err != nil || u.Host != text || u.Hostname() == "" {
		return "", fmt.Errorf("%.200q is no name of a host", text)
	}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), nil
}

// originOf checks an origin and gives it in the form that browsers send.
func originOf(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("origin %.200q: want SCHEME://HOST[:PORT] of http or https, such as http://localhost:3000; each page that may come in is named", text)
	}
	host := strings.ToLower(u.Host)
	if u.Scheme == "http" {
		host = strings.TrimSuffix(host, ":80")
	} else {
		host = strings.TrimSuffix(host, ":443")
	}
	return u.Scheme + "://" + host, nil
}

// origin reports whether the pages that may have sent a request may. It gives the origin
// of a page from the list, "" for the server's own and for programs.
func (g *Guard) origin(r *http.Request) (string, bool) {
	if list := r.Header["Origin"]; len(list) > 0 {
		origin := strings.ToLower(list[0])
		if len(list) == 1 && g.origins[origin] {
			return origin, true
		}
		host := strings.ToLower(r.Host) // it is one of ours, or the token was sent
		if len(list) > 1 || origin != "http://"+host && origin != "https://"+host {
			return "", false
		}
	}
	for _, site := range r.Header["Sec-Fetch-Site"] { // none of several may be a foreign one
		switch site {
		case "", "none", "same-origin":
		default:
			return "", false
		}
	}
	return "", true
}

// cors lets a page of a listed origin read the answer, and answers what its browser asks
// before.
func (g *Guard) cors(w http.ResponseWriter, r *http.Request, origin string) (answered bool) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Vary", "Origin")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	h.Set("Access-Control-Max-Age", "600")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, "OK")
	return true
}

// FromPage reports whether a page may have sent a request, its own or another one. It is
// for a GET that changes something, which a link or a picture can send: such a one is
// carried out for a program, and for a person who has typed its address.
func FromPage(r *http.Request) bool {
	h := r.Header
	if h.Get("Origin") != "" || h.Get("Referer") != "" {
		return true
	}
	sites := h["Sec-Fetch-Site"]
	for _, site := range sites {
		if site != "none" {
			return true
		}
	}
	// A program, or a browser that does not say.
	return len(sites) == 0 && strings.HasPrefix(h.Get("User-Agent"), "Mozilla/")
}

package batch_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"hermes/internal/fakellm"
	"hermes/internal/settings"
	"hermes/rollout/policy/servers"
	"hermes/rollout/policy/wire"
)

// Without an address the servers of this machine are asked at their usual ports.
func TestAutoFindsALocalServer(t *testing.T) {
	if found, _ := servers.Discover(t.Context(), servers.LocalBases(), wire.Options{}); len(found) > 0 {
		t.Skipf("a model server answers at %s already", found[0].Base)
	}
	s, err := fakellm.New(fakellm.Options{Models: []string{"tiny"}})
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{Server: s}
	var at string
	for _, base := range servers.LocalBases() {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		if l, err := net.Listen("tcp", u.Host); err == nil {
			web := &httptest.Server{Listener: l, Config: &http.Server{Handler: g}}
			web.Start()
			defer web.Close()
			at = base
			break
		}
	}
	if at == "" {
		t.Skip("all the usual ports of model servers are taken by something else")
	}
	var said strings.Builder
	books, err := rollTo(t, &said, func(b *settings.Batch) { b.Model = "auto" })
	if err != nil || books.Accepted != 2 || s.Stats().Answers == 0 {
		t.Errorf("%+v, %v, %d answers", books, err, s.Stats().Answers)
	}
	if got := g.keys(); got != "" {
		t.Errorf("a server that no one named was shown %q", got)
	}
	if !strings.Contains(said.String(), "model server: "+at+", found on this machine") {
		t.Errorf("said %q", said.String())
	}
}

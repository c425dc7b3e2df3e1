package guard

import (
	"context"
	"fmt"
	"net"
)

// Listen opens a loopback address, HOST:PORT, :PORT or PORT, for a page that has no guard.
// Any other host is refused. what begins the errors and why ends them, such as "metrics on"
// and "whoever reaches it sees everything".
func Listen(ctx context.Context, what, addr, why string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = "", addr
	}
	if host == "" || host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("%s %q: want a loopback address such as 127.0.0.1:8080; %s", what, addr, why)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", what, addr, err)
	}
	return l, nil
}

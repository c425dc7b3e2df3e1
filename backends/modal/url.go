package modal

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
)

func hostPort(u *url.URL, port string) string {
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}

// loopback reports whether a host is this machine, without asking anybody.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

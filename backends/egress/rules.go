package egress

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// rule is one entry of an allow-list.
type rule struct {
	name   string       // exact, lower case; "" in a suffix or a network
	suffix string       // ".example.org"; "." is every name
	net    netip.Prefix // of an address or network
	port   uint16       // 0: 80 and 443
	any    bool         // port
}

type rules []rule

// maxRules bounds an allow-list: every request looks at all of it.
const maxRules = 1024

// parseRules reads an allow-list.
func parseRules(list []string) (rules, error) {
	if len(list) > maxRules {
		return nil, fmt.Errorf("%d entries are more than %d", len(list), maxRules)
	}
	var all rules
	for _, text := range list {
		r, err := parseRule(text)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", text, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// parseRule reads one entry: a name, *.SUFFIX, *, an address or a network, with a port.
// Those of IPv6 with a port stand in brackets.
func parseRule(text string) (r rule, err error) {
	if strings.Contains(text, "://") {
		return r, errors.New("write the name of the host alone, without a scheme")
	}
	host := text
	if _, ok := parseNet(text); !ok {
		if i := strings.LastIndexByte(text, ':'); i >= 0 {
			host = text[:i]
			r.port, r.any, err = parsePort(text[i+1:])
			if err != nil {
				return r, err
			}
		}
		if inner, ok := strings.CutPrefix(host, "["); ok {
			host, ok = strings.CutSuffix(inner, "]")
			if !ok {
				return r, errors.New("a bracket is not closed")
			}
			if _, ok := parseNet(host); !ok {
				return r, errors.New("only an address of IPv6 or a network may be in brackets")
			}
		}
	}
	if n, ok := parseNet(host); ok {
		if n != n.Masked() {
			return r, fmt.Errorf("the network has bits set beyond its length: did you mean %s", n.Masked())
		}
		r.net = n
		return r, nil
	}
	if host == "*" {
		r.suffix = "."
		return r, nil
	}
	rest, wild := strings.CutPrefix(host, "*.")
	name, err := cleanName(rest)
	if err != nil {
		return r, err
	}
	if wild {
		r.suffix = "." + name
	} else {
		r.name = name
	}
	return r, nil
}

// parseNet reads an address or a network.
func parseNet(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	n, err := netip.ParsePrefix(text)
	return n, err == nil && !n.Addr().Is4In6()
}

func parsePort(text string) (port uint16, any bool, err error) {
	if text == "*" {
		return 0, true, nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, false, fmt.Errorf("port %q is neither * nor from 1 to 65535", text)
	}
	return uint16(n), false, nil
}

// cleanName brings a host's name into the form that is compared. What some programs
// take for an address, such as 0x7f.1, is none.
func cleanName(name string) (string, error) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || len(name) > 253 {
		return "", fmt.Errorf("a name has from 1 to 253 characters, not %d", len(name))
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
			return "", fmt.Errorf("%q is no part of a name", l)
		}
		for _, c := range []byte(l) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", fmt.Errorf("%q is no part of a name (other alphabets are written as xn--…)", l)
			}
		}
	}
	last := labels[len(labels)-1]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || last[0] >= '0' && last[0] <= '9' {
		return "", errors.New("it ends in a number and is no address either")
	}
	return name, nil
}

// absolute keeps the resolver from trying the host's search domains behind a full name.
func absolute(name string) string {
	if strings.Contains(name, ".") {
		return name + "."
	}
	return name
}

func (r rule) ports(port uint16) bool {
	return r.any || r.port == port || r.port == 0 && (port == 80 || port == 443)
}

// within reports whether o lets out to all that r names.
func (r rule) within(o rule) bool {
	switch {
	case !o.any && (r.any || !o.ports(cmp.Or(r.port, 80)) || !o.ports(cmp.Or(r.port, 443))):
		return false
	case r.net.IsValid():
		return o.net.IsValid() && o.net.Bits() <= r.net.Bits() && o.net.Contains(r.net.Addr())
	case r.name != "":
		return o.named(r.name)
	}
	return strings.HasSuffix(r.suffix, o.suffix) && o.suffix != ""
}

// name reports whether a clean name is listed.
func (all rules) name(name string, port uint16) bool {
	return slices.ContainsFunc(all, func(r rule) bool { return r.ports(port) && r.named(name) })
}

// named reports whether an entry, whatever its port, is about a clean name.
func (r rule) named(name string) bool {
	return r.name == name && name != "" || r.suffix != "" && strings.HasSuffix("."+name, r.suffix) && "."+name != r.suffix || r.suffix == "."
}

// address reports whether an address is listed. One of this machine must be listed
// itself; one of a special network, itself or by a network that lies within that one.
func (all rules) address(a netip.Addr, port uint16, own []netip.Addr) bool {
	within, special := specialNetwork(a)
	mine := slices.Contains(own, a)
	return slices.ContainsFunc(all, func(r rule) bool {
		if !r.net.IsValid() || !r.net.Contains(a) || !r.ports(port) || mine && !r.net.IsSingleIP() {
			return false
		}
		return !special || r.net.Bits() >= within.Bits()
	})
}

// behind reports whether an address that a listed name leads to may be dialled.
func (all rules) behind(a netip.Addr, port uint16, own []netip.Addr) bool {
	_, special := specialNetwork(a)
	return !special && !slices.Contains(own, a) || all.address(a, port, own)
}

package egress

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseRules(t *testing.T) {
	for _, tt := range []struct{ text, fault string }{
		{"example.org", ""}, {"*.example.org:8443", ""}, {"*", ""}, {"*:22", ""}, {"EXAMPLE.org.:*", ""},
		{"10.0.0.0/8:5432", ""}, {"[2606:4700::/32]:443", ""}, {"2606:4700::1111", ""}, {"127.0.0.1:8000", ""},
		{"https://example.org", "without a scheme"},
		{"example.org/path", "no part of a name"},
		{"", "1 to 253"},
		{"example.org:", "port"}, {"example.org:0", "port"}, {"example.org:70000", "port"}, {"example.org:http", "port"},
		{"foo.*.org", "no part of a name"}, {"bücher.example", "xn--"}, {"-a.org", "no part"}, {"a..b", "no part"},
		{"10.0.0.1/8", "did you mean 10.0.0.0/8"}, {"127.1", "ends in a number"}, {"2130706433", "ends in a number"}, {"0x7f.1", "ends in a number"},
		{"[example.org]:443", "in brackets"}, {"[::1:443", "bracket"},
	} {
		_, err := parseRules([]string{tt.text})
		switch {
		case tt.fault == "" && err != nil:
			t.Errorf("%q: %v", tt.text, err)
		case tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault)):
			t.Errorf("%q: %v, want an error with %q", tt.text, err, tt.fault)
		}
	}
}

func TestNames(t *testing.T) {
	all, err := parseRules([]string{"example.org", "*.suffix.net:8443", "any.port:*"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		port uint16
		want bool
	}{
		{"example.org", 80, true}, {"example.org", 443, true}, {"example.org", 22, false},
		{"www.example.org", 443, false}, {"notexample.org", 443, false}, {"example.org.evil.net", 443, false},
		{"a.suffix.net", 8443, true}, {"a.b.suffix.net", 8443, true}, {"suffix.net", 8443, false}, {"asuffix.net", 8443, false}, {"a.suffix.net", 443, false},
		{"any.port", 1, true}, {"any.port", 65535, true},
	} {
		if got := all.name(tt.name, tt.port); got != tt.want {
			t.Errorf("%s:%d: %v, want %v", tt.name, tt.port, got, tt.want)
		}
	}
}

// TestAddresses: an address is let through where it is public, and where it is special
// only when it is listed as what it is.
func TestAddresses(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("8.8.4.4"), netip.MustParseAddr("127.0.0.1")}
	for _, tt := range []struct {
		allow, addr     string
		literal, behind bool // asked for as an address, and found behind a listed name
	}{
		{"", "1.1.1.1", false, true},
		{"1.1.1.0/24", "1.1.1.1", true, true},
		{"0.0.0.0/0", "1.1.1.1", true, true},
		{"0.0.0.0/0", "10.0.0.1", false, false},
		{"0.0.0.0/0", "127.0.0.1", false, false},
		{"0.0.0.0/0", "169.254.169.254", false, false},
		{"", "169.254.169.254", false, false}, {"", "100.100.100.200", false, false}, {"", "192.168.1.1", false, false}, {"", "172.31.0.1", false, false},
		{"", "0.0.0.0", false, false}, {"", "255.255.255.255", false, false}, {"", "224.0.0.1", false, false}, {"", "198.18.0.1", false, false},
		{"", "::1", false, false}, {"", "::", false, false}, {"", "fe80::1", false, false}, {"", "fd00::1", false, false}, {"", "ff02::1", false, false},
		{"", "64:ff9b::7f00:1", false, false}, {"", "2002:7f00:1::", false, false}, {"", "::7f00:1", false, false}, {"", "2606:4700::1", false, true},
		{"::/0", "::1", false, false}, {"::/0", "fd00:ec2::254", false, false}, {"::/0", "2606:4700::1", true, true},
		{"10.0.0.0/8", "10.1.2.3", true, true}, {"10.1.2.3", "10.1.2.3", true, true}, {"10.0.0.0/7", "10.1.2.3", false, false},
		{"127.0.0.0/8", "127.0.0.1", false, false}, {"127.0.0.1", "127.0.0.1", true, true}, {"127.0.0.1", "127.0.0.2", false, false},
		{"", "8.8.4.4", false, false}, {"8.8.0.0/16", "8.8.4.4", false, false}, {"8.8.4.4", "8.8.4.4", true, true}, // this machine's own
	} {
		var list []string
		if tt.allow != "" {
			list = append(list, tt.allow)
		}
		all, err := parseRules(list)
		if err != nil {
			t.Fatal(err)
		}
		a := netip.MustParseAddr(tt.addr)
		if got := all.address(a, 443, own); got != tt.literal {
			t.Errorf("allow %q: %s: %v, want %v", tt.allow, a, got, tt.literal)
		}
		if got := all.behind(a, 443, own); got != tt.behind {
			t.Errorf("allow %q: a name that leads to %s: %v, want %v", tt.allow, a, got, tt.behind)
		}
		if all.address(a, 22, own) || all.behind(a, 22, own) && !tt.behind {
			t.Errorf("allow %q: %s on another port", tt.allow, a)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"example.org:80", "*.a.b", "[::1]:80", "10.0.0.0/8:*", "*", "[", ":", "a:b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRule(text)
		if err != nil {
			return
		}
		if kinds := len(r.name) > 0; kinds == (r.suffix != "") && !r.net.IsValid() {
			t.Errorf("%q is neither a name nor a suffix nor a network: %+v", text, r)
		}
		metadata := netip.MustParseAddr("169.254.169.254")
		if (rules{r}).address(metadata, 80, nil) && !r.net.IsSingleIP() && r.net.Bits() < 16 {
			t.Errorf("%q opens the metadata of clouds", text)
		}
	})
}

// TestRuleWithin: an entry lies within another when that lets out to all it names.
func TestRuleWithin(t *testing.T) {
	for _, tt := range []struct {
		inner, outer string
		want         bool
	}{
		{"a.org", "a.org", true}, {"a.org", "*.org", true}, {"a.org", "*", true}, {"org", "*.org", false}, {"a.org", "b.org", false}, {"aorg", "*.org", false},
		{"*.a.org", "*.org", true}, {"*.org", "*.org", true}, {"*.org", "*.a.org", false}, {"*", "*.org", false}, {"*", "*", true}, {"*.org", "a.org", false},
		{"a.org:80", "a.org", true}, {"a.org:443", "a.org", true}, {"a.org:22", "a.org", false}, {"a.org", "a.org:80", false}, {"a.org", "a.org:*", true},
		{"a.org:*", "a.org", false}, {"a.org:*", "a.org:*", true}, {"a.org:22", "a.org:*", true}, {"a.org:22", "a.org:22", true},
		{"10.0.0.0/24", "10.0.0.0/8", true}, {"10.0.0.1", "10.0.0.0/8", true}, {"10.0.0.0/8", "10.0.0.0/24", false}, {"11.0.0.1", "10.0.0.0/8", false},
		{"10.0.0.1", "*", false}, {"a.org", "0.0.0.0/0", false}, {"::1", "0.0.0.0/0", false}, {"1.1.1.1", "::/0", false},
	} {
		inner, err := parseRule(tt.inner)
		if err != nil {
			t.Fatal(err)
		}
		outer, err := parseRule(tt.outer)
		if err != nil {
			t.Fatal(err)
		}
		if got := inner.within(outer); got != tt.want {
			t.Errorf("%s within %s: %v", tt.inner, tt.outer, got)
		}
	}
}

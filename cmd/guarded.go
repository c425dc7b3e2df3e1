package cmd

import (
	"cmp"
	"net/netip"

	"hermes/internal/guard"
)

// guardFlags say who may come in to a server. They belong to one server and are no keys of
// run files.
type guardFlags struct {
	Token       string   `nokey:"" placeholder:"TEXT" help:"Demand this token: 'Authorization: Bearer TEXT', or the path prefix /t/TEXT."`
	TokenEnv    string   `name:"token-env" nokey:"" placeholder:"NAME" help:"Variable that holds the token, which keeps it off the command line."`
	Allow       []string `nokey:"" placeholder:"CIDR" help:"Networks that may come in."`
	Insecure    bool     `nokey:"" help:"Let everybody in who reaches the address."`
	AllowOrigin []string `name:"allow-origin" nokey:"" placeholder:"ORIGIN" help:"Origins of pages that may read and post, such as http://localhost:3000; pages of others are kept out."`
	AllowHost   []string `name:"allow-host" nokey:"" placeholder:"NAME" help:"Names beside its own by which the server may be asked for, behind a proxy for example."`
}

// guard turns the flags into options; errors are those of usage.
func (f *guardFlags) guard(h *host) (o guard.Options, err error) {
	if f.TokenEnv != "" {
		f.Token = cmp.Or(f.Token, h.Env.Get(f.TokenEnv))
		if f.Token == "" {
			return o, Usage("--token-env %s: the variable is not set", f.TokenEnv)
		}
	}
	h.Redact.Add(f.Token)
	o = guard.Options{Token: f.Token, Insecure: f.Insecure, Names: f.AllowHost, Origins: f.AllowOrigin}
	for _, text := range f.Allow {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return o, Usage("--allow: %w", err)
		}
		o.Allow = append(o.Allow, p)
	}
	return o, nil
}

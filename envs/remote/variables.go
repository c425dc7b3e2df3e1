package remote

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// kept are the variables of hermes that a program inherits: where programs, libraries and
// folders are, and how texts and times are written. What else hermes has in its
// environment, API keys above all, is not the program's business.
func kept() []string {
	return []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX",
		"NODE_PATH", "GOROOT", "GOPATH", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOCOVERDIR"}
}

// variables are those of a program, of all that hermes has.
func (c Config) variables(all []string) ([]string, error) {
	have := map[string]string{}
	for _, v := range all {
		if name, value, ok := strings.Cut(v, "="); ok {
			have[name] = value
		}
	}
	out := map[string]string{}
	for name, value := range have {
		if slices.Contains(kept(), name) || strings.HasPrefix(name, "LC_") {
			out[name] = value
		}
	}
	for _, name := range c.PassEnv {
		value, ok := have[name]
		if !ok {
			return nil, fmt.Errorf("pass-env: the variable %s is not set: export it, or leave it out", name)
		}
		out[name] = value
	}
	maps.Copy(out, c.Env)
	list := make([]string, 0, len(out))
	for _, name := range slices.Sorted(maps.Keys(out)) {
		list = append(list, name+"="+out[name])
	}
	return list, nil
}

// checkNames refuses names that no variable can have.
func (c Config) checkNames() error {
	for _, name := range slices.Concat(c.PassEnv, slices.Sorted(maps.Keys(c.Env))) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("%q is no name of an environment variable: env takes names and values, pass-env names", name)
		}
	}
	if c.URL != "" && (len(c.Env) > 0 || len(c.PassEnv) > 0) {
		return fmt.Errorf("env and pass-env are for a program that hermes starts, and %s runs already", c.URL)
	}
	return nil
}

package wire

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"hermes/backends"
)

// DefaultPath is where programs are looked for when the environment of a box has no PATH.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Defaults is the environment of a box: what every command needs, and under it what the box says.
// Text is UTF-8 unless the box names a locale. LC_CTYPE says no less than LANG=C.UTF-8 does: the
// other categories of that locale are those of C, which is built into the C library, while
// every program would read a dozen files for them at its start. A command that sets LANG alone keeps
// UTF-8 for this reason; LC_ALL overrides it.
func Defaults(home string, env map[string]string) map[string]string {
	all := map[string]string{"PATH": DefaultPath, "HOME": home}
	if env["LANG"] == "" && env["LC_ALL"] == "" {
		all["LC_CTYPE"] = "C.UTF-8"
	}
	maps.Copy(all, env)
	return all
}

// Environ is the environment of a command in a box with these defaults.
func Environ(defaults map[string]string, c backends.Cmd) map[string]string {
	env := map[string]string{}
	if !c.ClearEnv {
		maps.Copy(env, defaults)
	}
	maps.Copy(env, c.Env)
	return env
}

// Pairs is an environment as programs get it.
func Pairs(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, k+"="+env[k])
	}
	return list
}

func SearchPath(path string) string {
	if path == "" {
		return DefaultPath
	}
	return path
}

// Candidates are the files of which a command is the first that exists.
func Candidates(name, dir, path string) []string {
	if strings.Contains(name, "/") {
		return []string{Join(dir, name)}
	}
	var all []string
	for _, d := range filepath.SplitList(SearchPath(path)) {
		all = append(all, Join(dir, d)+"/"+name)
	}
	return all
}

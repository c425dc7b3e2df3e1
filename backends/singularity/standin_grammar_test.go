//go:build linux

package singularity_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// form is how an option is written.
type form func(value string) error

// The options of the commands, as `apptainer help` documents them for 1.3, as far as
// something that starts boxes may want them. nil is an option without a value.
func startOptions() map[string]form {
	return map[string]form{
		"containall": nil, "contain": nil, "cleanenv": nil, "writable-tmpfs": nil, "net": nil, "fakeroot": nil, "no-privs": nil,
		"no-home": nil, "userns": nil, "pid": nil, "ipc": nil, "uts": nil, "no-init": nil, "writable": nil, "compat": nil, "no-umask": nil,
		"bind": bind, "home": home, "workdir": folder, "overlay": overlay, "no-mount": noMount, "hostname": text, "network": network,
		"memory": size, "memory-swap": size, "memory-reservation": size, "cpus": number, "pids-limit": number, "pid-file": text,
		"env": variable, "env-file": file, "drop-caps": text, "security": text, "dns": text,
	}
}

func execOptions() map[string]form {
	// Mounts and limits are those of the instance: there the program takes them and does nothing.
	return map[string]form{"cleanenv": nil, "pwd": absolute, "cwd": absolute, "env": variable, "no-umask": nil}
}

func text(v string) error {
	if v == "" {
		return fmt.Errorf("is empty")
	}
	return nil
}

func absolute(v string) error {
	if !filepath.IsAbs(v) {
		return fmt.Errorf("%q is not absolute", v)
	}
	return nil
}

func exists(v string, dir bool) error {
	s, err := os.Stat(v)
	if err == nil && dir && !s.IsDir() {
		err = fmt.Errorf("%s is no folder", v)
	}
	return err
}

func folder(v string) error { return exists(v, true) }
func file(v string) error   { return exists(v, false) }

func bind(v string) error {
	for _, spec := range strings.Split(v, ",") {
		p := strings.Split(spec, ":")
		if len(p) > 3 || len(p) == 3 && p[2] != "ro" && p[2] != "rw" {
			return fmt.Errorf("%q is not SRC[:DEST[:ro|rw]]", spec)
		}
		if err := exists(p[0], false); err != nil {
			return err
		}
		if len(p) > 1 {
			if err := absolute(p[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

func home(v string) error {
	src, dest, both := strings.Cut(v, ":")
	if both {
		if err := absolute(dest); err != nil {
			return err
		}
	}
	return folder(src)
}

func overlay(v string) error {
	path, mode, ok := strings.Cut(v, ":")
	if ok && mode != "ro" && mode != "rw" {
		return fmt.Errorf("%q is not PATH[:ro|rw]", v)
	}
	return file(path)
}

func noMount(v string) error {
	known := []string{"proc", "sys", "dev", "devpts", "home", "tmp", "hostfs", "cwd", "bind-paths"}
	for _, part := range strings.Split(v, ",") {
		if !slices.Contains(known, part) && !filepath.IsAbs(part) {
			return fmt.Errorf("%q is none of %s and no path", part, strings.Join(known, " "))
		}
	}
	return nil
}

func network(v string) error {
	if v != "none" && os.Getuid() != 0 {
		return fmt.Errorf("%q is for root only", v)
	}
	return text(v)
}

func size(v string) error {
	if !regexp.MustCompile(`^[0-9]+[bkmgBKMG]?$`).MatchString(v) {
		return fmt.Errorf("%q is no size", v)
	}
	return nil
}

func number(v string) error {
	if f, err := strconv.ParseFloat(v, 64); err != nil || f < 0 {
		return fmt.Errorf("%q is no number", v)
	}
	return nil
}

func variable(v string) error {
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`).MatchString(v) {
		return fmt.Errorf("%q is not NAME=VALUE", v)
	}
	return nil
}

// options are those of one command line.
type options map[string][]string

func (o options) has(name string) bool { return len(o[name]) > 0 }

// one is the value of an option that is given once.
func (o options) one(name string) string {
	if len(o[name]) == 0 {
		return ""
	}
	return o[name][0]
}

// parse reads options up to the first word that is none; what follows is not looked at.
func parse(args []string, known map[string]form) (options, []string, error) {
	o := options{}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, given := strings.Cut(strings.TrimPrefix(args[0], "--"), "=")
		f, ok := known[name]
		if !ok || !strings.HasPrefix(args[0], "--") {
			return nil, nil, fmt.Errorf("unknown flag: %s", args[0])
		}
		args = args[1:]
		if f == nil {
			if given {
				return nil, nil, fmt.Errorf("--%s takes no value here", name)
			}
			value = "true"
		} else {
			if !given {
				if len(args) == 0 {
					return nil, nil, fmt.Errorf("flag needs an argument: --%s", name)
				}
				value, args = args[0], args[1:]
			}
			if err := f(value); err != nil {
				return nil, nil, fmt.Errorf("invalid argument for --%s: %w", name, err)
			}
		}
		if o.has(name) && name != "bind" && name != "env" && name != "overlay" {
			return nil, nil, fmt.Errorf("--%s is given twice", name)
		}
		o[name] = append(o[name], value)
	}
	return o, args, nil
}

// together objects to options that contradict each other.
func (o options) together() error {
	switch {
	case o.has("network") && !o.has("net"):
		return fmt.Errorf("--network without --net does nothing")
	case o.has("home") && o.has("no-home"):
		return fmt.Errorf("--home and --no-home")
	case o.has("writable-tmpfs") && (o.has("writable") || o.has("overlay")):
		return fmt.Errorf("--writable-tmpfs and another writable root")
	case o.has("workdir") && !o.has("contain") && !o.has("containall"):
		return fmt.Errorf("--workdir is for --contain")
	case o.has("no-privs") && os.Getuid() != 0:
		return fmt.Errorf("--no-privs is for root")
	case o.has("memory-swap") && !o.has("memory"):
		return fmt.Errorf("--memory-swap without --memory")
	}
	return nil
}

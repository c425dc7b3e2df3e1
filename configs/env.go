package configs

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hermes/internal/late"
)

// Env is the environment of the process, read once, over the entries of
// $HERMES_HOME/.env. It does not change.
type Env struct {
	vars map[string]string
	from map[string]string // names that came from the .env file → its place
	// Home is $HERMES_HOME, by default ~/.hermes; "" when neither is known.
	Home string
	// Warnings are sentences about the .env file.
	Warnings []string
}

// NewEnv reads environ (as os.Environ gives it) and the .env file of the home folder.
func NewEnv(environ []string) (Env, error) {
	e := Env{vars: map[string]string{}, from: map[string]string{}}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k != "" {
			e.vars[k] = v
		}
	}
	e.Home = e.vars["HERMES_HOME"]
	if e.Home == "" && e.vars["HOME"] != "" {
		e.Home = filepath.Join(e.vars["HOME"], ".hermes")
	}
	if e.Home == "" {
		return e, nil
	}
	file := filepath.Join(e.Home, ".env")
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return e, &Error{File: file, Msg: reason(err)}
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		e.Warnings = append(e.Warnings, fmt.Sprintf("%s: mode %#o lets others read secrets; want 0600", file, info.Mode().Perm()))
	}
	entries, err := ParseDotEnv(file, raw)
	if err != nil {
		return e, err
	}
	for _, en := range entries {
		if _, own := e.vars[en.Name]; !own {
			e.vars[en.Name], e.from[en.Name] = en.Value, fmt.Sprintf("%s:%d", file, en.Line)
		}
	}
	return e, nil
}

// Get returns the value of a variable, "" when it is not set.
func (e Env) Get(name string) string { return e.vars[name] }

// Lookup is Get that tells an empty variable from none.
func (e Env) Lookup(name string) (string, bool) { v, ok := e.vars[name]; return v, ok }

// Source says where a variable was set: its name, or the place in the .env file.
func (e Env) Source(name string) string {
	if at, ok := e.from[name]; ok {
		return at
	}
	return name
}

// Names lists the variables, in no order.
func (e Env) Names() []string {
	return slices.Collect(maps.Keys(e.vars))
}

// Entry is one line of a .env file.
type Entry struct {
	Name, Value string
	Line        int // from 1
}

var envName = late.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseDotEnv reads NAME=value lines: `export` in front, # comments, values in single
// quotes (as they are) or double quotes (\n \t \r \" \\ \$). Nothing is expanded.
// Messages never hold a value.
func ParseDotEnv(file string, raw []byte) ([]Entry, error) {
	if err := plainText(file, raw); err != nil {
		return nil, err
	}
	var out []Entry
	s := bufio.NewScanner(bytes.NewReader(raw))
	s.Buffer(nil, maxFile+1)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if rest, ok := strings.CutPrefix(line, "export "); ok {
			line = strings.TrimSpace(rest)
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || !envName.MatchString(name) {
			return nil, &Error{File: file, Line: n, Msg: "want NAME=value"}
		}
		value, err := unquote(strings.TrimSpace(value))
		if err != nil {
			return nil, &Error{File: file, Line: n, Msg: name + ": " + err.Error()}
		}
		out = append(out, Entry{Name: name, Value: value, Line: n})
	}
	return out, s.Err()
}

func unquote(v string) (string, error) {
	if v == "" || v[0] != '\'' && v[0] != '"' {
		if i := strings.Index(v, " #"); i >= 0 {
			v = v[:i]
		}
		if strings.HasPrefix(v, "#") {
			v = ""
		}
		return strings.TrimSpace(v), nil
	}
	quote, rest := v[0], v[1:]
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == quote:
			if tail := strings.TrimSpace(rest[i+1:]); tail != "" && tail[0] != '#' {
				return "", errors.New("text after the closing quote")
			}
			return b.String(), nil
		case c == '\\' && quote == '"' && i+1 < len(rest):
			i++
			b.WriteByte(unescape(rest[i], &b))
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("the quote is not closed")
}

// unescape returns the byte that \c means; an unknown escape keeps its backslash.
func unescape(c byte, b *strings.Builder) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case '"', '\\', '$':
		return c
	}
	b.WriteByte('\\')
	return c
}

package remote

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"hermes/internal/late"
)

// Named reads the name of an environment on a command line: `cmd:` and a command,
// http:// or https:// and an address, or the path of a program, which holds a slash or
// ends as a script does. stem is a short name for run directories; ok says that the text
// is one of these.
func Named(name string) (c Config, stem string, ok bool, err error) {
	switch {
	case strings.HasPrefix(name, "cmd:"):
		c.Command, err = Words(strings.TrimPrefix(name, "cmd:"))
		if err != nil {
			return c, "", true, fmt.Errorf("%q: %w", name, err)
		}
		stem = c.Command[0]
		for _, w := range c.Command[1:] {
			if byEnding(w) != nil {
				stem = w
				break
			}
		}
	case strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://"):
		c.URL = name
		u, err := url.Parse(name)
		if err != nil {
			return c, "", true, err
		}
		stem = strings.ReplaceAll(u.Host, ":", "-")
	case byEnding(name) != nil:
		if !strings.ContainsRune(name, '/') {
			name = "./" + name
		}
		c.Command, stem = append(byEnding(name), name), name
	case strings.ContainsRune(name, '/'):
		c.Command, stem = []string{name}, name
	default:
		return c, "", false, nil
	}
	stem = filepath.Base(stem)
	if byEnding(stem) != nil {
		stem = strings.TrimSuffix(stem, filepath.Ext(stem))
	}
	return c, strings.Trim(odd.ReplaceAllString(stem, "_"), "._"), true, nil
}

var odd = late.Regexp(`[^A-Za-z0-9._-]`)

// byEnding is the interpreter of a script; nil: the name does not end as one.
func byEnding(name string) []string {
	switch filepath.Ext(name) {
	case ".py":
		return []string{"python3"}
	case ".js", ".mjs", ".cjs":
		return []string{"node"}
	case ".sh":
		return []string{"sh"}
	case ".go":
		return []string{"go", "run"}
	}
	return nil
}

// Words splits a command at spaces. Single and double quotes keep spaces; nothing else is
// special, and no shell sees it.
func Words(text string) ([]string, error) {
	var out []string
	var word strings.Builder
	open, quote := false, rune(0)
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, open = r, true
		case r == ' ' || r == '\t':
			if open {
				out = append(out, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if open {
		out = append(out, word.String())
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no command")
	}
	return out, nil
}

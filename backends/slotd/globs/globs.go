// Package globs reads globs and the rules of .gitignore files.
package globs

import (
	"path"
	"regexp"
	"strings"
)

// Regexp translates a glob to a regular expression: * and ? stay within a name,
// ** crosses folders, [...] is a class.
func Regexp(glob string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			if !strings.HasPrefix(glob[i:], "**") {
				b.WriteString("[^/]*")
				break
			}
			i++
			if strings.HasPrefix(glob[i+1:], "/") {
				i++
				b.WriteString("(?:.*/)?")
			} else {
				b.WriteString(".*")
			}
		case '?':
			b.WriteString("[^/]")
		case '{':
			if alt, n, ok := alternatives(glob[i:]); ok {
				b.WriteString(alt)
				i += n - 1
				break
			}
			b.WriteString(`\{`)
		case '[':
			end := strings.IndexByte(glob[min(i+2, len(glob)):], ']')
			if end < 0 {
				b.WriteString(`\[`)
				break
			}
			class := glob[i+1 : i+2+end]
			if strings.HasPrefix(class, "!") {
				class = "^" + class[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(class, `\`, `\\`) + "]")
			i += 2 + end
		case '\\':
			if i+1 < len(glob) {
				i++
			}
			b.WriteString(regexp.QuoteMeta(string(glob[i])))
		default:
			j := i + 1
			for j < len(glob) && !strings.ContainsRune(`*?[{\`, rune(glob[j])) {
				j++
			}
			b.WriteString(regexp.QuoteMeta(glob[i:j]))
			i = j - 1
		}
	}
	b.WriteString("$")
	return regexp.Compile("(?s)" + b.String())
}

// alternatives translates {a,b} at the start of s, without nesting.
func alternatives(s string) (expr string, length int, ok bool) {
	end := strings.IndexByte(s, '}')
	if end < 0 || !strings.Contains(s[:end], ",") {
		return "", 0, false
	}
	parts := strings.Split(s[1:end], ",")
	for i, p := range parts {
		re, err := Regexp(p)
		if err != nil {
			return "", 0, false
		}
		parts[i] = strings.TrimSuffix(strings.TrimPrefix(re.String(), "(?s)^"), "$")
	}
	return "(?:" + strings.Join(parts, "|") + ")", end + 1, true
}

// Matcher reports whether a path below the root of a search matches a glob: one
// without a slash looks at the name only.
func Matcher(glob string) (func(rel string) bool, error) {
	re, err := Regexp(strings.TrimPrefix(glob, "/"))
	if err != nil {
		return nil, err
	}
	if !strings.Contains(glob, "/") {
		return func(rel string) bool { return re.MatchString(path.Base(rel)) }, nil
	}
	return re.MatchString, nil
}

// Rule is one line of a .gitignore.
type Rule struct {
	dir     string // where the file is, "" for the root
	keep    bool   // a line with !
	folders bool   // a line with / at its end
	match   func(rel string) bool
}

// maxRule bounds a line of a .gitignore, in bytes. Longer ones are none.
const maxRule = 4_096

// ParseIgnore reads a .gitignore of the folder dir, at most most rules of it.
func ParseIgnore(dir string, text string, most int) []Rule {
	var rules []Rule
	for line := range strings.Lines(text) {
		if len(rules) >= most {
			break
		}
		line = strings.TrimRight(line, "\r\n")
		if !strings.HasSuffix(line, `\ `) {
			line = strings.TrimRight(line, " ")
		}
		if line == "" || len(line) > maxRule || strings.HasPrefix(line, "#") {
			continue
		}
		r := Rule{dir: dir}
		if strings.HasPrefix(line, "!") {
			r.keep, line = true, line[1:]
		}
		if strings.HasSuffix(line, "/") {
			r.folders, line = true, strings.TrimRight(line, "/")
		}
		m, err := Matcher(line)
		if err != nil || line == "" {
			continue
		}
		r.match = m
		rules = append(rules, r)
	}
	return rules
}

// Ignored applies rules; the last one that matches counts.
func Ignored(rules []Rule, rel string, folder bool) bool {
	verdict := false
	for _, r := range rules {
		if r.folders && !folder {
			continue
		}
		below := rel
		if r.dir != "" {
			var ok bool
			below, ok = strings.CutPrefix(rel, r.dir+"/")
			if !ok {
				continue
			}
		}
		if r.match(below) {
			verdict = !r.keep
		}
	}
	return verdict
}

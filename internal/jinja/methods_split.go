package jinja

import (
	"strings"
	"unicode/utf8"
)

// split is str.split and, from the right, str.rsplit.
func (st *state) split(name, s string, a arguments, right bool) []any {
	p := a.take(name, 0, "sep", "maxsplit")
	limit := intArg(p[1], -1)
	if p[0] == missing || p[0] == nil {
		return st.splitSpace(s, limit, right)
	}
	sep, ok := str(p[0])
	if !ok {
		defined(p[0])
		panic(typeErrorf("must be str or None, not %s", typeName(p[0])))
	}
	if sep == "" {
		panic(raisef("ValueError", "empty separator"))
	}
	st.size(16 * strings.Count(s, sep))
	if !right || limit < 0 {
		n := -1
		if limit >= 0 && limit < len(s) {
			n = limit + 1
		}
		return texts(strings.SplitN(s, sep, n))
	}
	var out []string
	for ; limit > 0; limit-- {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		out = append(out, s[i+len(sep):])
		s = s[:i]
	}
	return texts(reversed(append(out, s)))
}

func (st *state) splitSpace(s string, limit int, right bool) []any {
	st.size(8 * len(s))
	if limit < 0 {
		return texts(strings.FieldsFunc(s, isSpace))
	}
	var out []string
	if right {
		for s = strings.TrimRightFunc(s, isSpace); s != ""; limit-- {
			i := strings.LastIndexFunc(s, isSpace)
			if i < 0 || limit == 0 {
				out = append(out, s)
				break
			}
			_, n := utf8.DecodeRuneInString(s[i:])
			out = append(out, s[i+n:])
			s = strings.TrimRightFunc(s[:i], isSpace)
		}
		return texts(reversed(out))
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; limit-- {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 || limit == 0 {
			out = append(out, s)
			break
		}
		out = append(out, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
	}
	return texts(out)
}

func reversed(list []string) []string {
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

func texts(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

func isLineEnd(r rune) bool {
	return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

// lines cuts s as str.splitlines does, with the line ends kept.
func lines(s string) []string {
	var out []string
	for s != "" {
		i := strings.IndexFunc(s, isLineEnd)
		if i < 0 {
			return append(out, s)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		out = append(out, s[:i+n])
		s = s[i+n:]
	}
	return out
}

func splitLines(st *state, s string, a arguments) any {
	keep := a.take("splitlines", 0, "keepends")[0]
	st.size(16 * len(s))
	list := lines(s)
	if keep == missing || !st.truth(keep) {
		for i, l := range list {
			l = strings.TrimRightFunc(l, isLineEnd)
			list[i] = l
		}
	}
	return &List{texts(list)}
}

// replace is str.replace with a bound on the result.
func (st *state) replace(s, old, new string, count int) string {
	n := strings.Count(s, old)
	if count >= 0 {
		n = min(n, count)
	}
	if n > 0 && len(new) > st.maxBytes/n {
		panic(limitf("%d replacements by %d bytes exceed %d", n, len(new), st.maxBytes))
	}
	st.size(len(s) + n*max(len(new)-len(old), 0))
	return strings.Replace(s, old, new, count)
}

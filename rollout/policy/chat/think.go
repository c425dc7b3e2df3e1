package chat

import "strings"

// The tags around reasoning that models write into their content.
var thinkTags = []string{"think", "thinking", "thought", "reasoning", "REASONING_SCRATCHPAD"}

// thinker takes reasoning out of content while it streams. Only a tag at the very
// beginning opens reasoning, so that text which merely mentions a tag stays text. The
// zero value is ready.
type thinker struct {
	seen bool   // there were tags
	tag  string // the tag that is open
	done bool   // what follows is content
	held string // may be the beginning of a tag
}

// feed returns the reasoning and the content that are now certain.
func (t *thinker) feed(s string) (inner, outer string) {
	if s == "" {
		return "", ""
	}
	if t.done {
		return "", s
	}
	s = t.held + s
	t.held = ""
	if t.tag == "" {
		rest, tag, wait := opening(s)
		switch {
		case wait:
			t.held = s
			return "", ""
		case tag == "":
			t.done = true
			return "", s
		}
		t.tag = tag
		t.seen = true
		s = rest
	}
	end := "</" + t.tag + ">"
	if text, rest, ok := strings.Cut(s, end); ok {
		t.done = true
		return text, rest
	}
	keep := suffix(s, end)
	t.held = s[len(s)-keep:]
	return s[:len(s)-keep], ""
}

// opening reads white space and a tag; wait: more text is needed to tell.
func opening(s string) (rest, tag string, wait bool) {
	t := strings.TrimLeft(s, " \t\r\n")
	if t == "" {
		return s, "", true
	}
	for _, name := range thinkTags {
		open := "<" + name + ">"
		if strings.HasPrefix(t, open) {
			return t[len(open):], name, false
		}
		wait = wait || strings.HasPrefix(open, t)
	}
	return s, "", wait
}

// suffix is the length of the longest end of s that begins tag.
func suffix(s, tag string) int {
	for n := min(len(s), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(s, tag[:n]) {
			return n
		}
	}
	return 0
}

// end gives out what was held back.
func (t *thinker) end() (inner, outer string) {
	s := t.held
	t.held = ""
	if t.tag != "" && !t.done {
		return s, ""
	}
	return "", s
}

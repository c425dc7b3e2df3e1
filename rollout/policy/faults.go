package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"hermes/parsers"
	"hermes/trajectory"
)

// StateOf is what a family's parser says of a call.
func StateOf(s parsers.State) trajectory.CallState {
	if s == parsers.Complete {
		return trajectory.CallComplete
	}
	return trajectory.CallState(s)
}

// FaultsOf are the faults that a family's parser found in text. Of an answer without a call
// those are left out that are a tag which prose speaks of, or JSON that names no tool: an
// answer in JSON is an answer.
func FaultsOf(out parsers.Parsed, text func() string) []trajectory.Fault {
	if len(out.Faults) == 0 {
		return nil
	}
	faults := make([]trajectory.Fault, 0, len(out.Faults))
	for _, f := range out.Faults {
		if len(out.Calls) == 0 && (quoted(text(), f.Start) || f.Kind == "unknown_tool" && isJSON(text(), f.Start)) {
			continue
		}
		faults = append(faults, trajectory.Fault{Kind: f.Kind, Message: f.Message, From: f.Start, To: f.End})
	}
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// quoted reports whether the tag at byte at of text is spoken of in a sentence, as in
// "write <tool_call> and …": words are before it on its line and prose goes on behind it,
// or it is in back-ticks.
func quoted(text string, at int) bool {
	if at < 0 || at >= len(text) {
		return false
	}
	before := text[strings.LastIndexByte(text[:at], '\n')+1 : at]
	if strings.HasSuffix(before, "`") {
		return true
	}
	if fence := strings.Count(text[:at], "```"); fence%2 == 1 && !strings.HasPrefix(strings.TrimSpace(text), "```") {
		return true
	}
	if strings.TrimSpace(before) == "" {
		return false
	}
	end := strings.IndexAny(text[at:], ">]")
	if end < 0 {
		return false
	}
	behind := text[at+end+1:]
	r, n := utf8.DecodeRuneInString(behind)
	if r == ' ' {
		r, _ = utf8.DecodeRuneInString(behind[n:])
		return unicode.IsLetter(r)
	}
	return n > 0 && strings.ContainsRune("`'\".,;:!?)", r)
}

// isJSON reports whether JSON begins at byte at of text, rather than a tag or a name.
func isJSON(text string, at int) bool {
	if at < 0 || at >= len(text) {
		return false
	}
	s := strings.TrimSpace(text[at:])
	if rest, ok := strings.CutPrefix(s, "["); ok {
		s = strings.TrimSpace(rest)
	}
	return s != "" && strings.IndexByte("{[\"-0123456789", s[0]) >= 0
}

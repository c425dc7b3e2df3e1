package parsers

import (
	"slices"
	"strings"
)

// headers are the families that write messages with headers: behind each mark the words that
// may follow it in front of the next one, one of each entry. "to=" is any recipient, "@" the
// name of a call; "" is the beginning of the answer, where the prompt may have begun a header.
var headers = map[string]map[string][]string{
	"openai": harmonyHeaders("json"),
	"beam":   harmonyHeaders("xml"),
	"kimi_k3": {
		xOpen: {"response think tools"}, xClose: {"response think tools call argument"}, xSep: nil,
	},
	"muse":         museHeaders,
	"muse_glimmer": museHeaders,
	"gigachat3": {
		"<|message_sep|>": {"function", "call"}, "<|role_sep|>": nil, "</s>": nil,
	},
	"inkling": {
		"": {"@"}, "<|message_model|>": {"@"}, "<|end_message|>": nil, "<|content_text|>": nil, "<|content_thinking|>": nil,
		"<|content_invoke_tool_json|>": nil, "<|content_invoke_tool_text|>": nil, "<|content_tool_error|>": nil, "<|content_model_end_sampling|>": nil,
	},
}

var museHeaders = map[string][]string{
	"": {"assistant", "to="}, "<|start|>": {"assistant", "to="}, "<|message|>": nil, "<|eom|>": nil, "<|eot|>": nil,
	museCalls.open: nil, museCalls.close: nil,
}

func harmonyHeaders(form string) map[string][]string {
	return map[string][]string{
		"": {"assistant", "to="}, "<|start|>": {"assistant", "to="}, "<|channel|>": {"analysis commentary final", "to="}, "<|constrain|>": {form},
		"<|message|>": nil, "<|end|>": nil, "<|call|>": nil, "<|return|>": nil,
	}
}

// headed says that the frame a..b is marks and headers as the family writes them.
func (p *parse) headed(marks map[string][]string, a, b int) bool {
	allowed := marks[p.markBefore(a)]
	for i := a; i < b; {
		if mark := markAt(marks, p.text[i:b]); mark != "" {
			allowed = marks[mark]
			i += len(mark)
			continue
		}
		end := i + 1
		for end < b && (p.text[end] != '<' || markAt(marks, p.text[end:b]) == "") {
			end++
		}
		if !p.header(allowed, p.text[i:end]) {
			return false
		}
		allowed, i = nil, end
	}
	return true
}

// markBefore is the mark that ends at a, "" at the beginning of the answer, and else a text
// that is no mark.
func (p *parse) markBefore(a int) string {
	before := p.text[:a]
	if strings.TrimSpace(before) == "" {
		return ""
	}
	if i := strings.LastIndex(before, "<"); i >= 0 {
		return strings.TrimRight(before[i:], " \n")
	}
	return before
}

func markAt(marks map[string][]string, text string) string {
	for m := range marks {
		if m != "" && strings.HasPrefix(text, m) {
			return m
		}
	}
	return ""
}

// header says that text has allowed words only.
func (p *parse) header(allowed []string, text string) bool {
	allowed = slices.Clone(allowed)
	for _, w := range strings.Fields(text) {
		if strings.Trim(w, "`.,;:!?'\"") == "" {
			continue // no word
		}
		at := slices.IndexFunc(allowed, func(a string) bool {
			switch a {
			case "to=":
				to, ok := strings.CutPrefix(w, a)
				return ok && nameLike(to)
			case "@":
				return slices.ContainsFunc(p.out.Calls[:min(len(p.out.Calls), 64)], func(c Call) bool { return c.Name == w })
			}
			return slices.Contains(strings.Fields(a), w)
		})
		if at < 0 {
			return false
		}
		allowed = slices.Delete(allowed, at, at+1)
	}
	return true
}

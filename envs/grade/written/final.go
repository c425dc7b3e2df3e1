package written

import (
	"encoding/json"
	"strings"

	"hermes/internal/late"
)

var (
	tags    = late.Regexp(`(?is)<(answer|final[_-]?answer|ans|final|choice|option|result)\b[^<>]*>(.*?)(?:</(?:answer|final[_-]?answer|ans|final|choice|option|result)\s*>|$)`)
	joined  = late.Regexp(`(?i)^[\s,;.]*(?:(?:or|and|或|和)[\s,;]*)?$`)
	fenced  = late.Regexp("(?s)^```[a-zA-Z]*[ \t]*\r?\n?(.*?)\r?\n?```$")
	denying = late.Regexp(`(?i)(?:≠|!=|\\neq?\b|\b(?:not|never|no\s+longer|hardly|scarcely|nor|neither|isn't|aren't|wasn't|can't|cannot|couldn't|won't|doesn't|don't|ain't|rather than|anything but|everything but|different from|differs from|instead of|other than|except|excluding|unlike|(?:all|every)(?:\s+[a-z]+)?\s+but|better\s+than)|不是|不为|并非|而非|不等于|不选)(?:\s+(?:equal(?:s)?(?:\s+to)?|be|just|simply|exactly|pick|choose|select|say|take|go\s+with|a|an|the|option|choice|answer|answers|really|actually|possibly|ever|quite|in\s+fact|number|value))*[\s$("'` + "`" + `*_\[{<:]*(?:\\[(\[]|\\(?:text|textbf|mathrm|mathbf|boxed)\{)*\(?\s*[A-Za-z]?\s*=?\s*$`)
)

// Final is the part of an answer that counts: what follows the thinking; there, in
// the last <answer>…</answer>, or, where the whole is an object of JSON, in its member
// answer. Several pairs of tags side by side are one answer of several parts.
func Final(text string) string {
	if i := strings.LastIndex(text, "</think>"); i >= 0 {
		text = text[i+len("</think>"):]
	}
	if strings.Contains(text, "~~") || strings.Contains(text, "</") {
		text = struck.ReplaceAllString(text, " ") // ~~5~~ 7
	}
	text = strings.TrimSpace(text)
	if strings.Contains(text, "[/") {
		text = bracketed.ReplaceAllString(text, "<$1$2>")
	}
	if all := tagged(text); all != nil {
		last := len(all) - 1
		found := strings.TrimSpace(text[all[last][4]:all[last][5]])
		for i := last - 1; i >= 0 && joined.MatchString(text[all[i][1]:all[i+1][0]]); i-- {
			if part := strings.TrimSpace(text[all[i][4]:all[i][5]]); part != found {
				found = part + ", " + found
			}
		}
		text = found
	}
	if m := fenced.FindStringSubmatch(text); m != nil {
		text = strings.TrimSpace(m[1])
	}
	if strings.HasPrefix(text, "{") {
		if s, ok := member(text); ok {
			text = s
		}
	}
	if strings.Contains(text, "'") {
		text = thousands.ReplaceAllStringFunc(text, func(s string) string { return strings.ReplaceAll(s, "'", "") })
	}
	if strings.HasSuffix(strings.TrimRight(text, ". $*"), ")") {
		text = reasons.ReplaceAllString(text, "") // 5 (since b = 3)
	}
	text = Unwrap(text)
	if has(strings.ToLower(text), "minu", "negative") {
		text = spoken.ReplaceAllString(text, "$1-$2")
	}
	return text
}

var (
	// reasons are brackets at the end that say why
	reasons   = late.Regexp(`(?i)\s+\((?:since|because|as|where|using|by|from|given|rejecting|discarding|check(?:ing)?|see|recall|note)\b[^()\n]*\)[.\s*$]*$`)
	bracketed = late.Regexp(`(?i)\[(/?)(answer|final_answer|ans|result|choice)\]`)
	thousands = late.Regexp(`\b\d{1,3}(?:'\d{3})+\b`)
	// pythonic is the member of an object in single quotation marks.
	pythonic = late.Regexp(`(?is)^\{.*?'(?:answer|final_?answer|choice|option|result|solution)'\s*:\s*(?:'([^']*)'|"([^"]*)"|([-+\d.]+))\s*[,}]`)
)

// spoken is a sign in a word where a number begins: "is minus 3", not "10 minus 3".
var spoken = late.Regexp(`(?i)(^\s*|[:=(,$]\s*|\b(?:is|are|be|was|were|equals|to|or|and|of|get|gives|but|not)\s+)(?:minus|negative)\s+([$(\\]{0,2}[\d.])`)

func tagged(text string) [][]int {
	if !strings.Contains(text, "<") {
		return nil
	}
	return tags.FindAllStringSubmatchIndex(text, -1)
}

// member is the answer that an object of JSON gives.
func member(text string) (string, bool) {
	var o map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &o) != nil {
		if m := pythonic.FindStringSubmatch(text); m != nil {
			return strings.TrimSpace(m[1] + m[2] + m[3]), true
		}
		return "", false
	}
	for _, name := range []string{"answer", "final_answer", "finalAnswer", "Answer", "ANSWER", "choice", "option", "result", "solution"} {
		raw, ok := o[name]
		if !ok {
			continue
		}
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return strings.TrimSpace(s), true
		}
		return strings.TrimSpace(string(raw)), true
	}
	return "", false
}

// Unwrap takes off the quotation marks, back-ticks and signs of bold around a whole text.
func Unwrap(text string) string {
	for {
		text = strings.TrimSpace(text)
		if n := len(text); n > 2 && text[n-1] == '.' && text[n-2] == text[0] && strings.IndexByte("*_`\"'", text[0]) >= 0 {
			text = text[:n-1] // **6**.
		}
		bare := text
		for _, w := range []string{"```", "`", `"`, "'", "***", "**", "__", "*", "_"} {
			if len(text) > 2*len(w) && strings.HasPrefix(text, w) && strings.HasSuffix(text, w) && !strings.Contains(text[len(w):len(text)-len(w)], w) {
				bare = text[len(w) : len(text)-len(w)]
				break
			}
		}
		for _, tag := range []string{"b", "strong", "em", "i", "code", "u"} {
			if inner, ok := strings.CutPrefix(bare, "<"+tag+">"); ok {
				if inner, ok := strings.CutSuffix(inner, "</"+tag+">"); ok {
					bare = inner
				}
			}
		}
		if bare == text {
			return text
		}
		text = bare
	}
}

// Denied tells whether what follows a text is denied by its last words: "it is not".
func Denied(before string) bool {
	before = end(before)
	lower := strings.ToLower(before)
	return denies(lower) && denying.MatchString(before) || doubted(before) || ruledOut(before, lower)
}

// denies tells whether a text in small letters has what each match of denying has. No word
// has an s: the patterns read ſ as one, and it is no capital.
func denies(lower string) bool {
	return says(lower, "not", "never", "nor", "neither", "hardly", "than", "except", "excluding", "unlike") || has(lower, "but") && has(lower, "all", "every") ||
		has(lower, "n't", "cannot", "longer", "carcely", "thing but", "differ", "tead of", "≠", "!=", `\ne`, "不", "非")
}

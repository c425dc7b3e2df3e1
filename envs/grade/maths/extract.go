package maths

import (
	"regexp"
	"strings"
)

// Targets are what an answer is looked for in.
type Targets int

// The targets. Zero is both.
const (
	Latex Targets = 1 << iota // $…$, \(…\), \[…\], \boxed{…}
	Expr                      // plain numbers and expressions
)

// maxText bounds how much of an answer is read: its end.
const maxText = 1 << 16

// maxExpression bounds one expression.
const maxExpression = 4000

var (
	anchor  = regexp.MustCompile(`(?i)(?:final\s+answer|answer|solution)\**\s*(?:is|:)\s*:?\**\s*`)
	inline  = regexp.MustCompile(`\$\$((?:[^$]|\\\$)+?)\$\$|\$((?:\\\$|[^$\n])+?)\$|\\\(([^\n]+?)\\\)|(?s:\\\[(.+?)\\\])`)
	plain   = regexp.MustCompile(`[-−+]?[$€£]?(?:\d+ \d+/\d+|\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?/\s?\d+(?:\.\d+)?)?(?:\s*(?:\\?%|percent(?:age)?\b|pct\b))?`)
	behind  = regexp.MustCompile(`(?i)^(?:[\s.$]|\\[)\]])*(?:\\?%|percent(?:age)?\b|pct\b)`)
	between = regexp.MustCompile(`\\(?:quad|qquad|text|textbf|mathrm|[,;:! ()\[\]])|[\s$.{}]+`)
	prosy   = regexp.MustCompile(`[A-Za-z]{3,}\s+[A-Za-z]{2,}`)
	wordy   = regexp.MustCompile(`[A-Za-z]{2,}\s+\S|\S\s+[A-Za-z]{2,}`)
	spoken  = regexp.MustCompile(`\b(?:and|or|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|sqrt|log|ln|exp|abs|pi|inf)\b`)
	texts   = regexp.MustCompile(`\\text[a-z]*\{[^{}]*\}|\\mbox\{[^{}]*\}|\\[a-zA-Z]+`)
	twice   = regexp.MustCompile(`\\\\([A-Za-z()\[\]])`)
	// areas are units with a power, which is no number of its own
	areas   = regexp.MustCompile(`(\d\s?)(cm|mm|km|in|ft|yd|mi|(?:square |cubic )?(?:inch|feet|meter|metre|unit)s?)(?:\^\{?[23]\}?|[23²³])`)
	metres  = regexp.MustCompile(`(\d\s)m(?:\^\{?[23]\}?|[23²³])(\s*(?:$|[.,;)\]$]))`)
	endless = regexp.MustCompile(`(?i)(^|[^\\A-Za-z])infinity\b`)
	powered = regexp.MustCompile(`(\\(?:text|textrm|mbox)\{[^{}]*[A-Za-z.]\s*\}|\\mathrm\{\s*(?:[cmk]?m|in|ft)\s*\})\s*\^\s*\{?[23]\}?`)
	comma   = regexp.MustCompile(`^([-+]?\d+),(\d{1,2}|\d{4,})$`)
)

// extract finds the answer in a text: in boxes, after "the answer is", in the last formula
// or number. It is "" where there is none.
func extract(text string, targets Targets) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[len(text)-maxText:], "")
	}
	if targets == 0 {
		targets = Latex | Expr
	}
	text = strings.TrimSpace(text)
	text = endless.ReplaceAllString(text, `${1}\infty`)
	text = powered.ReplaceAllString(metres.ReplaceAllString(areas.ReplaceAllString(text, "$1$2"), "${1}m$2"), "$1")
	if !strings.Contains(text, `\begin{`) {
		text = twice.ReplaceAllString(text, `\$1`) // written as a program would
	}
	if found, ok := boxes(text); ok {
		return found
	}
	if all := anchor.FindAllStringIndex(text, -1); all != nil {
		tail := text[all[len(all)-1][1]:]
		tail = strings.ToValidUTF8(tail[:min(len(tail), 2*maxExpression)], "")
		if found := candidate(tail, targets, near(tail)); found != "" {
			return found
		}
	}
	if len(text) < maxExpression && !inline.MatchString(text) && !isProse(text) {
		return text
	}
	if found := candidate(text, targets, false); found != "" {
		return found
	}
	return ""
}

// isProse tells whether a text has words beside its mathematics.
func isProse(text string) bool {
	if strings.Contains(text, `\`) {
		return prosy.MatchString(texts.ReplaceAllString(text, " "))
	}
	return wordy.MatchString(spoken.ReplaceAllString(text, ""))
}

// near tells whether a formula or number stands at the beginning, behind at most one word.
func near(text string) bool {
	at := len(text)
	for _, re := range []*regexp.Regexp{inline, plain} {
		if m := re.FindStringIndex(text); m != nil {
			at = min(at, m[0])
		}
	}
	return len(strings.Fields(text[:at])) <= 1
}

// candidate is the first or the last formula or number.
func candidate(text string, targets Targets, first bool) string {
	pick := func(all [][]int) []int {
		if first {
			return all[0]
		}
		return all[len(all)-1]
	}
	from, to, found := -1, -1, ""
	formulas := inline.FindAllStringSubmatchIndex(text, -1)
	if targets&Latex != 0 && formulas != nil {
		m := pick(formulas)
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 {
				found = text[m[g]:m[g+1]]
			}
		}
		if from, to = m[0], m[1]; behind.MatchString(text[to:]) {
			found += "%"
		}
	}
	if targets&Expr == 0 {
		return found
	}
	hidden := []byte(text)
	for _, m := range formulas {
		for i := m[0]; i < m[1] && targets&Latex != 0; i++ {
			hidden[i] = ' '
		}
	}
	if all := plain.FindAllIndex(hidden, -1); all != nil {
		m := pick(all)
		if from < 0 || first && m[0] < from || !first && m[0] > to {
			found = strings.TrimRight(text[m[0]:m[1]], ",")
			if m[0] > 0 && text[m[0]-1] >= '0' && text[m[0]-1] <= '9' {
				found = strings.TrimLeft(found, "-−+") // 10-12 ends in 12
			}
		}
	}
	return found
}

// boxes joins the contents of the last \boxed{}, and of those before it that belong to it:
// \boxed{1} and \boxed{2}.
func boxes(text string) (string, bool) {
	type box struct {
		from, to int
		inner    string
	}
	var all []box
	for i := 0; len(all) < 1000; {
		at, skip := strings.Index(text[i:], `\boxed`), len(`\boxed`)
		if f := strings.Index(text[i:], `\fbox`); at < 0 || f >= 0 && f < at {
			at, skip = f, len(`\fbox`)
		}
		if at < 0 {
			break
		}
		at += i
		inner, after, ok := braces(text, at+skip)
		if !ok {
			after = len(text)
			if inner, ok = strings.CutPrefix(strings.TrimSpace(text[at+skip:]), "{"); !ok {
				i = at + skip
				continue
			}
			inner = strings.TrimRight(inner, " $]\\") // it was cut off
		}
		all = append(all, box{at, after, inner})
		i = after
	}
	if len(all) == 0 {
		return "", false
	}
	last := len(all) - 1
	joined := all[last].inner
	for i := last - 1; i >= 0 && joins(text[all[i].to:all[i+1].from]); i-- {
		joined = all[i].inner + ", " + joined
	}
	if behind.MatchString(text[all[last].to:]) {
		joined += "%"
	}
	return joined, true
}

// joins tells whether the text between two boxes makes them one answer.
func joins(text string) bool {
	if len(text) > 100 {
		return false
	}
	rest := strings.TrimSpace(between.ReplaceAllString(text, " "))
	if rest == "" || rest == "," || rest == ";" {
		return true
	}
	for _, w := range strings.Fields(rest) {
		if w = strings.ToLower(strings.Trim(w, ",;")); w == "and" || w == "or" {
			return true
		}
	}
	return false
}

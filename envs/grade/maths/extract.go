package maths

import (
	"cmp"
	"slices"
	"strings"

	"hermes/envs/grade/written"
	"hermes/internal/late"
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
	anchor = late.Regexp(`(?i)(?:(?:final\s+|correct\s+)*(?:answers?|solutions?)[*_]*\s*(?:is|are|:|=)|(?:(?:最终|正确|最后)?答案|答え|정답|ответ|antwort|réponse|respuesta|risposta)[*_]*\s*(?:是|为|為|は|ist|est|es|è)?)\s*:?[*_]*\s*`)
	inline = late.Regexp(`\$\$((?:[^$]|\\\$)+?)\$\$|\$((?:\\\$|[^$\n])+?)\$|\\\(([^\n]+?)\\\)|(?s:\\\[(.+?)\\\])`)
	plain  = late.Regexp(`[-+]?[$€£¥]?(?:\d+ \d+/\d+|(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+\b)?)(?:\s?/\s?\d+(?:\.\d+)?)?` +
		`(?:\s*(?:\\times|\\cdot|[×x*·])\s*10\s*(?:\^|\*\*)\s*(?:\{\s*[-+]?\d+\s*\}|[-+]?\d+))?(?:\s?(?:\^|\*\*)\s?(?:\{[-+]?\d+\}|[-+]?\d+))?` +
		`(?:\s*(?:\\?%|percent(?:age)?\b|pct\b)|\s?(?i:degrees?\s+(?:celsius|fahrenheit|[CF])\b)|\s?(?:` + unitWords + `)(?:[²³]|\b)(?:\s?(?:/|per\b)\s?(?:` + unitWords + `)(?:[²³]|\b))?|\s?°\s?[CF]\b|\s?°)?`)
	behind  = late.Regexp(`(?i)^(?:[\s.$]|\\[)\]])*(?:\\?%|percent(?:age)?\b|pct\b)`)
	between = late.Regexp(`\\(?:quad|qquad|text|textbf|mathrm|[,;:! ()\[\]])|[\s$.{}]+`)
	prosy   = late.Regexp(`[A-Za-z]{3,}\s+[A-Za-z]{2,}`)
	wordy   = late.Regexp(`[A-Za-z]{2,}\s+\S|\S\s+[A-Za-z]{2,}`)
	spoken  = late.Regexp(`\b(?:and|or|sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|sqrt|log|ln|exp|abs|pi|inf)\b`)
	texts   = late.Regexp(`\\text[a-z]*\{[^{}]*\}|\\mbox\{[^{}]*\}|\\[a-zA-Z]+`)
	twice   = late.Regexp(`\\\\([A-Za-z()\[\]])`)
	// areas are units with a power, which is no number
	areas   = late.Regexp(`(\d\s?)(cm|mm|km|in|ft|yd|mi|(?:square |cubic )?(?:inch|feet|meter|metre|unit)s?)(?:\^\{?([23])\}?|([23]))`)
	metres  = late.Regexp(`(\d\s)m(?:\^\{?([23])\}?|([23]))(\s*(?:$|[.,;)\]$]))`)
	endless = late.Regexp(`(?i)(^|[^\\A-Za-z])infinity\b`)
	powered = late.Regexp(`(\\(?:text|textrm|mbox)\{[^{}]*[A-Za-z.]|\\mathrm\{\s*(?:[cmk]?m|in|ft))(?:\s*\^\s*\{?([23])\}?\s*\}|\s*\}\s*\^\s*\{?([23])\}?)`)
	comma   = late.Regexp(`^([-+]?\d+),(\d{1,2}|\d{4,})$`)
)

// extract finds the answer in a text: in boxes, after "the answer is", in the last formula
// or number. It is "" where there is none.
func extract(text string, targets Targets) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[len(text)-maxText:], "")
	}
	targets = cmp.Or(targets, Latex|Expr)
	text = written.Final(written.Fold(text))
	text = inDigits(written.Plain(text))
	if strings.Contains(text, `\blacksquare`) || strings.Contains(text, `\square`) || strings.Contains(text, "∎") {
		text = proved.ReplaceAllString(text, "")
	}
	if strings.Contains(text, `\text`) && saidWrong.MatchString(text) {
		return ""
	}
	if m := continental.FindStringSubmatch(text); m != nil {
		text = m[1] + strings.NewReplacer(".", "", ",", ".").Replace(m[2]) + m[3]
	}
	text = endless.ReplaceAllString(text, `${1}\infty`)
	if strings.Contains(text, "vs.") || strings.Contains(text, "resp.") || strings.Contains(text, "bzw.") {
		text = abbreviated.ReplaceAllString(text, "$1")
	}
	if strings.Contains(text, "10^") || strings.Contains(text, "10 ^") || strings.Contains(text, "10*") {
		text = crossed.ReplaceAllString(text, "$1*10$2")
	}
	if strings.Contains(text, "/") && strings.Contains(text, "^") {
		text = divided.ReplaceAllString(text, "$1<$2$3>")
	}
	text = metres.ReplaceAllString(areas.ReplaceAllString(text, "$1$2<$3$4>"), "${1}m<$2$3>$4")
	text = powers.Replace(powered.ReplaceAllString(text, "$1<$2$3>}"))
	text = squares(text)
	if none(text) {
		return `\emptyset`
	}
	if !strings.Contains(text, `\begin{`) {
		text = twice.ReplaceAllString(text, `\$1`) // written as a program would
	}
	if found, ok := boxes(text); ok {
		if none(found) {
			return `\emptyset`
		}
		return found
	}
	if all := anchor.FindAllStringIndex(text, -1); all != nil {
		tail := text[all[len(all)-1][1]:]
		tail = strings.ToValidUTF8(tail[:min(len(tail), 2*maxExpression)], "")
		tail = strings.TrimLeft(tail, "}")                   // \text{The answer is }5
		if rest, ok := strings.CutPrefix(tail, "n't "); ok { // isn't
			tail = "not " + rest
		} else if written.Denied(text[:all[len(all)-1][0]]) { // I don't think the answer is
			tail = "not " + tail
		}
		if found := stated(tail, targets); found != "" {
			return found
		}
	}
	if said := aside.ReplaceAllString(text, ""); len(said) < maxExpression && said != "" && !inline.MatchString(said) && !isProse(said) {
		return said
	}
	all := items(text, targets)
	if found := ranged(all, text); found != "" {
		return found
	}
	return last(all, text)
}

// inDigits writes "2.5 million" as a product.
func inDigits(text string) string {
	if strings.Contains(text, "real") && allReal.MatchString(strings.TrimSpace(text)) {
		return `\mathbb{R}`
	}
	if !strings.Contains(text, "illion") && !strings.Contains(text, "ousand") {
		return text
	}
	return scaled.ReplaceAllStringFunc(text, func(s string) string {
		m := scaled.FindStringSubmatch(s)
		return m[1] + `*10^{` + map[string]string{"thousand": "3", "million": "6", "billion": "9", "trillion": "12"}[strings.ToLower(m[2])] + "} "
	})
}

// squares writes "square meters" as meters².
func squares(text string) string {
	if lower := strings.ToLower(text); !strings.Contains(lower, "sq") && !strings.Contains(lower, "cu") {
		return text
	}
	return spelledPowers.ReplaceAllStringFunc(text, func(m string) string {
		p := spelledPowers.FindStringSubmatch(m)
		if p[2][0] == 's' || p[2][0] == 'S' {
			return p[1] + p[3] + "²"
		}
		return p[1] + p[3] + "³"
	})
}

// none tells whether a text says that there is no answer.
func none(text string) bool {
	return len(text) < 200 && nothing.MatchString(wrapped.ReplaceAllString(strings.ReplaceAll(text, `\ `, " "), "$1"))
}

var (
	nothing     = late.Regexp(`(?i)^[\s$*_]*(?:there\s+(?:is|are|exists?)\s+|(?:the|this)\s+(?:equation|system|inequality|problem)\s+has\s+)?no\s+(?:(?:real|integer|valid|possible|rational|such)\s+)*(?:solutions?|roots?)(?:\s+exists?)?[\s.!$*_]*$`)
	abbreviated = late.Regexp(`\b(vs|resp|bzw)\.`)
	// proved ends a proof; continental is all of an answer: 1.234,5
	proved = late.Regexp(`(?:\s|\$|\\q?quad\b|\\hfill\b)*(?:\\(?:black)?square\b|∎)[\s$]*$`)
	// saidWrong takes back what is before it, within a formula
	saidWrong   = late.Regexp(`(?i)[\d})]\s*\\text\w*\{\s*\(?\s*(?:(?:is|was)\s+(?:clearly\s+)?)?(?:wrong|incorrect|false|rejected|extraneous|invalid|impossible|not\s+(?:the\s+answer|correct|right|valid|true))\b[^{}]*\}[\s.$]*$`)
	continental = late.Regexp(`^([\s$*]*[-+]?\s*(?:\\?[$€£]\s*)?)(\d{1,3}(?:\.\d{3})+,\d+)((?:\s*[€$%]|\s+[a-z]+)?[\s$.*]*)$`)
	// divided is the power of the unit behind a stroke: m/s^2
	divided = late.Regexp(`(/\s*(?:\\text\s*\{\s*|\\mathrm\s*\{\s*)?(?:s|h|hr|min|sec|cm|mm|m|km|in|ft))\b(?:\s?\^\s?(?:\{([23])\}|([23])))`)
	scaled  = late.Regexp(`(?i)(\d)(?:\s|\\[ ,])*(?:\\text\s*\{\s*)?\b(thousand|million|billion|trillion)s?\b\s*\}?`)
	allReal = late.Regexp(`(?i)^(?:x\s+(?:is|can\s+be)\s+)?(?:the\s+set\s+of\s+)?(?:all|any)\s+real(?:\s+numbers?)?\.?$`)
	crossed = late.Regexp(`(\d)\s*[xX]\s*10\s*(\^|\*\*)`)
	powers  = strings.NewReplacer("<2>", "²", "<3>", "³")
	// spelledPowers are units with a power in words
	spelledPowers = late.Regexp(`(?i)(\d\s*|\{\s*)(square|sq\.?|cubic|cu\.?)\s+(cm|mm|km|m|in|ft|yd|mi|inch(?:es)?|feet|foot|yards?|miles?|(?:centi|kilo|milli)?met(?:er|re)s?|units?)\b`)
)

// ranged are the answers of a text that only says from where to where, or in which case
// which.
func ranged(all []item, text string) string {
	if len(all) < 2 || !opening.MatchString(text[:all[0].from]) {
		return ""
	}
	if ranges.MatchString(text[all[0].to:all[1].from]) && !remark.MatchString(text[all[1].to:]) {
		return all[0].text + ", " + all[1].text
	}
	if rest := text[all[0].to:all[1].from]; len(all) == 2 && strings.Contains(rest, "\n") && strings.Trim(rest+text[all[1].to:], " \t\r\n.,;*_$`") == "" {
		return all[0].text + ", " + all[1].text // one below the other
	}
	if inCase.MatchString(text[all[0].to:]) {
		for i := 1; i < len(all); i++ {
			if inCase.MatchString(text[all[i].to:]) || elsewise.MatchString(text[all[i].to:]) || elsewise.MatchString(text[all[i-1].to:all[i].from]) {
				return all[0].text + ", " + all[i].text
			}
		}
	}
	return ""
}

var (
	opening  = late.Regexp(`(?i)^\W*(?:it\s+is\s+|from\s+|[a-z]\s*=\s*)?$`)
	ranges   = late.Regexp(`(?i)^[\s$*_]*\b(?:to|through|until|unless(?:\s+it(?:'s|\s+is|\s+equals))?)\b[\s$*_]*$`)
	inCase   = late.Regexp(`(?i)^[\s$*_,(]*(?:if|when|for|unless|provided)\b`)
	elsewise = late.Regexp(`(?i)^[\s$*_,;(]*(?:(?:and|or|but)\s+)?(?:otherwise|else)\b`)
)

// stated is the answer that "the answer is" announces.
func stated(tail string, targets Targets) string {
	sentence := firstSentence(tail)
	if more := furtherOne.FindString(tail[len(sentence):]); more != "" { // 5. Or 7.
		sentence += more + firstSentence(tail[len(sentence)+len(more):])
	}
	for more := furtherLine.FindStringSubmatchIndex(tail[min(len(sentence), len(tail)):]); more != nil; more = furtherLine.FindStringSubmatchIndex(tail[len(sentence):]) {
		sentence = tail[:len(sentence)+more[3]] // a line with nothing else
	}
	if rest := tail[min(len(sentence), len(tail)):]; targets&Expr != 0 {
		if at := written.Corrected(rest); at > 0 && correction.MatchString(rest[at:]) {
			return stated(rest[at:], targets)
		}
	}
	if none(sentence) {
		return `\emptyset`
	}
	if m := oneWord.FindStringSubmatch(tail); m != nil && targets&Expr != 0 {
		return m[1]
	}
	sentence = furtherStop.ReplaceAllString(sentence, " $1")
	sentence = broken.ReplaceAllString(sentence, "$1, ")
	if targets&Expr != 0 && !inline.MatchString(sentence) && len(sentence) < maxExpression && !isProse(sentence) && strings.ContainsAny(sentence, "0123456789") {
		return written.Unwrap(strings.Trim(sentence, " .,;*_`\""))
	}
	all := items(sentence, targets)
	if found := ranged(all, sentence); found != "" {
		return found
	}
	if found := first(all, sentence); found != "" && near(sentence, all) {
		return found
	}
	if found := last(all, sentence); found != "" {
		return found
	}
	if denies(all) {
		tail = tail[min(len(sentence), len(tail)):]
	}
	return last(items(tail, targets), tail)
}

var (
	oneWord    = late.Regexp(`^[\s*_"'` + "`" + `]*([A-Za-z]{3,})[*_"'` + "`" + `]*[.!]?\s*$`)
	furtherOne = late.Regexp(`(?i)^[.;!?\s]*\b(?:or|alternatively|otherwise|maybe|perhaps|possibly)\b,?`)
	// furtherLine is another answer, alone behind a semicolon or on a line.
	furtherLine = late.Regexp(`^[\s.*_` + "`" + `]*?[;\n][\s*_` + "`" + `]*((?:[A-Za-z]\s*=\s*)?(?:\$[^$\n]+\$|\\\([^\n]+?\\\)|[-+]?\d[\d,./]*\d|[-+]?\d))[*_` + "`" + `]*[ \t\r.]*(?:\n|;|$)`)
	broken      = late.Regexp(`([\d$)*_])[ \t*_]*[;\n]\s*`)
	// correction is an answer, alone in its sentence, that replaces another one
	correction  = late.Regexp(`^[\s*_` + "`" + `]*(?:[A-Za-z]\s*=\s*)?(?:\$[^$\n]+\$|\\\([^\n]+?\\\)|\\?[$€£]?[-+]?\d[\d,./]*)(?:\s?(?:` + unitWords + `))?[*_` + "`" + `]*\s*(?:[.,;!?\n]|$)`)
	furtherStop = late.Regexp(`(?i)[.;!?]\s+((?:or|alternatively|otherwise|maybe|perhaps|possibly)\b)`)
	unitBehind  = late.Regexp(`^\s?((?:` + unitWords + `)(?:[²³]|\b)(?:\s?(?:/|per\b)\s?(?:` + unitWords + `)(?:[²³]|\b))?)`)
	aside       = late.Regexp(`\s*\([A-Za-z][A-Za-z ,-]{2,}\)\s*$`) // 6 (six)
	sentenceEnd = late.Regexp(`[.;!?](?:\s|$)|\n`)
	// linked is between two answers of one list; remark behind the second says that
	// it begins something else.
	linked = late.Regexp(`(?i)^(?:[\s,;.()\[\]{}*_"'$` + "`" + `]|\\(?:quad|qquad|[,;: ()\[\]])|\b(?:or|and|either|maybe|perhaps|possibly|alternatively|also|even|else|then|if not|vs|versus|resp|bzw|oder|ou|und|et|plus|as well as|otherwise|unless(?:\s+it(?:'s|\s+is))?|或者?|和|以及)\b|[或和]|/|&|[A-Za-z]\s*=)*$`)
	choice = late.Regexp(`(?i)^\W*(?:[A-Za-z]+\W+){0,2}\bor\b\W+(?:[A-Za-z]+\W+){0,3}$|或`)
	orSo   = late.Regexp(`(?i)\bor\s+(?:so|more|less|fewer)\b`)
	binds  = late.Regexp(`(?i)[,;、&]|\b(?:or|and|maybe|perhaps|possibly|alternatively|vs|versus|resp|bzw|oder|ou|und|et|plus|as well as|otherwise|unless|else)\b|[或和]|以及`)
	remark = late.Regexp(`(?i)^[\s*_$` + "`" + `]*(?:is|are|was|were|does|did|do|has|have|can|will|would|being|more|less|of|times|fewer|because|since|as|was|decimals?|significant|places|digits|dp|sf|d\.p|s\.f)\b`)
)

// firstSentence is the first line or sentence with anything in it; formulas are no ends.
func firstSentence(text string) string {
	from := len(text) - len(strings.TrimLeft(text, " \t\r\n*_"))
	formulas := inline.FindAllStringIndex(text, -1)
	for _, m := range sentenceEnd.FindAllStringIndex(text[from:], -1) {
		at := from + m[0]
		inside := slices.ContainsFunc(formulas, func(f []int) bool { return f[0] < at && at < f[1] })
		if !inside && strings.ContainsAny(text[from:at], "0123456789$\\") {
			return text[:at]
		}
	}
	return text
}

// item is a formula or a number in a text.
type item struct {
	from, to int
	text     string
	denied   bool // "not 5"
}

// items lists the formulas and, outside of them, the numbers of a text.
func items(text string, targets Targets) []item {
	var out []item
	formulas := inline.FindAllStringSubmatchIndex(text, -1)
	for _, m := range formulas {
		if targets&Latex == 0 {
			break
		}
		one := item{from: m[0], to: m[1]}
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 {
				one.text = text[m[g]:m[g+1]]
			}
		}
		if behind.MatchString(text[one.to:]) {
			one.text += "%"
		} else if m := unitBehind.FindStringSubmatch(text[one.to:]); m != nil && strings.ContainsAny(one.text[max(0, len(one.text)-1):], "0123456789})") {
			one.text += " " + m[1] // $5$ cm
		}
		out = append(out, one)
	}
	if targets&Expr != 0 {
		hidden := []byte(text)
		for _, m := range formulas {
			for i := m[0]; i < m[1] && targets&Latex != 0; i++ {
				hidden[i] = ' '
			}
		}
		for _, m := range plain.FindAllIndex(hidden, -1) {
			found := strings.TrimRight(text[m[0]:m[1]], ",")
			if m[0] > 0 && text[m[0]-1] >= '0' && text[m[0]-1] <= '9' {
				found = strings.TrimLeft(found, "-+") // 10-12 ends in 12
			}
			out = append(out, item{from: m[0], to: m[1], text: found})
		}
	}
	slices.SortFunc(out, func(a, b item) int { return a.from - b.from })
	for i := range out {
		before := text[:out[i].from]
		out[i].denied = written.Denied(before) || written.DeniedBehind(text[out[i].to:])
		if sign := cmp.Or(written.Bound(before), written.BoundBehind(text[out[i].to:])); sign != "" {
			out[i].text = sign + " " + out[i].text // "at least 5" is no 5
		}
	}
	return out
}

func denies(all []item) bool {
	return slices.ContainsFunc(all, func(x item) bool { return x.denied })
}

// near tells whether the first item that is not denied is at the beginning, behind at
// most one word.
func near(text string, all []item) bool {
	i := slices.IndexFunc(all, func(x item) bool { return !x.denied })
	return i >= 0 && len(strings.Fields(text[:all[i].from])) <= 1
}

// together tells whether b goes on with the list that a is in: 5 or 7; 5, 6. An "or" in a
// few words between them makes b another answer, too.
func together(a, b item, text string) bool {
	between := text[a.to:b.from]
	if a.denied || b.denied || len(between) > 60 || remark.MatchString(text[b.to:]) && !choice.MatchString(between) {
		return false
	}
	return linked.MatchString(between) && binds.MatchString(between) ||
		choice.MatchString(between) && !sentenceEnd.MatchString(between) && !orSo.MatchString(between)
}

// first is the first item with those that belong to it.
func first(all []item, text string) string {
	i := slices.IndexFunc(all, func(x item) bool { return !x.denied })
	if i < 0 {
		return ""
	}
	found := all[i].text
	for ; i+1 < len(all) && together(all[i], all[i+1], text); i++ {
		found += ", " + all[i+1].text
	}
	return found
}

// last is the last item with those that belong to it.
func last(all []item, text string) string {
	i := len(all) - 1
	for i >= 0 && all[i].denied {
		i--
	}
	if i < 0 {
		return ""
	}
	found := all[i].text
	for ; i > 0 && together(all[i-1], all[i], text); i-- {
		found = all[i-1].text + ", " + found
	}
	return found
}

// isProse tells whether a text has words beside its mathematics.
func isProse(text string) bool {
	if strings.Contains(text, `\`) {
		return prosy.MatchString(texts.ReplaceAllString(text, " "))
	}
	return wordy.MatchString(spoken.ReplaceAllString(text, ""))
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
			inner, ok = strings.CutPrefix(strings.TrimSpace(text[at+skip:]), "{")
			if !ok {
				i = at + skip
				continue
			}
			inner = strings.TrimRight(inner, " $]\\") // it was cut off
		}
		if !written.Denied(text[:at]) && !written.DeniedBehind(text[after:]) {
			all = append(all, box{at, after, inner})
		}
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
		w = strings.ToLower(strings.Trim(w, ",;"))
		if w == "and" || w == "or" {
			return true
		}
	}
	return false
}

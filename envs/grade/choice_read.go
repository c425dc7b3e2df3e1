package grade

import (
	"strings"
	"unicode/utf8"

	"hermes/envs/grade/written"
	"hermes/internal/late"
)

const (
	// dress is what a letter may wear in front, undress behind.
	dress   = `(?:[\s("'` + "`" + `*_$\[{<]|\\[(\[]|\\(?:boxed|fbox|text|textbf|textit|textrm|mathrm|mathbf|mathit|bf|rm)\b\s*\{?|(?:option|choice|answer|letter|选项)\s*:?\s*)*`
	undress = `(?:[)"'` + "`" + `*_$\]}>.:]|\\[)\]])*`
	also    = `(?:[\s([]|\\(?:text|mbox|textbf|mathrm)\s*\{)*(?:[,;]\s*)?(?:but\s+)?(?:(?:and/or|or|and|as\s+well\s+as|plus|versus|vs\.?|resp\.?|bzw\.?|maybe|possibly|perhaps|alternatively|otherwise|unless|oder|und|ou|et|through|to|y|e|o)\b|或者?|和|及|以及|还是|還是)[\s,.}]*(?:(?:maybe|possibly|perhaps|also|even|else|alternatively|it\s+is|it's)\s+)*`
)

var (
	answerIs = late.Regexp(`(?i)(?:\b(?:answers?|choice|option)(?:[*_]*\s*(?:is|are|would be|should be|must be|will be))?|(?:正确|正確|最终|最終|最佳)?(?:答案|选项|選項|选择|選擇)(?:[*_]*(?:是|为|為|应为|应该是|選|选))?|(?:故选|故選|应选|應選|应该选|我选|选|選)(?:择|擇)?|答え[はが]?|정답[은는이]?|ответ|antwort(?:\s+ist)?|réponse(?:\s+est)?|respuesta(?:\s+es)?|risposta(?:\s+è)?)[*_]*\s*[:=]?[*_]*(n't\s)?`)
	letterAt = late.Regexp(`^` + dress + `([A-Za-z])` + undress + `(?:[^A-Za-z]|$)`)
	boxedIn  = late.Regexp(`\\(?:boxed|fbox)\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}`)
	lone     = late.Regexp(`(?:^|[^A-Za-z0-9'’\\])([A-Z])(?:[^A-Za-z0-9'’]|$)`)
	// either is between two letters where an answer does not decide, listed where it
	// only may.
	either = late.Regexp(`(?i)^` + undress + `(?:` + also + `|\s*[/|&+]\s*)` + dress + `$`)
	listed = late.Regexp(`(?i)^` + undress + `\s*[,;、]\s*` + dress + `$`)
	// remark follows a letter that begins another sentence.
	remark     = late.Regexp(`(?i)^` + undress + `\s*(?:is|are|was|were|does|do|did|has|have|can|could|cannot|will|would|seems?|fails?|because|since|says|states)\b`)
	refused    = late.Regexp(`(?i)^` + undress + `\s*(?:is|are|was|were|seems|looks|must be|would be|不|是错|错)\s*(?:(?:clearly|also|definitely|obviously|therefore|thus)\s+)?(?:not\b|wrong|incorrect|false|out\b|ruled out|eliminated|impossible|unlikely|(?:an?|the) (?:wrong|bad|poor|incorrect) (?:answer|choice|option|guess|one|idea|pick)|n't\b|对|正确|误|的)`)
	isnt       = late.Regexp(`(?i)^` + undress + `\s*(?:isn't|aren't|wasn't|can't|cannot)\b`)
	article    = late.Regexp(`^[AIa]\s+[a-z]`)
	verdictOnA = late.Regexp(`^A\s+(?:or|and|is|isn't|was|not|because|since|but|seems|as)\b`)
	instead    = late.Regexp(`(?i)^[^.\n]{0,30}?(?:\bbut\b|\bit's\b|\bit is\b|,|;|而是|应该是|是)\s*(?:rather\s+)?`)
)

// pronoun tells whether a text begins with the word A or I: "A bird", "I think".
func pronoun(text string) bool { return article.MatchString(text) && !verdictOnA.MatchString(text) }

// choices reads letters among the first count.
type choices int

func (n choices) valid(letter string) (string, bool) {
	letter = strings.ToUpper(letter)
	return letter, letter != "" && letter[0] >= 'A' && int(letter[0]-'A') < int(n)
}

// chosen is the letter among the first count that a text chooses: in the last box, behind
// the last "the answer is", else the last one that is alone. Letters that are denied
// ("not B", "B is wrong") are not chosen, and of several ("A or B") none is.
func chosen(text string, count int) (string, bool) {
	n := choices(count)
	text = written.Final(written.Fold(text))
	if boxes := boxedIn.FindAllStringSubmatchIndex(text, -1); boxes != nil {
		if s, decided := n.boxed(text, boxes); decided {
			return s, s != ""
		}
	}
	marks := announced(text)
	for i := len(marks) - 1; i >= 0; i-- {
		tail := text[marks[i][1]:]
		if plural.MatchString(tail) && optionWord.MatchString(text[marks[i][0]:marks[i][1]]) {
			continue // "options A and C are wrong" announces none
		}
		if before := text[:marks[i][0]]; marks[i][2] >= 0 || strings.HasSuffix(before, "不") || strings.HasSuffix(before, "别") || written.Denied(before) {
			tail = "not " + tail
		}
		if s, decided := n.behind(tail); decided {
			return s, s != ""
		}
	}
	if t := strings.Trim(text, " ()[]{}<>.*$_`\"':"); len(t) == 1 {
		if s, ok := n.valid(t); ok {
			return s, true
		}
	}
	if s, ok := n.headed(text); ok {
		return s, true
	}
	return n.alone(text)
}

// headed is the letter that is all of the first line, where words follow and no other line is
// only a letter: "B", then why.
func (n choices) headed(text string) (string, bool) {
	line, rest, _ := strings.Cut(text, "\n")
	m := lineOf.FindStringSubmatch(line)
	if m == nil || !prosy.MatchString(rest) {
		return "", false
	}
	for l := range strings.Lines(rest) {
		if lineOf.MatchString(strings.TrimRight(l, "\r\n")) {
			return "", false
		}
	}
	return n.valid(m[1])
}

var (
	lineOf = late.Regexp(`^` + dress + `([A-Z])` + undress + `\s*$`)
	prosy  = late.Regexp(`[A-Za-z]{3,}\s+[A-Za-z]+`)
)

// announced are the places of answerIs. In a text of ASCII they are looked for behind its first
// word that can begin one; other letters may be capitals of these, or come before them.
func announced(text string) [][]int {
	from := 0
	if strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
		lower := strings.ToLower(text)
		from = -1
		for _, w := range []string{"answer", "choice", "option", "antwort", "respuesta", "risposta"} {
			if i := strings.Index(lower, w); i >= 0 && (from < 0 || i < from) {
				from = i
			}
		}
		if from < 0 {
			return nil
		}
		from = max(0, from-1) // what is before a word decides whether it begins there
	}
	marks := answerIs.FindAllStringSubmatchIndex(text[from:], -1)
	for _, m := range marks {
		for i := range m {
			if m[i] >= 0 {
				m[i] += from
			}
		}
	}
	return marks
}

// boxed reads the last box; decided with no letter means that several are named.
func (n choices) boxed(text string, boxes [][]int) (letter string, decided bool) {
	last := boxes[len(boxes)-1]
	if written.Denied(text[:last[0]]) {
		return "", false
	}
	inner := text[last[2]:last[3]]
	m := letterAt.FindStringSubmatchIndex(inner)
	if m == nil {
		return "", false
	}
	s, ok := n.valid(inner[m[2]:m[3]])
	if !ok || inner[m[2]] > 'Z' && len(strings.TrimSpace(inner[m[3]:])) > 3 {
		return "", false
	}
	if n.several(inner, m[3], s) {
		return "", true
	}
	if len(boxes) > 1 {
		before := boxes[len(boxes)-2]
		between := strings.TrimSpace(text[before[1]:last[0]])
		other := letterAt.FindStringSubmatch(text[before[2]:before[3]])
		if other != nil && !strings.EqualFold(other[1], s) && (between == "" || either.MatchString(between) || listed.MatchString(between)) {
			return "", true
		}
	}
	return s, true
}

// behind reads what follows "the answer is".
func (n choices) behind(tail string) (letter string, decided bool) {
	tail = strings.TrimLeft(tail, " \t\r\n*_:=])>#-")
	for range 8 { // not A, not B but C
		rest, not := denial(tail)
		m := letterAt.FindStringSubmatchIndex(rest)
		if m == nil {
			return "", false
		}
		letter, ok := n.valid(rest[m[2]:m[3]])
		lower := rest[m[2]] >= 'a'
		if !ok || pronoun(rest[m[2]:]) || lower && m[3] < len(rest) && word.MatchString(rest[m[3]:]) {
			return "", false // "the answer is a bird"
		}
		if !not {
			if next := n.corrected(rest[m[3]:]); next > 0 {
				tail = rest[m[3]+next:]
				continue
			}
			if n.several(rest, m[3], letter) {
				return "", true
			}
			if refused.MatchString(rest[m[3]:]) || isnt.MatchString(rest[m[3]:]) || written.DeniedBehind(rest[m[3]:]) {
				return "", false
			}
			return letter, true
		}
		next := instead.FindStringIndex(rest[m[3]:])
		if next == nil {
			return "", false
		}
		tail = rest[m[3]+next[1]:]
	}
	return "", false
}

var (
	// plural goes on with the s of a word for several options, which optionWord is
	plural     = late.Regexp(`^s(?:[^A-Za-z]|$)`)
	optionWord = late.Regexp(`(?i)(?:option|choice)$`)

	deny = late.Regexp(`(?i)^` + dress + `(?:definitely |certainly |clearly |actually |probably |really )*(?:not|never|neither|nor|isn't|can't be|cannot be|不是|不|并非)\b?\s*(?:be\s+)?`)
	word = late.Regexp(`^\s+[a-z]`)
)

// denial takes "not" off a text.
func denial(text string) (string, bool) {
	if m := deny.FindStringIndex(text); m != nil {
		return text[m[1]:], true
	}
	return text, false
}

// several tells whether the letter that ends at a place is one of a list: A or B; A, B.
func (n choices) several(text string, at int, letter string) bool {
	for _, m := range lone.FindAllStringSubmatchIndex(text[at:], -1) {
		between, other := text[at:at+m[2]], text[at+m[2]:at+m[3]]
		if len(between) > 40 {
			return false
		}
		if other == letter {
			continue
		}
		if _, ok := n.valid(other); !ok {
			continue
		}
		begins := remark.MatchString(text[at+m[3]:]) || pronoun(text[at+m[2]:])
		rest := text[at+m[3]:]
		return either.MatchString(between) && (!begins || parting.MatchString(between)) || listed.MatchString(between) && !begins ||
			beside.MatchString(between) && (closed.MatchString(rest) && !begins || tooRight.MatchString(rest))
	}
	return false
}

// corrected is the place of the letter that a text gives instead of the one before it:
// "? No, C", or behind a question, "or C? B". 0: there is none.
func (n choices) corrected(behind string) int {
	at := written.Corrected(behind)
	if at == 0 {
		m := asked.FindStringIndex(behind)
		if m == nil {
			return 0
		}
		at = m[1]
	}
	m := letterAt.FindStringSubmatchIndex(behind[at:])
	if m == nil || !closed.MatchString(behind[at+m[3]:]) {
		return 0
	}
	if _, ok := n.valid(behind[at+m[2] : at+m[3]]); !ok || behind[at+m[2]] > 'Z' {
		return 0
	}
	return at
}

var (
	asked = late.Regexp(`^` + undress + `(?:\s+or\s+[^\n.?]{0,20})?\?\s+`)
	// beside is between two letters with nothing between them, closed behind one that
	// ends what is said, tooRight behind one that is right as well.
	beside   = late.Regexp(`^` + undress + `[\s;(]*` + dress + `$`)
	closed   = late.Regexp(`^` + undress + `\s*(?:[.,;!?\n]|[A-Z]\b|$)`)
	tooRight = late.Regexp(`(?i)^` + undress + `\s*(?:is|are|could\s+be|may\s+be|might\s+be|would\s+be)\s+(?:(?:also|equally|just\s+as|possibly)\s+)?(?:possible|plausible|acceptable|correct|right|valid|as\s+well|too|fine|an\s+option)\b`)
)

var parting = late.Regexp(`(?i)\bor\b|或|[/|]`)

// alone is the last letter that is alone and is not denied.
func (n choices) alone(text string) (string, bool) {
	type place struct {
		from, to int
		letter   string
	}
	var all []place
	for at := 0; at < len(text); {
		m := lone.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		from, to := at+m[2], at+m[3]
		at = to // what ends a letter may begin the next
		s, ok := n.valid(text[from:to])
		if !ok || pronoun(text[from:]) || refused.MatchString(text[to:]) || isnt.MatchString(text[to:]) || written.DeniedBehind(text[to:]) || written.Denied(text[:from]) || written.LeftOut(text[:from]) {
			continue
		}
		all = append(all, place{from, to, s})
	}
	if len(all) == 0 {
		return "", false
	}
	last := all[len(all)-1]
	if len(all) > 1 {
		before := all[len(all)-2]
		between := text[before.to:last.from]
		if before.letter != last.letter && (either.MatchString(between) || listed.MatchString(between) || beside.MatchString(between) && closed.MatchString(text[last.to:])) && !remark.MatchString(text[last.to:]) {
			return "", false
		}
	}
	return last.letter, true
}

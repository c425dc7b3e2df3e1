package written

import (
	"slices"
	"strings"

	"hermes/internal/late"
)

const (
	// dressed is what may stand between a word and the answer that it is about.
	dressed = `[\s$("'` + "`" + `*_\[{<:]*(?:\\[(\[]|\\(?:text|textbf|mathrm|mathbf|boxed)\{)*\(?\s*`
	// subject is what an answer is said of, with its verb.
	subject = `(?:\s+(?:that|if|whether|when|the|this|my|your|our|its|it|x|y|correct|final|right|true|real|value|answer|result|solution|option|choice|number|is|are|was|were|be|to|equals?|would|should|could|can|must)\b|\s+it's\b)*`
	unlike  = `(?:(?:do|does|did|would|could|can|should)(?:n't|\s+not)|cannot|can't|never)\s+(?:(?:really|actually|honestly|quite)\s+)?(?:think|believe|say|claim|suppose|feel|conclude|guess|expect|agree|(?:know|tell|determine|decide|confirm|verify|say)\s+(?:if|whether))`
	untrue  = `(?:false|untrue|incorrect|wrong|mistaken|unlikely|improbable|impossible|(?:not|isn't|n't)\s+(?:true|the\s+case|correct|right|likely|possible))\s+(?:that|if|when|to\s+(?:say|think|claim))|\b(?:not|[a-z]+n't)\s+(?:sure|certain|clear|convinced|able\s+to\s+[a-z]+)\s+(?:that|if|whether)|\b(?:not\s+known|unknown|unclear|unsure|uncertain)\s+(?:if|whether)|\bunable\s+to\s+[a-z]+\s+(?:that|if|whether)|\bif\s+(?:the\s+(?:[a-z]+\s+)?answer|it|that|this)\s+(?:were|had\s+been)`
)

var (
	doubting = late.Compile(`(?i)(?:\b` + unlike + `|\b` + untrue + `|(?:\b(?:i|we|highly|really|strongly|very\s+much|seriously)\s+)doubt)\b` + subject + dressed + `[A-Za-z]?\s*=?\s*$`)
	doubtful = late.Compile(`(?i)(?:don't|do not|doesn't|never|no|cannot|can't)\s+(?:really\s+)?$`)
	doubt    = late.Compile(`(?i)\b(?:really\s+|highly\s+|strongly\s+)?doubt\b`)
	// bounding are words that make a bound of the number behind them, where they begin what
	// is said: "is at least 5"; "needs at least 5" says how many are needed.
	bounding = late.Compile(`(?i)(?:^|[:=(\n]|\b(?:is|are|be|was|were|equals?|just|slightly|well|far|somewhat|strictly|lies?|little|bit)\s|'s\s)[\s*_$"'` + "`" + `]*(?:(not?|any)\s+)?(at\s+least|at\s+most|up\s+to|(?:less|fewer|greater|more|smaller|larger|bigger|higher|lower)\s+than|over|under|below|above|beneath|almost|nearly|not\s+quite|at\s+(?:minimum|maximum))(?:\s+or\s+equal\s+to)?` + dressed + `$`)
	bounded  = late.Compile(`(?i)^[\s$*_]*(?:[A-Za-z]+\s+)?(?:or\s+(more|greater|higher|above|less|fewer|lower|below)|at\s+(most|least))[\s.!*_]*$|^\+(?:[\s.,;!?)*_$]*$|\s[A-Za-z]{3})|^\s+at\s+the\s+very\s+(?:least|most)\b|^\s+or\s+so\s+many\b`)
	// corrects begins what takes an answer back for another one: "? No, 7".
	corrects = late.Compile(`(?i)^[\s.!?;,*_$"')` + "`" + `—-]*(?:(?:no|nope|wait|hmm+|oops|sorry|actually|correction|scratch\s+that|rather|or\s+rather|i\s+mean|make\s+that|hold\s+on)\b[\s,.!:;—-]*)+(?:(?:it|that|(?:the\s+)?(?:correct\s+|right\s+|actual\s+)?(?:answer|value|one))(?:'s|\s+(?:is|was|should\s+be|must\s+be))\s+)?`)
)

// Corrected is where the answer begins that a text gives instead of the one before it; 0
// where it gives none.
func Corrected(behind string) int {
	if m := corrects.FindStringIndex(behind); m != nil {
		return m[1]
	}
	return 0
}

// Bound is the sign of the relation that the last words of a text make of the number
// behind them: "at least" is ≥; empty: none.
func Bound(before string) string {
	before = end(before)
	if !has(strings.ToLower(before), "than", "least", "most", "up", "over", "under", "below", "above", "beneath", "nearly", "quite", "imum") {
		return ""
	}
	m := bounding.FindStringSubmatch(before)
	if m == nil {
		return ""
	}
	words := strings.ToLower(m[2])
	up := strings.HasPrefix(words, "greater") || strings.HasPrefix(words, "more") || strings.HasPrefix(words, "larger") || strings.HasPrefix(words, "bigger") || strings.HasPrefix(words, "higher") || words == "over" || words == "above"
	switch {
	case m[1] != "" && up, strings.HasSuffix(words, "most"), strings.HasPrefix(words, "up"):
		return "≤"
	case m[1] != "", strings.HasSuffix(words, "least"):
		return "≥"
	case up:
		return ">"
	}
	return "<"
}

// BoundBehind is the sign of the relation that the first words of a text make of the number
// before them: "or more" is ≥; empty: none.
func BoundBehind(behind string) string {
	m := bounded.FindStringSubmatch(behind[:min(len(behind), 40)])
	switch {
	case m == nil:
		return ""
	case strings.EqualFold(m[1]+m[2], "less"), strings.EqualFold(m[1]+m[2], "fewer"), strings.EqualFold(m[1]+m[2], "below"), strings.EqualFold(m[1]+m[2], "lower"), strings.EqualFold(m[1]+m[2], "most"):
		return "≤"
	}
	return "≥"
}

// doubted tells whether what follows a text is held for untrue in its own clause: "I don't
// think the answer is".
func doubted(before string) bool {
	lower := strings.ToLower(before)
	if !has(lower, "doubt", "n't", "cannot", "never") && !says(lower, "not") && !has(lower, "unable", "unknown", "unclear", "unsure", "uncertain") && !(has(lower, "if") && has(lower, "were", "had")) &&
		!(has(lower, "tru", "fals", "correct", "wrong", "taken", "likely", "prob", "possible") && has(lower, "that", "if", "when", "to")) {
		return false // most texts, at little cost
	}
	m := doubting.FindStringIndex(before)
	if m == nil {
		return false
	}
	at := doubt.FindStringIndex(before[m[0]:])
	return at == nil || !doubtful.MatchString(before[:m[0]+at[0]])
}

// has tells whether a text in small letters has one of some words. It is asked before a long
// pattern, which costs too much for texts that have none of its words: most.
func has(lower string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(lower, w) })
}

// says is has for words alone: a word begins with w, and has one more letter at most, which
// the patterns take for a variable. "not" is neither in "nothing" nor in "cannot".
func says(lower string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool {
		for from := 0; ; from++ {
			i := strings.Index(lower[from:], w)
			if i < 0 {
				return false
			}
			from += i
			behind := lower[from+len(w):]
			if (from == 0 || !wordByte(lower[from-1])) && (len(behind) < 2 || !wordByte(behind[0]) || !wordByte(behind[1])) {
				return true
			}
		}
	})
}

// wordByte tells what \b of a pattern takes for a part of a word.
func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// end is the end of a text that is looked at.
func end(before string) string {
	if len(before) > 120 {
		return strings.ToValidUTF8(before[len(before)-120:], "")
	}
	return before
}

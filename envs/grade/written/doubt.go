package written

import (
	"regexp"
	"strings"
)

const (
	// dressed is what may stand between a word and the answer that it is about.
	dressed = `[\s$("'` + "`" + `*_\[{<:]*(?:\\[(\[]|\\(?:text|textbf|mathrm|mathbf|boxed)\{)*\(?\s*`
	// subject is what an answer is said of, with its verb.
	subject = `(?:\s+(?:that|if|whether|when|the|this|my|your|our|its|it|x|y|correct|final|right|true|real|value|answer|result|solution|option|choice|number|is|are|was|were|be|to|equals?|would|should|could|can|must)\b|\s+it's\b)*`
	unlike  = `(?:(?:do|does|did|would|could|can|should)(?:n't|\s+not)|cannot|never)\s+(?:(?:really|actually|honestly|quite)\s+)?(?:think|believe|say|claim|suppose|feel|conclude|guess|expect|agree)`
	untrue  = `(?:false|untrue|incorrect|wrong|mistaken|unlikely|improbable|impossible|(?:not|isn't|n't)\s+(?:true|the\s+case|correct|right|likely|possible))\s+(?:that|if|when|to\s+(?:say|think|claim))`
)

var (
	doubting = regexp.MustCompile(`(?i)(?:\b` + unlike + `|\b` + untrue + `|(?:\b(?:i|we|highly|really|strongly|very\s+much|seriously)\s+)doubt)\b` + subject + dressed + `[A-Za-z]?\s*=?\s*$`)
	doubtful = regexp.MustCompile(`(?i)(?:don't|do not|doesn't|never|no|cannot|can't)\s+(?:really\s+)?$`)
	doubt    = regexp.MustCompile(`(?i)\b(?:really\s+|highly\s+|strongly\s+)?doubt\b`)
	// bounding are words that make a bound of the number behind them, where they begin what
	// is said: "is at least 5"; "needs at least 5" says how many are needed.
	bounding = regexp.MustCompile(`(?i)(?:^|[:=(\n]|\b(?:is|are|be|was|were|equals?|just|slightly|well|far|somewhat|strictly)\s)[\s*_$"'` + "`" + `]*(?:(not?|any)\s+)?(at\s+least|at\s+most|up\s+to|(?:less|fewer|greater|more|smaller|larger|bigger|higher|lower)\s+than|over|under|below|above|beneath|almost|nearly|not\s+quite)(?:\s+or\s+equal\s+to)?` + dressed + `$`)
	// Corrects begins what takes an answer back for another one: "? No, 7".
	corrects = regexp.MustCompile(`(?i)^[\s.!?;,*_$"')` + "`" + `—-]*(?:(?:no|nope|wait|hmm+|oops|sorry|actually|correction|scratch\s+that|rather|or\s+rather|i\s+mean|make\s+that|hold\s+on)\b[\s,.!:;—-]*)+(?:(?:it|that|(?:the\s+)?(?:correct\s+|right\s+|actual\s+)?(?:answer|value|one))(?:'s|\s+(?:is|was|should\s+be|must\s+be))\s+)?`)
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
	m := bounding.FindStringSubmatch(end(before))
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

// doubted tells whether what follows a text is held for untrue in its own clause: "I don't
// think the answer is".
func doubted(before string) bool {
	m := doubting.FindStringIndex(before)
	if m == nil {
		return false
	}
	at := doubt.FindStringIndex(before[m[0]:])
	return at == nil || !doubtful.MatchString(before[:m[0]+at[0]])
}

// end is the end of a text that is looked at.
func end(before string) string {
	if len(before) > 120 {
		return strings.ToValidUTF8(before[len(before)-120:], "")
	}
	return before
}

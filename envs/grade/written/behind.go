package written

import (
	"regexp"
	"strings"
)

// leaving are verbs for what is left out.
const leaving = `eliminat(?:e|ed|es|ing)|exclud(?:e|ed|es|ing)|reject(?:ed|s|ing)?|discard(?:ed|s|ing)?|cross(?:ed|es|ing)?\s+out`

var (
	// wrongBehind begins what denies the answer before it: "5 is wrong", "B isn't the answer".
	// "5 is not a prime" says something else.
	wrongBehind = regexp.MustCompile(`(?i)^(?:[\s$*_"')\]}` + "`" + `]|\\[)\]])*(?:` +
		`(?:is|was|are|were|seems|looks|must\s+be|would\s+be)\s+(?:(?:clearly|also|definitely|obviously|therefore|thus|simply|just)\s+)*(?:wrong|incorrect|false|mistaken|invalid|rejected|discarded|excluded|eliminated|extraneous|ruled\s+out|out)\b` +
		`|(?:(?:is|was|are|were|would|could|can|must|does|do|did)\s*(?:not|n't)|cannot|can't)\s+(?:be\s+)?(?:(?:the|a|an|my|our|your)\s+)?(?:(?:right|correct|final|true|real|valid|actual|possible)\b\s*)*(?:answer|solution|result|option|choice|one|value|right|correct|true|valid|possible|accepted|work)\b` +
		`|(?:is|was)n't\s+(?:it|so)\b` +
		`|(?:can|must|should|could|may)\s+be\s+(?:ruled\s+out|rejected|discarded|excluded|eliminated)\b` +
		`|\?\s*(?:no|nope|wrong|not\s+(?:at\s+all|really|so))\s*[.!]*\s*$)`)
	// ruling ends with what leaves out the answer behind it: "we can rule out B", "we reject
	// the value 5"; "they rejected 5" may be the answer, where it is no letter.
	ruling  = regexp.MustCompile(`(?i)\b(?:rul(?:e|ed|es|ing)\s+out|(?:` + leaving + `)\s+(?:the\s+)?(?:option|choice|answer|value|case|root|solution))\s+(?:(?:the|option|choice|answer|value|case|root|solution)\s+)*` + dressed + `(?:[a-z]\s*=\s*)?$`)
	leftOut = regexp.MustCompile(`(?i)\b(?:` + leaving + `)\s+(?:(?:the|option|choice|answer)\s+)*` + dressed + `$`)
	struck  = regexp.MustCompile(`(?is)~~[^~]+~~|<(?:del|s|strike)>.*?</(?:del|s|strike)>`)
)

// DeniedBehind tells whether what stands behind an answer denies it.
func DeniedBehind(behind string) bool {
	rest := strings.TrimLeft(behind, " \t\r\n$*_\"')]}`\\")
	if rest == "" || strings.IndexByte("iwaslmcdIWASLMCD?", rest[0]) < 0 { // most answers, at little cost
		return false
	}
	return wrongBehind.MatchString(behind[:min(len(behind), 100)])
}

// LeftOut tells whether a letter is left out by the last words of what stands before it: "I would
// eliminate B".
func LeftOut(before string) bool {
	before = end(before)
	return has(strings.ToLower(before), "elimin", "exclu", "reject", "card", "out") && leftOut.MatchString(before)
}

// ruledOut is LeftOut for answers of all kinds.
func ruledOut(before, lower string) bool {
	return has(lower, "out", "option", "choice", "answer", "value", "case", "root", "solution") &&
		has(lower, "rul", "elimin", "exclu", "reject", "card", "cro") && ruling.MatchString(before)
}

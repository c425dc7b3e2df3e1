package written

import (
	"slices"
	"strings"
	"unicode/utf8"

	"hermes/internal/late"
)

// leaving are verbs for what is left out.
const leaving = `eliminat(?:e|ed|es|ing)|exclud(?:e|ed|es|ing)|reject(?:ed|s|ing)?|discard(?:ed|s|ing)?|cross(?:ed|es|ing)?\s+out`

var (
	// wrongBehind begins what denies the answer before it: "5 is wrong", "B isn't the answer".
	// "5 is not a prime" says something else.
	wrongBehind = late.Regexp(`(?i)^(?:[\s$*_"')\]}` + "`" + `]|\\[)\]]|\\text\{)*(?:` +
		`(?:is|was|are|were|seems|looks|must\s+be|would\s+be)\s+(?:(?:clearly|also|definitely|obviously|therefore|thus|simply|just)\s+)*(?:wrong|incorrect|false|mistaken|invalid|rejected|discarded|excluded|eliminated|extraneous|impossible|ruled\s+out|out|too\s+(?:high|low|big|large|great|small|little|much|many|few)|(?:the|an?)\s+(?:wrong|incorrect|false|bad|poor|invalid|mistaken)\s+(?:answer|choice|option|guess|value|result|solution|one|idea|number|root|pick)|(?:the|an?)\s+(?:trap|distractor|decoy|mistake))\b` +
		`|(?:(?:is|was|are|were|would|could|can|must|does|do|did)\s*(?:not|n't)|cannot|can't)\s+(?:be\s+)?(?:(?:the|a|an|my|our|your)\s+)?(?:(?:right|correct|final|true|real|valid|actual|possible)\b\s*)*(?:answer|solution|result|option|choice|one|value|right|correct|true|valid|possible|accepted|work)\b` +
		`|(?:is|was)n't\s+(?:it|so)\b|(?:→\s*|[-=]>\s*)?(?:❌|✗|✘)|→\s*(?:wrong|incorrect|false|no)\b` +
		`|has\s+been\s+(?:ruled\s+out|rejected|discarded|excluded|eliminated)\b|does(?:n't|\s+not)\s+(?:fit|hold)\b` +
		`|(?:can|must|should|could|may)\s+be\s+(?:ruled\s+out|rejected|discarded|excluded|eliminated)\b` +
		`|\?\s*(?:that|it|this)(?:'s|\s+is)\s+(?:(?:just|simply|clearly|definitely)\s+)?(?:not\s+(?:it|so|right|correct|true|possible)|wrong|incorrect|false|impossible)\b` +
		`|,?\s*(?:but|yet|though|although)\s+(?:(?:that|it|this|which)(?:'s|\s+is)\s+(?:(?:just|simply|clearly|definitely)\s+)?(?:not\s+(?:it|so|right|correct|true|possible)|wrong|incorrect|false|impossible|mistaken)|i\s+(?:disagree|doubt\s+it|do(?:n't|\s+not)\s+(?:agree|think\s+so)))\b` +
		`|\?\s*(?:no|nope|wrong|not\s+(?:at\s+all|really|so))\s*[.!]*\s*$)`)
	// ruling ends with what leaves out the answer behind it: "we can rule out B", "we reject
	// the value 5"; "they rejected 5" may be the answer, where it is no letter.
	ruling  = late.Regexp(`(?i)\b(?:rul(?:e|ed|es|ing)\s+out|(?:` + leaving + `)\s+(?:the\s+)?(?:option|choice|answer|value|case|root|solution))\s+(?:(?:the|option|choice|answer|value|case|root|solution)\s+)*` + dressed + `(?:[a-z]\s*=\s*)?$|\b(?:we|i|let's|let\s+us)\s+(?:(?:can|must|should|may|will|have\s+to|need\s+to|therefore|thus|then|hence|also)\s+)*(?:exclude|reject|disregard)\s+` + dressed + `(?:[a-z]\s*=\s*)?$`)
	leftOut = late.Regexp(`(?i)\b(?:` + leaving + `)\s+(?:(?:the|option|choice|answer)\s+)*` + dressed + `$`)
	struck  = late.Regexp(`(?is)~~[^~]+~~|<(?:del|s|strike)>.*?</(?:del|s|strike)>`)
)

// DeniedBehind tells whether what is behind an answer denies it.
func DeniedBehind(behind string) bool {
	rest := strings.TrimLeft(behind, " \t\r\n$*_\"')]}`\\")
	if rest != "" && rest[0] == ',' {
		rest = strings.TrimLeft(rest, ", \t")
		if rest != "" && strings.IndexByte("btyBTY", rest[0]) < 0 { // only ", but that's wrong"
			return false
		}
	}
	if rest == "" || !mayDeny(rest) { // most answers, at little cost
		return false
	}
	return wrongBehind.MatchString(behind[:min(len(behind), 100)])
}

// mayDeny tells whether a text begins as a match of wrongBehind does behind what dresses the
// answer.
func mayDeny(text string) bool {
	if !wordByte(text[0]) {
		return strings.IndexByte("?-=\xe2", text[0]) >= 0
	}
	begin := text[:min(len(text), 8)]
	for i := range len(begin) {
		if begin[i] >= utf8.RuneSelf {
			return true // may be a letter of one of the words: ſ
		}
	}
	begin = strings.ToLower(begin)
	return slices.ContainsFunc(denyingWords, func(w string) bool { return strings.HasPrefix(begin, w) })
}

// denyingWords are the first words of wrongBehind; text{ is of \text{.
var denyingWords = []string{"is", "was", "are", "were", "seems", "looks", "must", "would", "could", "can", "should", "may", "do", "did", "has", "but", "yet", "though", "although", "text{"}

// LeftOut tells whether a letter is left out by the last words of what is before it: "I would
// eliminate B".
func LeftOut(before string) bool {
	before = end(before)
	return has(strings.ToLower(before), "elimin", "exclu", "reject", "card", "out") && leftOut.MatchString(before)
}

// ruledOut is LeftOut for answers of all kinds.
func ruledOut(before, lower string) bool {
	return has(lower, "rul", "elimin", "exclu", "reject", "card", "cro", "disreg") && ruling.MatchString(before)
}

package parsers

import (
	"fmt"
	"strings"
)

// Dialect names whose choices count where the known parsers contradict each other.
type Dialect uint8

// The dialects.
const (
	Ours     Dialect = iota
	VLLM             // vLLM's parsers
	SGLang           // SGLang's detectors
	Upstream         // the parsers of upstream hermes-agent
)

var dialectNames = [...]string{"ours", "vllm", "sglang", "upstream"}

func (d Dialect) String() string {
	if int(d) < len(dialectNames) {
		return dialectNames[d]
	}
	return fmt.Sprintf("dialect %d", d)
}

// ParseDialect reads a dialect's name; the empty name is ours.
func ParseDialect(name string) (Dialect, error) {
	switch name {
	case "":
		return Ours, nil
	case "hermes-agent":
		return Upstream, nil
	}
	for i, n := range dialectNames {
		if n == name {
			return Dialect(i), nil
		}
	}
	return Ours, fmt.Errorf("dialect %q (have %s)", name, strings.Join(dialectNames[:], ", "))
}

// Text says what happens to content that stands at one side of the calls.
type Text uint8

// The fates of content.
const (
	Verbatim Text = iota
	Strip
	StripRight
	StripLines // newlines at the end
	DropText
)

func (t Text) apply(s string) string {
	switch t {
	case Strip:
		return strings.TrimSpace(s)
	case StripRight:
		return strings.TrimRight(s, " \n\t\r")
	case StripLines:
		return strings.TrimRight(s, "\n")
	case DropText:
		return ""
	}
	return s
}

// Ladder is an order in which a raw text is tried as a typed value.
type Ladder uint8

// The ladders. Schema is ours: vLLM's order, but numbers keep their spelling.
const (
	BySchema Ladder = iota
	BySGLang
	ByGuess // upstream: no schema, JSON, Python literal, text
)

// Knobs are the choices of one dialect for one family.
type Knobs struct {
	Before, Between, After, NoCall Text
	Join                           string // between kept pieces before, between and after
	KeepBlank                      bool   // content of white space beside calls stays
	AllOrNothing                   bool   // one bad call: the whole text is content
	DropUnknown                    bool   // calls of undeclared tools are dropped
	EmptyObject                    bool   // empty arguments become {}
	Think                          bool   // think blocks are taken out before calls are read
	Repair                         bool   // lenient JSON is tried when strict JSON fails
	NeedClose                      bool   // a missing outer end marker means no call
	Ladder                         Ladder
	StripValues                    bool // parameter values lose white space at both ends
	NeedArgs                       bool // an object without arguments is no call
	NeedEnd, NeedJSON              bool // a framed call without its end token, or without JSON, is none
	DropCut                        bool // a cut parameter is left out
	Bare                           bool // inner markers count without the outer one
}

// Knobs looks the family's choices up in the table.
func (d Dialect) Knobs(family string) Knobs {
	k := base[d]
	if change, ok := choices[family]; ok {
		change(d, &k)
	}
	return k
}

// base holds the choices of each dialect where a family has none of its own.
var base = [...]Knobs{
	Ours:     {Between: DropText, After: DropText, EmptyObject: true, Think: true, Repair: true, Bare: true},
	VLLM:     {Between: DropText, After: DropText, EmptyObject: true, AllOrNothing: true, Bare: true, DropCut: true},
	SGLang:   {Before: Strip, Between: DropText, After: DropText, EmptyObject: true, DropUnknown: true, Ladder: BySGLang, NeedClose: true},
	Upstream: {Before: Strip, Between: DropText, After: DropText, EmptyObject: true, AllOrNothing: true, Ladder: ByGuess, Bare: true},
}

// choices changes the base for single families: what reference and measurements say.
var choices = map[string]func(Dialect, *Knobs){}

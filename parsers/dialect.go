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

// Text says what happens to content that is at one side of the calls.
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
	PyObjects                      bool // an object may be spelled in Python
	LooseClose                     bool // a closing think tag without an opening one ends reasoning
	EatFrames                      bool // markers vanish even when no call was read
	EatStray                       bool // markers vanish around text that is no call
	DropCut                        bool // a cut parameter is left out
	Bare                           bool // inner markers count without the outer one
	NoCut                          bool // a call that the text ends in is none
	JSONUndeclared                 bool // a parameter that the schema does not declare is read as JSON
	JSONValues                     bool // values are read as JSON, whatever the schema says
	EngineTypes                    bool // as vLLM's engine: no references, and what fits no type is read as JSON
	TextUntyped                    bool // what the schema gives no plain type is a text
	LooseBool                      bool // what is no boolean is kept where one is declared
	ObjectArgs                     bool // arguments that are no object make no call
	Unwrap                         bool // arguments that are a text are what it says
	JSONButText                    bool // values are read as JSON, except where the schema's type is string alone
	Coerce                         bool // the members of JSON arguments are changed to their declared types
	KeepNull                       bool // null for a declared text is a text
}

// Knobs looks the family's choices up in the table.
func (d Dialect) Knobs(family string) Knobs {
	k := base[d]
	if change, ok := choices[family]; ok {
		change(d, &k)
	}
	return k
}

// base holds the choices of each dialect where its own family has none.
var base = [...]Knobs{
	Ours:     {Between: DropText, After: DropText, EmptyObject: true, Think: true, Repair: true, Bare: true, PyObjects: true},
	VLLM:     {Between: DropText, After: DropText, EmptyObject: true, AllOrNothing: true, Bare: true, DropCut: true, EngineTypes: true},
	SGLang:   {Before: Strip, Between: DropText, After: DropText, EmptyObject: true, DropUnknown: true, Ladder: BySGLang, NeedClose: true},
	Upstream: {Before: Strip, Between: DropText, After: DropText, EmptyObject: true, AllOrNothing: true, Ladder: ByGuess, Bare: true},
}

// choices changes the base for single families: what reference and measurements say.
var choices = map[string]func(Dialect, *Knobs){
	"hermes": func(d Dialect, k *Knobs) { k.NeedArgs = d == VLLM; k.NeedClose = false },
	"qwen":   func(d Dialect, k *Knobs) { k.NeedArgs = d == VLLM },
	"granite4": func(d Dialect, k *Knobs) {
		k.NeedArgs, k.Between, k.After, k.NeedClose = d == VLLM, Verbatim, Verbatim, k.NeedClose || d == VLLM
		k.Unwrap = d == VLLM
	},
	"ernie45": func(d Dialect, k *Knobs) { k.Before, k.NoCall = StripLines, StripLines },
	"minimax": func(d Dialect, k *Knobs) {
		k.Before = Strip
		k.AllOrNothing = false
		k.NeedArgs = d == VLLM
	},
	"jamba": func(d Dialect, k *Knobs) { k.NeedClose = true },
	"xlam": func(d Dialect, k *Knobs) {
		k.Before = Strip
		k.After = Strip
		k.Unwrap = d == VLLM
	},
	"apertus": func(d Dialect, k *Knobs) {
		k.Before = Strip
		k.After = Strip
		k.Join = apertusJoin(d)
	},
	"dots": func(d Dialect, k *Knobs) {
		k.DropUnknown = d == VLLM
		k.EatStray = d == VLLM
		k.AllOrNothing = false
		k.NoCut = d == VLLM
		k.EngineTypes = false
		k.ObjectArgs = d == VLLM
	},
	"llama3_json": llamaChoices,
	"llama4_json": llamaChoices,
	"mistral":     mistralChoices,
	"gigachat3":   func(d Dialect, k *Knobs) { k.NeedArgs, k.Repair = true, false },
	"granite": func(d Dialect, k *Knobs) {
		if d == VLLM { // an engine since 0.33
			k.Before = Strip
			k.AllOrNothing = false
			k.EatFrames = true
		}
	},
	"deepseek_v3": func(d Dialect, k *Knobs) {
		k.NeedClose = false
		k.NeedEnd = d != Ours
		k.NeedJSON = d == SGLang
		k.AllOrNothing = d == SGLang
	},
	"deepseek_v3_1": func(d Dialect, k *Knobs) {
		k.NeedClose = false
		k.NeedEnd = d != Ours
		k.NeedJSON = d == SGLang
		k.AllOrNothing = d == SGLang
	},
	"deepseek_v32":      func(d Dialect, k *Knobs) { engine(d, k); k.Before = deepseekBefore(d); k.StripValues = d == SGLang },
	"deepseek_v4":       func(d Dialect, k *Knobs) { engine(d, k); k.Before = deepseekBefore(d); k.StripValues = d == SGLang },
	"deepseek_v41":      func(d Dialect, k *Knobs) { engine(d, k); k.Before = deepseekBefore(d); k.StripValues = d == SGLang },
	"gigachat35":        func(d Dialect, k *Knobs) { engine(d, k); k.Before = deepseekBefore(d); k.StripValues = d == SGLang },
	"kimi_k2":           kimiChoices,
	"kimi_k3":           func(d Dialect, k *Knobs) { channels(d, k); k.NoCut = d == VLLM },
	"openai":            func(d Dialect, k *Knobs) { channels(d, k); k.EmptyObject = false },
	"inkling":           func(d Dialect, k *Knobs) { channels(d, k); k.Coerce, k.ObjectArgs = d == VLLM, d == SGLang },
	"muse_glimmer":      museChoices,
	"muse":              museChoices,
	"beam":              channels,
	"functionary_v3_1":  func(d Dialect, k *Knobs) { channels(d, k); k.NeedClose = false },
	"functionary_v3_2":  func(d Dialect, k *Knobs) { channels(d, k); k.NeedClose = false },
	"response_template": channels,
	"plamo3": func(d Dialect, k *Knobs) {
		k.NeedClose = d != Ours
		k.NeedEnd = d != Ours
		k.NeedJSON = d != Ours
		k.Coerce = d == VLLM
	},
	"solar_open": func(d Dialect, k *Knobs) { k.NeedClose = false },
	"k2_horizon": func(d Dialect, k *Knobs) {
		k.Before = Verbatim
		k.After = Verbatim
		k.NeedClose = d == VLLM
		k.NeedEnd = d == VLLM
		k.DropUnknown = d == VLLM || d == SGLang
		k.JSONUndeclared = d == SGLang
		k.LooseBool = d == SGLang
		k.KeepNull = d == SGLang
	},
	"qwen3_coder": qwenChoices,
	"qwen3_xml":   func(d Dialect, k *Knobs) { qwenChoices(d, k); k.PyObjects = true },
	"nemotron_v3": qwenChoices,
	"mimo":        qwenChoices,
	"step5":       func(d Dialect, k *Knobs) { qwenChoices(d, k); k.Before, k.KeepBlank = Verbatim, true },
	"step3p5":     func(d Dialect, k *Knobs) { qwenChoices(d, k); k.PyObjects, k.Before = true, Verbatim },
	"seed_oss": func(d Dialect, k *Knobs) {
		if qwenChoices(d, k); d == VLLM { // its parser of calls leaves think blocks in the content
			k.Think, k.Before = false, Verbatim
		}
	},
	"glm45":     glmChoices,
	"glm47":     func(d Dialect, k *Knobs) { glmChoices(d, k); k.KeepNull = d == SGLang },
	"ling3":     glmChoices,
	"spark25":   func(d Dialect, k *Knobs) { keptText(d, k); k.JSONUndeclared = false },
	"iquest_q1": func(d Dialect, k *Knobs) { keptText(d, k); k.KeepNull = d == SGLang },
	"poolside_v1": func(d Dialect, k *Knobs) {
		engine(d, k)
		k.EatFrames = false
		k.Before = Verbatim
		k.NeedEnd = true
		k.NoCut = d == VLLM
		k.JSONUndeclared = d == VLLM || d == SGLang
		k.JSONButText = d == VLLM || d == SGLang
	},
	"hy_v3": func(d Dialect, k *Knobs) { engine(d, k); k.LooseBool, k.KeepNull = d == SGLang, d == SGLang },
	"hy_v4": engine,
	"step3": func(d Dialect, k *Knobs) {
		k.Before = Strip
		k.After = Strip
		k.NeedClose = d != Ours
		k.AllOrNothing = false
		k.EngineTypes = false
		k.TextUntyped, k.JSONButText = d == SGLang, d == SGLang
	},
	"minimax_m2": func(d Dialect, k *Knobs) {
		engine(d, k)
		k.Before = minimaxBefore(d)
		k.DropUnknown = true
		k.LooseBool = d == SGLang
		keepAfter(d, k)
	},
	"minimax_m3": func(d Dialect, k *Knobs) { engine(d, k); k.Before = Verbatim },
	"minicpm5": func(d Dialect, k *Knobs) {
		k.AllOrNothing = false
		k.Before = Verbatim
		k.After = Verbatim
		k.Between = Verbatim
		switch d {
		case VLLM:
			k.Before = DropText
			k.After = DropText
			k.Between = DropText
		case SGLang:
			k.After = DropText
		}
	},
	"gemma4": func(d Dialect, k *Knobs) {
		stripped(d, k)
		k.DropUnknown = false
		if d == SGLang || d == VLLM {
			k.After = Verbatim
		}
	},
	"functiongemma": func(_ Dialect, k *Knobs) { k.Before, k.AllOrNothing = Strip, false },
	"pythonic": func(d Dialect, k *Knobs) {
		k.Before = Verbatim
		k.Between = Verbatim
		k.After = Verbatim
		k.NeedClose = d != Ours
	},
	"llama4_pythonic": func(d Dialect, k *Knobs) {
		k.Before = Verbatim
		k.Between = Verbatim
		k.After = Verbatim
		k.NeedClose = d != Ours
	},
	"olmo3": func(d Dialect, k *Knobs) { k.NeedClose = d == VLLM },
	"lfm2": func(d Dialect, k *Knobs) {
		k.NoCut, k.NeedClose = d == VLLM, k.NeedClose || d == VLLM
		k.Before = Strip
		k.After = Verbatim
		k.Between = DropText
		if d == SGLang {
			k.After = DropText
		}
		if d == VLLM {
			k.After = Strip
			k.Between = Strip
			k.Before = Strip
			k.Join = "\n"
			k.AllOrNothing = false
		}
	},
}

func apertusJoin(d Dialect) string {
	if d == SGLang {
		return ""
	}
	return "\n"
}

// engine is what the families of vLLM's shared engine have in common.
func engine(d Dialect, k *Knobs) {
	if d == VLLM {
		k.AllOrNothing = false
		k.Think = true
		k.LooseClose = true
		k.EatFrames = true
	}
	if d == SGLang {
		k.DropUnknown = true
	}
}

// stripped is engine with the content before the calls trimmed by vLLM, kept by SGLang.
func stripped(d Dialect, k *Knobs) {
	engine(d, k)
	k.Before = Strip
	if d == SGLang {
		k.Before = Verbatim
	}
}

// minimaxBefore is what happens to content in front of MiniMax's calls.
func minimaxBefore(d Dialect) Text {
	if d == VLLM || d == SGLang {
		return Verbatim
	}
	return Strip
}

func keepAfter(d Dialect, k *Knobs) {
	if d == SGLang {
		k.Between, k.After = Verbatim, Verbatim
	}
}

func qwenChoices(d Dialect, k *Knobs) {
	stripped(d, k)
	k.DropUnknown = false
	k.StripValues = d == Upstream
}

func glmChoices(d Dialect, k *Knobs) {
	engine(d, k)
	k.Before = Strip
	k.StripValues = d == Upstream
	k.JSONUndeclared, k.LooseBool = d == SGLang, d == SGLang
}

// keptText is GLM's choices where all text beside the calls is content.
func keptText(d Dialect, k *Knobs) {
	glmChoices(d, k)
	k.Before = Verbatim
	k.Between = Verbatim
	k.After = Verbatim
}

func deepseekBefore(d Dialect) Text {
	if d == SGLang {
		return StripRight
	}
	return Verbatim
}

func kimiChoices(d Dialect, k *Knobs) {
	engine(d, k)
	k.Before = Verbatim
	k.DropUnknown = false
	k.NeedClose = false
	k.NeedEnd = d == Upstream
	k.Coerce = d == VLLM
	k.ObjectArgs = d == SGLang
	k.EatFrames = k.EatFrames || d == SGLang
	k.KeepBlank = d == VLLM
	if d == VLLM {
		k.After = Verbatim
	}
	if d == Upstream {
		k.Before = Strip
	}
}

func llamaChoices(d Dialect, k *Knobs) {
	k.NeedArgs = true
	switch d {
	case VLLM:
		k.Before = DropText
	case SGLang:
		k.Before = Verbatim
		k.Between = DropText
		k.After = Verbatim
	}
}

func mistralChoices(d Dialect, k *Knobs) {
	switch d {
	case SGLang:
		k.Before = Strip
		k.After = Verbatim
		k.NeedJSON = true
		k.ObjectArgs = true
	case VLLM:
		k.AllOrNothing = false
	}
}

func museChoices(d Dialect, k *Knobs) {
	channels(d, k)
	k.NoCut, k.JSONValues = d == VLLM, d == VLLM || d == SGLang
}

// channels keeps every text that a channel format gives to the user.
func channels(_ Dialect, k *Knobs) {
	k.Before = Verbatim
	k.Between = Verbatim
	k.After = Verbatim
	k.AllOrNothing = false
	k.DropUnknown = false
}

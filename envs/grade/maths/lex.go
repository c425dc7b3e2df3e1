package maths

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermes/internal/late"
)

type kind int

const (
	end     kind = iota
	numeral      // 12, 1.5, .5
	letter       // one letter, or a function's name
	command      // \frac, without the backslash
	mark         // one character of punctuation, or \{ \} \| as {{ }} ||
	prose        // \text{…}
)

type token struct {
	kind kind
	text string
	gap  bool // white space is before it
}

// maxTokens bounds what is parsed.
const maxTokens = 2000

var (
	spacing  = late.Regexp(`\\(?:[,;:> ]|qquad|quad|displaystyle|textstyle|limits|nolimits|hspace\{[^}]*\}|phantom\{[^}]*\}|bigg?[lr]?|Bigg?[lr]?|(?:left|right)\.|(?:left|right)(?:[^a-z]|$))`)
	grouped  = late.Regexp(`(^|[^\d.,])(\d{1,3}(?:,\d{3})+)($|[^\d,]|,[^\d])`)
	coloured = late.Regexp(`\\(?:text|math)?color(?:box)?\s*(?:\[[^\]]*\])?\s*\{[^{}]*\}`)
	// 6.02e23; 0.1\overline{6}; 0.333…
	scientific = late.Regexp(`(^|[^\w.\\])(\d+(?:\.\d*)?|\.\d+)[eE]([-+]?\d{1,3})($|[^\w.])`)
	repeating  = late.Regexp(`(\d*)\.(\d*)\s*\\(?:overline|bar|dot|widebar|overbar)\s*(?:\{\s*(\d+)\s*\}|(\d))`)
	going      = late.Regexp(`(\d*)\.(\d*?)(\d)(\d+)\s*(?:\.\.\.|…|\\l?dots)`)
	closeUp    = late.Regexp(`,\\!\s*`)
	degrees    = late.Regexp(`\^\s*(?:\{\s*\\circ\s*\}|\\circ)|°|\\degree`)
	// degreesOf are the degrees of an angle whose sine is asked for, suchThat is {x | x > 5}
	degreesOf  = late.Regexp(`(\d+(?:\.\d+)?)\s*(?:\^\s*(?:\{\s*\\circ\s*\}|\\circ)|°|\\degree)`)
	trig       = late.Regexp(`(?:sin|cos|tan|cot|sec|csc)\b|(?:sin|cos|tan|cot|sec|csc)[\s({\d]`)
	suchThat   = late.Regexp(`^\s*\\?\{\s*[a-z]\s*(?:\\in\s*\\mathbb\{R\}\s*)?(?:\\mid|\||:)\s*([^|:]*[<>=][^|:]*|[^|:]*\\(?:[lg]e|ne|in)[^|:]*)\s*\\?\}\s*$`)
	choose     = late.Regexp(`\{\s*([^{}]+?)\s*\\choose\s*([^{}]+?)\s*\}`)
	everything = late.Regexp(`\(\s*-\s*\\infty\s*,\s*\+?\s*\\infty\s*\)`)
	// punctured are the numbers but one, segment a line of two points, which is named as its length is
	punctured = late.Regexp(`^\s*(?:[a-z]\s*\\in\s*)?\\mathbb\s*\{?R\}?\s*\\(?:setminus|backslash)\s*\\\{\s*(-?\d+(?:\.\d+)?)\s*\\\}\s*$`)
	segment   = late.Regexp(`\\overline\s*\{\s*([A-Z]{2})\s*\}`)
	percents  = late.Regexp(`(?i)\\%|\s*\b(?:percentage|percent|pct)\b`)
	mixed     = late.Regexp(`(^|[^\d./])(\d+) (\d+)/(\d+)($|[^\d./])`)
	upright   = late.Regexp(`([\d})])(?:\s|\\\s|~)*(?:\\(?:mathrm|text)\{[\s~]*(?:[cmk]?m|kg|g|s|h|in|ft|mph|rad|[kM]?[NJWV]|newtons?|joules?|watts?|volts?)\s*(?:\^\{?[23]\}?)?\s*\}(?:\s*\*?\s*\\(?:mathrm|text)\{\s*[smh]\s*\})?|\s[kM]?[NJWV](?:\s?[*]\s?[smh])?|\s(?:newton|joule|watt|volt)s?(?:[-\s](?:meter|metre|second)s?)?)\s*\.?\s*$`)
	connected = late.Regexp(`([\d)\]}])\s*(?:and|or)\s*([A-Za-z\\$(\d-])`)
	conjunct  = late.Regexp(`,?\s+(?:and|or)\s+`)
	units     = late.Regexp(`([\d})])\s*\\?\s(?:square |cubic )?(?:` + unitWords + `|in|units?)(?:\^\{?[23]\}?)?\s*\.?\s*$`)
)

// oneSpelling rewrites signs and commands that say the same.
var oneSpelling = strings.NewReplacer("\\\\", "\\cr ", "\\$", "", "$", "", "{,}", ",", "\\!", "", "−", "-", "–", "-", "×", "*", "·", "*", "÷", "/", "π", "\\pi ", "∞", "\\infty ", "∅", "\\emptyset ",
	"√", "\\sqrt ", "∛", "\\sqrt[3] ", "ℝ", "\\mathbb{R}", "ℤ", "\\mathbb{Z}", "ℚ", "\\mathbb{Q}", "ℕ", "\\mathbb{N}", "ℂ", "\\mathbb{C}", "\\langle", "(", "\\rangle", ")", "⟨", "(", "⟩", ")", "≤", "\\le ", "≥", "\\ge ", "≠", "\\ne ", "∪", "\\cup ", "\\lor ", " or ", "\\vee ", " or ", "∨", " or ", "\\land ", " and ", "∧", " and ", "∈", "\\in ", "±", "\\pm ", "²", "^2", "³", "^3", "€", "", "£", "", "¥", "",
	"!=", "\\ne ", "<=", "\\le ", ">=", "\\ge ", "==", "=", "\\left\\{", "\\{", "\\right\\}", "\\}", "\\left|", "|", "\\right|", "|", "\\lvert", "|", "\\rvert", "|",
	"\\Bigl", "", "\\Bigr", "", "**", "^", "\u00a0", " ", "~", " ")

// tidy rewrites what has several spellings.
func tidy(s string) string {
	s = coloured.ReplaceAllString(closeUp.ReplaceAllString(s, ","), "")
	s = endlessly(scientific.ReplaceAllString(s, "${1}(${2}*10^{${3}})${4}"))
	s = oneSpelling.Replace(s)
	if strings.Contains(s, "choose") || strings.Contains(s, "{") && strings.ContainsAny(s, "|:") || strings.Contains(s, `\mid`) {
		s = choose.ReplaceAllString(suchThat.ReplaceAllString(s, "$1"), `\binom{$1}{$2}`)
	}
	if round := strings.Contains(s, "°") || strings.Contains(s, "circ") || strings.Contains(s, "degree"); round && trig.MatchString(s) {
		s = degreesOf.ReplaceAllString(s, `(($1)*\pi /180)`)
	}
	s = degrees.ReplaceAllString(s, "")
	if strings.Contains(s, `\setminus`) || strings.Contains(s, `\backslash`) {
		s = punctured.ReplaceAllString(s, `(-\infty,$1)\cup($1,\infty)`)
	}
	if strings.Contains(s, `\overline`) {
		s = segment.ReplaceAllString(s, "$1")
	}
	if strings.Contains(s, "infty") {
		s = everything.ReplaceAllString(s, `\mathbb{R}`)
	}
	s = spacing.ReplaceAllStringFunc(s, func(m string) string {
		if last, _ := utf8.DecodeLastRuneInString(m); (strings.HasPrefix(m, "\\left") || strings.HasPrefix(m, "\\right")) && last != '.' && !unicode.IsLetter(last) {
			return " " + string(last)
		}
		return " "
	})
	s = mixed.ReplaceAllStringFunc(s, func(m string) string {
		p := mixed.FindStringSubmatch(m)
		over, under := strings.TrimLeft(p[3], "0"), strings.TrimLeft(p[4], "0")
		if len(over) > len(under) || len(over) == len(under) && over >= under {
			return m // two numbers
		}
		return p[1] + "(" + p[2] + "+" + p[3] + "/" + p[4] + ")" + p[5]
	})
	s = percents.ReplaceAllString(s, "%")
	s = upright.ReplaceAllString(units.ReplaceAllString(s, "$1"), "$1")
	s = connected.ReplaceAllString(s, "$1,$2")
	return conjunct.ReplaceAllString(s, ", ")
}

// endlessly writes decimal fractions that go on for ever as fractions.
func endlessly(s string) string {
	fraction := func(whole, start, period string) string {
		if len(whole)+len(start)+len(period) > 200 {
			return ""
		}
		n, ok1 := new(big.Int).SetString("0"+whole+start+period, 10)
		m, ok2 := new(big.Int).SetString("0"+whole+start, 10)
		if !ok1 || !ok2 {
			return ""
		}
		return "(" + n.Sub(n, m).String() + "/" + strings.Repeat("9", len(period)) + strings.Repeat("0", len(start)) + ")"
	}
	s = repeating.ReplaceAllStringFunc(s, func(text string) string {
		m := repeating.FindStringSubmatch(text)
		return cmp.Or(fraction(m[1], m[2], m[3]+m[4]), text)
	})
	return going.ReplaceAllStringFunc(s, func(text string) string {
		m := going.FindStringSubmatch(text)
		same := strings.TrimLeft(m[4], m[3]) == ""
		if !same || len(m[4]) < 2 {
			return text
		}
		return cmp.Or(fraction(m[1], m[2], m[3]), text)
	})
}

// ungroup takes the commas out of 1,234,567, except inside brackets.
func ungroup(s string) string {
	for range 3 { // neighbours share a character
		depth := 0
		open := make([]bool, len(s))
		for i := range len(s) {
			switch s[i] {
			case '(', '[':
				depth++
			case ')', ']':
				depth--
			}
			open[i] = depth > 0
		}
		var b strings.Builder
		last := 0
		for _, m := range grouped.FindAllStringSubmatchIndex(s, -1) {
			if open[m[4]] {
				continue
			}
			b.WriteString(s[last:m[4]] + strings.ReplaceAll(s[m[4]:m[5]], ",", ""))
			last = m[5]
		}
		if last == 0 {
			return s
		}
		s = b.String() + s[last:]
	}
	return s
}

// words are the names that may be written without a backslash.
func words() []string {
	return []string{"arcsin", "arccos", "arctan", "sqrt", "sinh", "cosh", "tanh", "sin", "cos", "tan", "cot", "sec", "csc", "log", "exp", "abs", "inf", "ln", "pi"}
}

// lex splits tidied text. ok is false where there are too many tokens.
func lex(s string) (out []token, ok bool) {
	gap := false
	add := func(k kind, text string) { out = append(out, token{k, text, gap}) }
	for i := 0; i < len(s); {
		if len(out) > maxTokens {
			return nil, false
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case unicode.IsSpace(r):
			gap, i = true, i+size
			continue
		case r >= '0' && r <= '9' || r == '.' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			j := i
			for dot := false; j < len(s) && (s[j] >= '0' && s[j] <= '9' || s[j] == '.' && !dot); j++ {
				dot = dot || s[j] == '.'
			}
			add(numeral, s[i:j])
			i = j
		case r == '\\':
			i = lexCommand(s, i, add)
		case unicode.IsLetter(r):
			word := string(r)
			if j := slices.IndexFunc(words(), func(w string) bool { return strings.HasPrefix(s[i:], w) }); j >= 0 {
				word = words()[j]
			}
			if len(word) > 1 {
				add(command, word)
			} else {
				add(letter, word)
			}
			i += max(len(word), size)
		default:
			add(mark, string(r))
			i += size
		}
		gap = false
	}
	return out, true
}

// lexCommand reads what begins with a backslash at i and returns where it ends.
func lexCommand(s string, i int, add func(kind, string)) int {
	j := i + 1
	for j < len(s) && (s[j] >= 'a' && s[j] <= 'z' || s[j] >= 'A' && s[j] <= 'Z') {
		j++
	}
	name := s[i+1 : j]
	if name == "" {
		_, size := utf8.DecodeRuneInString(s[j:])
		switch c := s[j : j+size]; c {
		case "{", "}", "|":
			add(mark, c+c)
		case "%":
			add(mark, "%")
		}
		return j + size
	}
	switch name {
	case "text", "textbf", "textnormal", "textit", "textrm", "mbox", "texttt", "textsf":
		if inner, after, ok := braces(s, j); ok {
			add(prose, strings.TrimSpace(inner))
			return after
		}
	case "begin", "end", "mathbb", "mathcal":
		if inner, after, ok := braces(s, j); ok {
			add(command, name+":"+strings.TrimSpace(inner))
			return after
		}
	case "mathrm", "mathbf", "boldsymbol", "operatorname", "mathit", "mathsf", "bold", "rm", "bf":
		return j
	}
	add(command, name)
	return j
}

// braces returns what is in the balanced braces that open at or after i, and where
// they end.
func braces(s string, i int) (inner string, after int, ok bool) {
	for i < len(s) && (s[i] == ' ' || s[i] == '*') {
		i++
	}
	if i >= len(s) || s[i] != '{' {
		return "", i, false
	}
	depth := 0
	for j := i; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case '{':
			depth++
		case '}':
			depth--
			if depth == 0 {
				return s[i+1 : j], j + 1, true
			}
		}
	}
	return "", i, false
}

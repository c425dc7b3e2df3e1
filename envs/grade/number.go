package grade

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"hermes/datasets"
	"hermes/envs/grade/maths"
	"hermes/envs/grade/written"
	"hermes/internal/late"
)

var (
	numbers = late.Regexp(`[-+−]?[$€£¥]?(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?: \d+/\d+|\s?/\s?\d[\d,]*(?:\.\d+)?)?\s?(?:\\?%|(?:percent|pct)\b)?`)
	boxed   = late.Regexp(`\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}`)
	frac    = late.Regexp(`(\d?)\s*\\[dt]?frac(?:\{\s*([-−]?[\d.,]+)\s*\}\s*\{\s*([\d.,]+)\s*\}|(\d)(\d))`)
	// powers of ten, and powers of units, which are no numbers
	tens  = late.Regexp(`(?:(\d)\s*(?:\\times|\\cdot|[×x*·])\s*|\b)10\s?(?:\^|\*\*)\s?[{(]?\s*([-+−]?\d+)\s*[})]?`)
	units = late.Regexp(`([A-Za-z})])\s?\^\{?[-−]?\d+\}?|\b([kcdm]?m|in|ft|yd|mi)[23]\b`)
	// spaces that are only between thousands
	narrow  = late.Regexp(`(\d)[\x{00a0}\x{2009}\x{202f}](\d{3})\b`)
	grouped = late.Regexp(`^\d{1,3}(?:,\d{2,3})*,\d{3}$`)
	// marked begins what follows ####: a number, however it is dressed.
	marked = late.Regexp(`^(?:\s|[*_$(:=]|\\\(|\\boxed\{|(?i:the\s+|final\s+)*(?i:answer)(?:\s+is)?\b)*$`)
	// signs of LaTeX between the digits of a number
	thousands = strings.NewReplacer("{,}", ",", `\,`, "", `\!`, "")
)

// maxExponent bounds what 1e… may grow to.
const maxExponent = 400

// Number compares the last number of the answer (after "####", in \boxed{}, or anywhere)
// with that of gold, as exact rationals: 1,000 equals 1000.0.
func Number(gold string) (Grader, error) { return near(gold, 0, 0) }

// near is Number with the tolerance max(abs, rel × |gold|). Where one side alone is a
// percentage, 20% is 20 as well as 0.2.
func near(gold string, abs, rel float64) (Grader, error) {
	want, ok := number(gold)
	if !ok {
		return nil, fmt.Errorf("grader number: %.80q has no number", gold)
	}
	alike := func(got, want *big.Rat) bool {
		tolerance := new(big.Rat).Mul(rational(rel), new(big.Rat).Abs(want))
		if a := rational(abs); a.Cmp(tolerance) > 0 {
			tolerance = a
		}
		apart := new(big.Rat).Sub(got, want)
		return apart.Abs(apart).Cmp(tolerance) <= 0
	}
	return judged(func(text string) (bool, string) {
		got, ok := number(text)
		if !ok {
			return false, "no number in " + short(text)
		}
		rate, ok := maths.Units(got.unit, want.unit, got.power || want.power)
		if !ok {
			return false, "read " + short(got.written.RatString()) + " " + short(got.unit)
		}
		got.written = new(big.Rat).Mul(got.written, rate)
		same := alike(got.value(), want.value()) || got.percent != want.percent && alike(got.written, want.written)
		return same, "read " + short(got.value().RatString())
	}), nil
}

// rational is a tolerance as it is written: 1e-6 is a millionth, which no float is.
func rational(f float64) *big.Rat {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// quantity is a number as it was written: 50% is 50, a percentage.
type quantity struct {
	written *big.Rat
	percent bool
	unit    string // the word behind it
	power   bool   // of a square or cubic unit, perhaps
}

func (q quantity) value() *big.Rat {
	if q.percent {
		return new(big.Rat).Quo(q.written, big.NewRat(100, 1))
	}
	return q.written
}

// number is the last number of a text: behind the last ####, in the last \boxed{}, or
// anywhere, in <answer>…</answer> where there is such a pair. A number that is denied does
// not count, and of several ("5 or 7") none does. Behind #### it is the first one if the line begins with it, whatever is said
// of it. Thousands may be set apart by commas; 50% is a half, 3/4 three quarters, and so is
// \frac{3}{4}; 3 1/2 is three and a half, 2 \times 10^6 two million; the 2 of cm^2 is none.
func number(text string) (quantity, bool) {
	text = written.Final(written.Fold(text))
	power := hasPower(text) && powers.MatchString(text)
	q, ok := numberIn(text)
	q.power = q.power || power
	return q, ok
}

// powers are those of units.
var powers = late.Regexp(`(?:[A-Za-z})]\s?)\^\{?[23]\}?|\b(?:square|cubic)\b|\b[kcdm]?m[23]\b`)

// hasPower tells whether a text may have a power or a unit with one: most texts have none,
// and need not be searched for how it is written.
func hasPower(text string) bool {
	for i := 1; i < len(text); i++ {
		switch c, before := text[i], text[i-1]; {
		case c == '^', (c == '2' || c == '3') && strings.IndexByte("mntdi", before) >= 0:
			return true
		}
	}
	return strings.Contains(text, "square") || strings.Contains(text, "cubic")
}

func numberIn(text string) (quantity, bool) {
	if i := strings.LastIndex(text, "####"); i >= 0 {
		text = spelt(text[i+4:])
		line, _, _ := strings.Cut(text, "\n")
		m := numbers.FindStringIndex(line)
		// "#### 3. So" is a heading, "#### 6 × 7 = 42" a sum
		if m != nil && marked.MatchString(line[:m[0]]) && !strings.HasSuffix(strings.TrimSpace(line[m[0]:m[1]]), ".") && !strings.Contains(line[m[1]:], "=") {
			if next := numbers.FindStringIndex(line[m[1]:]); next != nil && parted.MatchString(line[m[1]:m[1]+next[0]]) || strings.HasSuffix(strings.TrimSpace(line[m[0]:m[1]]), ",") {
				return lastNumber(line)
			}
			if related(line, m) || onward.MatchString(line[m[1]:]) {
				return quantity{}, false
			}
			return at(line, m)
		}
	}
	text, ok := box(text)
	if !ok {
		return quantity{}, false
	}
	return lastNumber(spelt(text))
}

// box is what is in the last box that is not denied, or the text itself where there is
// none. ok is false where boxes side by side say different things.
func box(text string) (inner string, ok bool) {
	all := slices.DeleteFunc(boxed.FindAllStringSubmatchIndex(text, -1), func(m []int) bool { return written.Denied(text[:m[0]]) || written.DeniedBehind(text[m[1]:]) })
	if len(all) == 0 {
		return text, true
	}
	last := all[len(all)-1]
	inner = text[last[2]:last[3]]
	if len(all) > 1 {
		before := all[len(all)-2]
		other := text[before[2]:before[3]]
		between := text[before[1]:last[0]]
		if parted.MatchString(between) || inList.MatchString(between) || andToo.MatchString(between) {
			a, ok1 := lastNumber(spelt(other))
			b, ok2 := lastNumber(spelt(inner))
			return inner, ok1 && ok2 && a.value().Cmp(b.value()) == 0
		}
	}
	return inner, true
}

var (
	// parted, andToo and inList stand between two numbers of which neither is the answer.
	parted = late.Regexp(`(?i)^[\s*_$)"'` + "`" + `,;%\]]*(?:[A-Za-z]+[\s,]+)?(?:and/)?(?:\b(?:or|oder|ou|vs\.?|versus|resp\.?|bzw\.?|alternatively|otherwise|perhaps|maybe|possibly|unless(?:\s+it(?:'s|\s+is))?)(?:\b|\s)|或者?)[\s,]*(?:(?:maybe|possibly|perhaps|even|else|alternatively|otherwise|it\s+is)\s+)?[\s*_$("'` + "`" + `\[]*$`)
	andToo = late.Regexp(`(?i)^[\s*_$)"'` + "`" + `,;%\]]*(?:\band\b|和|及|&)[\s*_$("'` + "`" + `\[]*$`)
	ranges = late.Regexp(`(?i)^(?:\W|\b(?:the|final|answer|is|are|it|it's|from|between|about|around|approximately|roughly|some|somewhere|anywhere|probably|maybe|perhaps|i|think|guess|say|would|be)\b)*$`)
	upTo   = late.Regexp(`(?i)^[\s*_$]*\b(?:to|through|until)\b[\s*_$]*$`)
	inList = late.Regexp(`^[*_$)"'` + "`" + `]*\s*(?:[,;、]\s+|\|\s*)[*_$("'` + "`" + `]*$`)
	alone  = late.Regexp("^[-+\\d.,;/%$*_\\s`\"']*$")
	ended  = late.Regexp(`^[\s*_$)"'` + "`" + `.!?;\]}]*(?:\n|$)`)
	halts  = late.Regexp(`[.!?;](?:\s|$)|\n`)
	counts = late.Regexp(`^[\s\\]*(?:(?:text|mathrm|mbox)\s*\{\s*)?(?:(square|cubic)\s+)?([A-Za-z]+)`)
)

// lastNumber is the last number of a text that is not denied; none where it is one of
// several: "5 or 7", "5, 6, 7".
func lastNumber(text string) (quantity, bool) {
	all := slices.DeleteFunc(numbers.FindAllStringIndex(text, -1), func(m []int) bool { return named(text[:m[0]]) })
	all = slices.DeleteFunc(all, func(m []int) bool { return written.DeniedBehind(text[m[1]:]) })
	i := len(all) - 1
	for ; i >= 0 && written.Denied(text[:all[i][0]]); i-- {
		if i > 0 && halts.MatchString(text[all[i-1][1]:all[i][0]]) {
			return quantity{}, false // what was said before is no answer
		}
	}
	if i < 0 {
		return quantity{}, false
	}
	q, ok := at(text, all[i])
	if !ok || related(text, all[i]) {
		return quantity{}, false
	}
	if i == 0 {
		return q, ok
	}
	if text[all[i][0]] != '-' && upTo.MatchString(text[all[i-1][1]:all[i][0]]) && ranges.MatchString(text[:all[i-1][0]]) && ended.MatchString(text[all[i][1]:]) {
		return quantity{}, false
	}
	if alone.MatchString(text[:min(len(text), 400)]) && strings.Contains(text[all[i-1][0]:all[i][0]], "\n") {
		other, ok := at(text, all[i-1])
		return q, ok && other.value().Cmp(q.value()) == 0 // one below the other, and nothing else
	}
	before := text[all[i-1][0]:all[i-1][1]]
	between := bare.Replace(text[all[i-1][0]+len(strings.TrimRight(before, ", ")) : all[i][0]])
	if parted.MatchString(between) || (andToo.MatchString(between) || inList.MatchString(between)) && ended.MatchString(text[all[i][1]:]) {
		other, ok := at(text, all[i-1])
		return q, !ok || other.value().Cmp(q.value()) == 0 || other.written.Cmp(q.written) == 0 && other.percent != q.percent
	}
	return q, true
}

// related reports whether the number at a place is only a part of what is said: a bound, a
// root, a factorial, the end of a range, the last term of a sum without its result.
func related(text string, place []int) bool {
	before, behind := text[max(0, place[0]-200):place[0]], text[place[1]:]
	if inRange(text[:place[0]+1]) {
		return true // 3-5
	}
	if c := text[place[0]]; c == '+' && unworked.MatchString(before) {
		return true // 5+3
	}
	if relation.MatchString(before) && !arrow.MatchString(before) || operand.MatchString(before) || written.Bound(before) != "" || written.BoundBehind(behind) != "" {
		return true
	}
	return factorial.MatchString(behind) && !talk.MatchString(before)
}

// inRange tells whether a text, up to the first byte of a number, leads to the end of a range.
func inRange(text string) bool {
	dash := func(s string) bool {
		s = strings.TrimRight(s, " \t\n\f\r")
		return s != "" && strings.IndexByte("-:/~", s[len(s)-1]) >= 0
	}
	if !dash(text) && !dash(text[:len(text)-1]) {
		return false // before most numbers is no dash, and dashes is looked for from the beginning
	}
	m := dashes.FindStringIndex(text)
	return m != nil && ranges.MatchString(text[:m[0]])
}

// named tells whether a text ends with what makes a name of the number behind it.
func named(text string) bool {
	if text == "" {
		return false
	}
	switch c := text[len(text)-1]; {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= utf8.RuneSelf, c == '_', c == '{':
		return name.MatchString(text[max(0, len(text)-40):])
	}
	return false
}

var (
	relation = late.Regexp(`(?:[<>≤≥≠±√∓]=?|\+/-|\b(?:sqrt|cbrt)\s*\(|\\(?:pm|mp|sqrt|[gl]eq?|[gl]eqslant|[gl]t|neq?)\b)[\s${(]*$`)
	// dashes is what is before the end of a range or date: 3-5 is one where nothing else is said
	dashes    = late.Regexp(`(?:[\d.,]+(?:[-:/~]|\s+[-:~]\s+))+.?$`)
	unworked  = late.Regexp(`\d\s?$`)
	onward    = late.Regexp(`^(?:[-:/~]|\s+:\s+)\d`)
	arrow     = late.Regexp(`(?:[-=]>|<[/A-Za-z][^<>]*>)[\s$*_]*$`)
	operand   = late.Regexp(`\d\s*(?:[+*×·÷^]|\\(?:times|cdot|div)\b)\s*$`)
	factorial = late.Regexp(`^!(?:[^!=]|$)`)
	talk      = late.Regexp(`(?:^|[^\\A-Za-z])[A-Za-z]{2,}[^\\{}]*$|[^\x00-\x{24f}]`)
	// name is what makes a name of the number behind it: x3, x_3
	name = late.Regexp(`(?:^|[^A-Za-z0-9.\\])[A-Za-zα-ω]$|[A-Za-zα-ω]_\{?$`)
	// based is a number to the base 16, scaled one in thousands or millions, parts one whose
	// thousands are apart, minus one whose sign is
	based  = late.Regexp(`\b0[xX]([0-9a-fA-F]{1,15})\b`)
	scaled = late.Regexp(`^(?:[kK]\b|([MB]|mn|bn)\b|\s?(?i:(thousand|million|billion|trillion)s?\b))`)
	parts  = late.Regexp(`(^|[^\d.,/ ])(\s*[-+]?)(\d{1,3}(?:_\d{3})+|[1-9]\d{0,2}(?: \d{3})+)(\.\d+)?(\s*(?:[^\d\s/,:]|,\s|$)|\s*[.]?\s*$)`)
	minus  = late.Regexp(`(^\s*|[:=]\s*|\bis\s+)-\s+([.\d][\d.,]*\s*[.$)]*\s*(?:\n|$))`)
)

// apart tells whether two digits stand on the sides of a blank or _: most texts have none.
func apart(text string) bool {
	for i := 1; i+1 < len(text); i++ {
		if c := text[i]; (c == ' ' || c == '_') && text[i-1]-'0' < 10 && text[i+1]-'0' < 10 {
			return true
		}
	}
	return false
}

// bare takes commands of LaTeX out of a text.
var bare = strings.NewReplacer(`\text`, "", `\mathrm`, "", `\mbox`, "", `\quad`, "", "{", "", "}", "", `\`, "")

// at reads the number at a place, with the unit behind it.
func at(text string, place []int) (quantity, bool) {
	from, to := place[0], place[1]
	one := text[from:to]
	if before, _ := utf8.DecodeLastRuneInString(text[:from]); from > 0 && (unicode.IsLetter(before) || unicode.IsDigit(before)) {
		one = strings.TrimLeft(one, "-") // 10-12 ends in 12
	}
	q, ok := parseQuantity(one)
	if m := scaled.FindStringSubmatch(text[to:]); ok && m != nil {
		by := map[string]int64{"": 1e3, "m": 1e6, "mn": 1e6, "b": 1e9, "bn": 1e9, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}[strings.ToLower(m[1]+m[2])]
		q.written = new(big.Rat).Mul(q.written, big.NewRat(by, 1))
		to += len(m[0])
	}
	if m := counts.FindStringSubmatch(text[to:]); m != nil {
		q.unit, q.power = m[2], m[1] != ""
	} else {
		q.unit = sign(text, from, to)
	}
	return q, ok
}

// spelt writes the numbers of LaTeX, and of words, as they are typed.
func spelt(text string) string {
	text = plainly(text)
	if strings.Contains(text, `\`) || strings.Contains(text, "{,}") {
		text = frac.ReplaceAllStringFunc(thousands.Replace(text), func(s string) string {
			m := frac.FindStringSubmatch(s)
			if m[1] != "" {
				m[1] += " " // of a mixed number
			}
			return m[1] + m[2] + m[4] + "/" + m[3] + m[5]
		})
	}
	if strings.Contains(text, "0x") || strings.Contains(text, "0X") {
		text = based.ReplaceAllStringFunc(text, func(s string) string {
			n, _ := strconv.ParseInt(s[2:], 16, 64) // 15 digits are no overflow
			return strconv.FormatInt(n, 10)
		})
	}
	if strings.Contains(text, "- ") {
		text = minus.ReplaceAllString(text, "$1-$2")
	}
	if apart(text) {
		text = parts.ReplaceAllStringFunc(text, func(s string) string {
			m := parts.FindStringSubmatch(s)
			return m[1] + m[2] + strings.NewReplacer("_", "", " ", "").Replace(m[3]) + m[4] + m[5]
		})
	}
	if strings.Contains(text, "^") || strings.Contains(text, "**") {
		text = tens.ReplaceAllStringFunc(text, func(s string) string {
			m := tens.FindStringSubmatch(s)
			m[1] = cmp.Or(m[1], "1")
			return m[1] + "e" + strings.Replace(m[2], "−", "-", 1)
		})
	}
	if strings.Contains(text, "^") {
		text = raised.ReplaceAllStringFunc(text, raise)
	}
	if hasPower(text) {
		text = units.ReplaceAllString(text, "$1$2")
	}
	if strings.ContainsAny(text, "\u00a0\u2009\u202f") {
		text = narrow.ReplaceAllString(narrow.ReplaceAllString(text, "$1$2"), "$1$2")
	}
	return text
}

// raised are powers of numbers: 3^2, 2^{10}.
var raised = late.Regexp(`(^|[^\w.})])(\d+(?:\.\d+)?)\s?\^\s?(?:[{(]\s*([-+]?\d{1,3})\s*[})]|([-+]?\d{1,3}))`)

// raise writes a power as the number that it is.
func raise(text string) string {
	m := raised.FindStringSubmatch(text)
	n, err := strconv.Atoi(m[3] + m[4])
	base, ok := new(big.Rat).SetString(m[2])
	if err != nil || !ok || max(n, -n)*len(m[2]) > 1200 || n < 0 && base.Sign() == 0 {
		return text
	}
	value := big.NewRat(1, 1)
	for range max(n, -n) {
		value.Mul(value, base)
	}
	if n < 0 {
		value.Inv(value)
	}
	if _, places, _ := strings.Cut(m[2], "."); n >= 0 && places != "" {
		return m[1] + value.FloatString(len(places)*n)
	}
	return m[1] + value.RatString()
}

// parseNumber is the value of one number.
func parseNumber(text string) (*big.Rat, bool) {
	q, ok := parseQuantity(text)
	if !ok {
		return nil, false
	}
	return q.value(), true
}

// signs writes a number in digits, with one sign for a percentage and no currency.
var signs = strings.NewReplacer("$", "", "€", "", "£", "", "¥", "", "+", "", "−", "-", "\\", "", "percent", "%", "pct", "%")

func parseQuantity(text string) (quantity, bool) {
	text = signs.Replace(text)
	text, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	if len(text) > 4096 {
		return quantity{}, false
	}
	if whole, part, mixed := strings.Cut(strings.TrimSpace(text), " "); mixed && !strings.Contains(whole+part[:1], "/") {
		w, ok1 := parseQuantity(whole)
		p, ok2 := parseQuantity(part)
		if !ok1 || !ok2 || p.written.Cmp(big.NewRat(1, 1)) >= 0 {
			return quantity{written: p.written, percent: percent}, ok2 // two numbers, of which the last counts
		}
		if strings.HasPrefix(whole, "-") {
			p.written.Neg(p.written)
		}
		return quantity{written: w.written.Add(w.written, p.written), percent: percent}, true
	}
	text = strings.ReplaceAll(text, " ", "")
	top, bottom, fraction := strings.Cut(text, "/")
	top, bottom = commas(top), commas(bottom)
	if i := strings.IndexAny(top, "eE"); i >= 0 {
		if n, err := strconv.Atoi(top[i+1:]); err != nil || max(n, -n) > maxExponent {
			return quantity{}, false
		}
	}
	r, ok := new(big.Rat).SetString(strings.TrimSuffix(top, "."))
	if !ok {
		return quantity{}, false
	}
	if fraction {
		d, ok := new(big.Rat).SetString(bottom)
		if !ok || d.Sign() == 0 {
			return quantity{}, false
		}
		r.Quo(r, d)
	}
	return quantity{written: r, percent: percent}, true
}

// commas takes the commas out of a number. Those that part no thousands part a decimal
// fraction, where one is before one or two digits at the end, or else numbers, of which
// the last counts.
func commas(text string) string {
	text = strings.TrimRight(text, ",")
	if !strings.Contains(text, ",") {
		return text
	}
	sign := text[:len(text)-len(strings.TrimLeft(text, "-"))]
	digits, rest := text[len(sign):], ""
	if at := strings.IndexAny(digits, ".eE"); at >= 0 {
		digits, rest = digits[:at], digits[at:]
	}
	if grouped.MatchString(digits) {
		return sign + strings.ReplaceAll(digits, ",", "") + rest
	}
	before, last, _ := strings.Cut(digits, ",")
	if len(last) <= 2 && rest == "" {
		return sign + before + "." + last
	}
	return digits[strings.LastIndex(digits, ",")+1:] + rest
}

// numeric compares numbers within max(abs, rel × |gold|).
type numeric struct {
	Field string  `yaml:"field"`
	Abs   float64 `yaml:"abs"`
	Rel   float64 `yaml:"rel"`
}

func (o *numeric) check() error {
	for name, f := range map[string]float64{"abs": o.Abs, "rel": o.Rel} {
		if !(f >= 0) || math.IsInf(f, 0) {
			return fmt.Errorf("%s %g: want 0 or more", name, f)
		}
	}
	return nil
}

func (o *numeric) bind(row datasets.Row) (Grader, error) {
	golds, err := Gold{o.Field}.texts(row)
	if err != nil {
		return nil, err
	}
	var gs []Grader
	for _, gold := range golds {
		g, err := near(gold, o.Abs, o.Rel)
		if err != nil {
			return nil, fmt.Errorf("row %s: %w", row.ID, err)
		}
		gs = append(gs, g)
	}
	return highest(gs), nil
}

func (o *numeric) binary() bool { return true }

func (o *numeric) key(_ datasets.Row, answer string) (string, bool) {
	r, ok := number(answer)
	if !ok {
		return "", false
	}
	return r.value().RatString(), true
}

package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

type filterFn func(st *state, v any, a arguments) any

// builtinFilters are Jinja2's own, less urlize and pprint; random chooses only where there is
// no choice.
func builtinFilters() map[string]filterFn {
	f := map[string]filterFn{
		"abs": absFilter, "attr": attrFilter, "batch": batchFilter, "capitalize": textFilter("capitalize", capitalize),
		"center": func(st *state, v any, a arguments) any {
			return st.pad(st.text(v), intArg(a.take("center", 0, "width")[0], 80), " ", "center")
		},
		"default": defaultFilter, "dictsort": dictSort, "escape": func(st *state, v any, a arguments) any { return st.escaped(v) },
		"filesizeformat": fileSize, "first": firstFilter, "float": floatFilter,
		"forceescape": func(st *state, v any, _ arguments) any { return Markup(escapeHTML(st.text(v))) },
		"format":      formatFilter, "groupby": groupBy, "indent": indentFilter, "int": intFilter, "items": itemsFilter,
		"join": joinFilter, "last": lastFilter, "length": lengthFilter,
		"list":  func(st *state, v any, _ arguments) any { return &List{st.collect(v)} },
		"lower": textFilter("lower", lowerText), "map": mapFilter, "max": extreme("max"), "min": extreme("min"),
		"random": randomFilter, "reject": selecting("reject", false, false), "rejectattr": selecting("rejectattr", true, false), "replace": replaceFilter,
		"reverse": reverseFilter, "round": roundFilter, "safe": safeFilter,
		"select": selecting("select", false, true), "selectattr": selecting("selectattr", true, true), "slice": sliceFilter,
		"sort": sortFilter, "string": stringFilter, "striptags": stripTags, "sum": sumFilter, "title": textFilter("title", titleFilterText),
		"tojson": toJSON, "trim": trimFilter, "truncate": truncate, "unique": uniqueFilter, "upper": textFilter("upper", upperText),
		"urlencode": urlEncode, "wordcount": wordCount, "wordwrap": wordWrap, "xmlattr": xmlAttr,
	}
	f["count"] = f["length"]
	f["d"] = f["default"]
	f["e"] = f["escape"]
	return f
}

// soft keeps a Markup and makes a str of everything else.
func soft(st *state, v any) any {
	if _, ok := v.(Markup); ok {
		return v
	}
	return st.text(v)
}

// like gives s the type of v.
func like(v any, s string) any {
	if _, ok := v.(Markup); ok {
		return Markup(s)
	}
	return s
}

func textFilter(name string, fn func(string) string) filterFn {
	return func(st *state, v any, a arguments) any {
		a.none(name)
		return like(v, fn(st.text(v)))
	}
}

func stringFilter(st *state, v any, a arguments) any {
	a.none("string")
	return soft(st, v)
}

func safeFilter(st *state, v any, a arguments) any {
	a.none("safe")
	return Markup(st.text(v))
}

func trimFilter(st *state, v any, a arguments) any {
	s := st.text(v)
	if len(a.pos)+len(a.kw) > 0 {
		if chars := a.take("trim", 0, "chars")[0]; chars != nil {
			return like(v, strings.Trim(s, textArg("trim", chars)))
		}
	}
	return like(v, strings.TrimFunc(s, isSpace))
}

func lengthFilter(st *state, v any, a arguments) any {
	a.none("length")
	n, ok := st.length(v)
	if !ok {
		panic(typeErrorf("object of type '%s' has no len()", typeName(v)))
	}
	return n
}

func defaultFilter(st *state, v any, a arguments) any {
	p := a.take("default", 0, "default_value", "boolean")
	if p[0] == missing {
		p[0] = ""
	}
	if u, ok := v.(*Undefined); ok && !u.unsafe || ok || p[1] != missing && st.truth(p[1]) && !st.truth(v) {
		return p[0]
	}
	return v
}

func absFilter(st *state, v any, _ arguments) any {
	if _, _, _, k := number(v); k == 0 {
		defined(v)
		panic(typeErrorf("bad operand type for abs(): '%s'", typeName(v)))
	}
	if f, ok := v.(float64); ok {
		return math.Abs(f)
	}
	return shrink(new(big.Int).Abs(toBig(v)))
}

func attrFilter(st *state, v any, a arguments) any {
	name := st.text(a.one("attr"))
	if x, ok := st.pyAttr(v, name); ok {
		return x
	}
	return &Undefined{obj: v, name: name}
}

func firstFilter(st *state, v any, a arguments) any {
	a.none("first")
	it := st.iterate(v)
	if x, ok := it.next(); ok {
		return x
	}
	return &Undefined{hint: "No first item, sequence was empty.", obj: missing}
}

func lastFilter(st *state, v any, a arguments) any {
	a.none("last")
	items := st.reversible(v)
	if len(items) == 0 {
		return &Undefined{hint: "No last item, sequence was empty.", obj: missing}
	}
	return items[len(items)-1]
}

// reversible is the items of what Python's reversed takes.
func (st *state) reversible(v any) []any {
	switch v := v.(type) {
	case *List:
		return v.items
	case *Tuple:
		return v.items
	case string, Markup, *Dict, *dictView, rangeValue:
		return st.collect(v)
	case *Undefined:
		return nil
	}
	panic(typeErrorf("'%s' object is not reversible", typeName(v)))
}

func reverseFilter(st *state, v any, a arguments) any {
	a.none("reverse")
	if s, ok := str(v); ok {
		return like(v, st.sliceText(s, nil, nil, -1))
	}
	items := st.collect(v)
	return lazy(func() func() (any, bool) {
		return func() (any, bool) {
			if len(items) == 0 {
				return nil, false
			}
			x := items[len(items)-1]
			items = items[:len(items)-1]
			return x, true
		}
	})
}

func itemsFilter(st *state, v any, a arguments) any {
	a.none("items")
	return lazy(func() func() (any, bool) {
		switch d := v.(type) {
		case *Undefined:
			return func() (any, bool) { return nil, false }
		case *Dict:
			it := st.iterate(&dictView{d, "items"})
			return it.next
		}
		panic(typeErrorf("Can only get item pairs from a mapping."))
	})
}

func joinFilter(st *state, v any, a arguments) any {
	p := a.take("join", 0, "d", "attribute")
	sep := ""
	if p[0] != missing {
		sep = st.text(p[0])
	}
	get := func(x any) any { return x }
	if p[1] != missing && p[1] != nil {
		get = st.attrGetter(p[1])
	}
	it := st.iterate(v)
	var parts []string
	size := 0
	for x, ok := it.next(); ok; x, ok = it.next() {
		t := st.text(get(x))
		size += len(t) + len(sep)
		st.step(len(t) + len(sep))
		if size > st.maxBytes {
			panic(limitf("a text of %d bytes exceeds %d", size, st.maxBytes))
		}
		parts = append(parts, t)
	}
	return strings.Join(parts, sep)
}

func indentFilter(st *state, v any, a arguments) any {
	p := a.take("indent", 0, "width", "first", "blank")
	indention := "    "
	if s, ok := str(p[0]); ok {
		indention = s
	} else if p[0] != missing {
		indention = st.pad("", intArg(p[0], 4), " ", "ljust")
	}
	flag := func(v any) bool { return v != missing && st.truth(v) }
	s := st.text(v) + "\n"
	list := lines(s)
	st.size(len(s) + len(list)*len(indention))
	var b strings.Builder
	for i, l := range list {
		l = strings.TrimRightFunc(l, isLineEnd)
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == 0 && flag(p[1]) || i > 0 && (l != "" || flag(p[2])) {
			b.WriteString(indention)
		}
		b.WriteString(l)
	}
	return like(v, b.String())
}

func replaceFilter(st *state, v any, a arguments) any {
	p := a.take("replace", 2, "old", "new", "count")
	count := -1
	if p[2] != missing && p[2] != nil {
		count = intArg(p[2], -1)
	}
	return st.replace(st.text(v), st.text(p[0]), st.text(p[1]), count)
}

func titleFilterText(s string) string {
	var b strings.Builder
	start := true
	for _, r := range s {
		switch {
		case strings.ContainsRune("-([{<", r) || isSpace(r):
			start = true
			b.WriteRune(r)
		case start:
			b.WriteString(upperText(string(r)))
			start = false
		default:
			b.WriteString(lowerText(string(r)))
		}
	}
	return b.String()
}

func intFilter(st *state, v any, a arguments) any {
	p := a.take("int", 0, "default", "base")
	var none any = 0
	if p[0] != missing {
		none = p[0]
	}
	switch x := v.(type) {
	case bool, int, *big.Int:
		return shrink(toBig(v))
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return none
		}
		b, _ := big.NewFloat(x).Int(nil)
		return shrink(b)
	}
	s, ok := str(v)
	if !ok {
		defined(v)
		return none
	}
	base := intArg(p[1], 10)
	s = strings.TrimFunc(s, isSpace)
	if len(s) > 4300 || base < 0 || base == 1 || base > 36 {
		return none
	}
	digits := strings.ToLower(s)
	if prefix := map[int]string{16: "0x", 8: "0o", 2: "0b"}[base]; prefix != "" {
		digits = strings.Replace(digits, prefix, "", 1)
	}
	if base == 10 || base == 16 || base == 8 || base == 2 {
		digits = withoutUnderscores(digits)
	}
	if n, ok := new(big.Int).SetString(digits, base); ok {
		return shrink(n)
	}
	if f, err := strconv.ParseFloat(withoutUnderscores(s), 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) && plainFloat(s) {
		return intFilter(st, f, arguments{})
	}
	return none
}

// withoutUnderscores drops single underscores between digits.
func withoutUnderscores(s string) string {
	if strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return "x"
	}
	return strings.ReplaceAll(s, "_", "")
}

// plainFloat refuses the hexadecimal floats that Go reads and Python does not.
func plainFloat(s string) bool { return !strings.ContainsAny(s, "xXpP") }

func floatFilter(st *state, v any, a arguments) any {
	var none any = 0.0
	if p := a.take("float", 0, "default"); p[0] != missing {
		none = p[0]
	}
	if _, _, _, k := number(v); k != 0 {
		return toFloat(v)
	}
	defined(v)
	s, _ := str(v)
	s = strings.TrimFunc(s, isSpace)
	f, err := strconv.ParseFloat(withoutUnderscores(s), 64)
	if err != nil && !math.IsInf(f, 0) || !plainFloat(s) || s == "" {
		return none
	}
	return f
}

func roundFilter(st *state, v any, a arguments) any {
	p := a.take("round", 0, "precision", "method")
	precision, way := intArg(p[0], 0), "common"
	if p[1] != missing {
		way = st.text(p[1])
	}
	if _, _, _, k := number(v); k == 0 {
		defined(v)
		panic(typeErrorf("type %s doesn't define __round__ method", typeName(v)))
	}
	x := toFloat(v)
	scale := math.Pow(10, float64(precision))
	switch way {
	case "common":
		if _, isFloat := v.(float64); !isFloat && precision >= 0 {
			return v
		}
		if precision < 0 {
			return math.RoundToEven(x*math.Pow(10, float64(precision))) / math.Pow(10, float64(precision))
		}
		r, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'f', min(precision, 400), 64), 64)
		return r
	case "ceil":
		return math.Ceil(x*scale) / scale
	case "floor":
		return math.Floor(x*scale) / scale
	}
	panic(raisef("FilterArgumentError", "method must be common, ceil or floor"))
}

func truncate(st *state, v any, a arguments) any {
	p := a.take("truncate", 0, "length", "killwords", "end", "leeway")
	length := intArg(p[0], 255)
	end := "..."
	leeway := 5
	if p[2] != missing {
		end = st.text(p[2])
	}
	if p[3] != missing && p[3] != nil {
		leeway = intArg(p[3], 5)
	}
	s := st.text(v)
	runes := []rune(s)
	tail := utf8.RuneCountInString(end)
	if length < tail || leeway < 0 {
		panic(raisef("AssertionError", "expected length >= %d, got %d", tail, length))
	}
	if len(runes) <= length+leeway {
		return like(v, s)
	}
	cut := string(runes[:length-tail])
	if p[1] == missing || !st.truth(p[1]) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return cut + end
}

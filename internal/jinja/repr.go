package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// text is Python's str.
func (st *state) text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case Markup:
		return string(v)
	case *Undefined:
		return ""
	case int:
		return strconv.Itoa(v)
	}
	r := &reprer{st: st}
	r.value(v, 0)
	return string(r.b)
}

func (st *state) repr(v any) string {
	r := &reprer{st: st}
	r.value(v, 0)
	return string(r.b)
}

// reprShort is repr of a value in an error message.
func reprShort(v any) string {
	if s, ok := str(v); ok {
		return reprString(s)
	}
	if i, ok := v.(int); ok {
		return itoa(i)
	}
	return "of type " + typeName(v)
}

type reprer struct {
	st *state
	b  []byte
}

func (r *reprer) add(s string) { r.b = append(r.b, s...) }

func (r *reprer) value(v any, depth int) {
	if depth > maxJSONDepth {
		panic(&Error{Class: ClassLimit, Kind: "RecursionError", Message: "maximum recursion depth exceeded while getting the repr of an object"})
	}
	r.st.step(0)
	if len(r.b) > r.st.maxBytes {
		panic(limitf("a text of %d bytes exceeds %d", len(r.b), r.st.maxBytes))
	}
	switch v := v.(type) {
	case nil:
		r.add("None")
	case bool:
		if v {
			r.add("True")
		} else {
			r.add("False")
		}
	case int:
		r.b = strconv.AppendInt(r.b, int64(v), 10)
	case *big.Int:
		r.add(bigText(v))
	case float64:
		r.add(floatText(v))
	case string:
		r.st.step(len(v))
		r.add(reprString(v))
	case Markup:
		r.st.step(len(v))
		r.add("Markup(" + reprString(string(v)) + ")")
	case *List:
		r.seq("[", v.items, "]", depth)
	case *Tuple:
		end := ")"
		if len(v.items) == 1 {
			end = ",)"
		}
		r.seq("(", v.items, end, depth)
	case *Dict:
		r.dict(v, depth)
	case *dictView:
		r.add(typeName(v) + "(")
		r.value(&List{r.st.collect(v)}, depth+1)
		r.add(")")
	case rangeValue:
		r.add("range(" + itoa(v.start) + ", " + itoa(v.start+v.count*v.step))
		if v.step != 1 {
			r.add(", " + itoa(v.step))
		}
		r.add(")")
	case *Undefined:
		r.add("Undefined")
	case *Namespace:
		r.add("<Namespace ")
		r.dict(v.attrs, depth+1)
		r.add(">")
	case *Macro:
		r.add("<Macro " + reprString(v.name) + ">")
	case *loopContext:
		r.add("<LoopContext " + itoa(v.index0+1) + "/" + itoa(v.length(r.st)) + ">")
	default:
		r.add("<" + typeName(v) + " object>")
	}
}

func (r *reprer) seq(open string, items []any, end string, depth int) {
	r.add(open)
	for i, v := range items {
		if i > 0 {
			r.add(", ")
		}
		r.value(v, depth+1)
	}
	r.add(end)
}

func (r *reprer) dict(d *Dict, depth int) {
	r.add("{")
	for i, k := range d.keys {
		if i > 0 {
			r.add(", ")
		}
		r.value(k, depth+1)
		r.add(": ")
		r.value(d.vals[i], depth+1)
	}
	r.add("}")
}

func bigText(v *big.Int) string {
	if v.BitLen() > 14284 { // 4,300 digits: Python's own limit
		panic(raisef("ValueError", "Exceeds the limit (4300 digits) for integer string conversion"))
	}
	return v.String()
}

// floatText is repr of a Python float: the shortest digits that read back,
// with an exponent below 1e-4 and from 1e16 on.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatText(f)
}

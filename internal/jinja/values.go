package jinja

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Values are nil (None), bool, int, *big.Int (outside int), float64, string and
// the types below. Nothing that came from the caller is ever changed.
type (
	// Markup is a text marked safe: adding to it escapes the other side.
	Markup string
	// List is a Python list.
	List struct{ items []any }
	// Tuple is a Python tuple.
	Tuple struct{ items []any }
	// Undefined is the value of what is not there. It prints as nothing.
	Undefined struct {
		hint   string
		obj    any // missing, or what was asked for name
		name   any
		unsafe bool // the sandbox refused it
	}
	// Namespace carries values out of a loop.
	Namespace struct{ attrs *Dict }
	// generator yields once.
	generator struct{ iterator }
	// dictView is what keys, values and items of a dict give.
	dictView struct {
		dict *Dict
		kind string
	}
	rangeValue struct{ start, count, step int }
)

type missingType struct{ _ byte }

// missing marks a variable without a value.
var missing any = &missingType{}

// NewList makes a list. Items are converted as [Dict.Set] does it.
func NewList(items ...any) *List {
	l := &List{make([]any, len(items))}
	for i, v := range items {
		l.items[i] = fromGo(v)
	}
	return l
}

// Grow makes room for n more items.
func (l *List) Grow(n int) { l.items = slices.Grow(l.items, n) }

// Append adds an item; only for building a list before rendering.
func (l *List) Append(v any) { l.items = append(l.items, fromGo(v)) }

// Len is the number of items. A nil list is empty.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.items)
}

// At is item i.
func (l *List) At(i int) any { return l.items[i] }

func (u *Undefined) fail() *Error {
	kind := "UndefinedError"
	if u.unsafe {
		kind = "SecurityError"
	}
	return raisef(kind, "%s", u.message())
}

func (u *Undefined) message() string {
	if u.hint != "" {
		return u.hint
	}
	name, isText := u.name.(string)
	switch {
	case u.obj == missing:
		return reprString(name) + " is undefined"
	case !isText:
		return objectName(u.obj) + " has no element " + reprShort(u.name)
	}
	return reprString(objectName(u.obj)) + " has no attribute " + reprString(name)
}

func objectName(v any) string {
	if v == nil {
		return "None"
	}
	return typeName(v) + " object"
}

// typeName is type(v).__name__.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case Markup:
		return "Markup"
	case *List:
		return "list"
	case *Tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case *dictView:
		return "dict_" + v.kind
	case *generator:
		return "generator"
	case *Undefined:
		return "Undefined"
	case *Namespace:
		return "Namespace"
	case *Macro:
		return "Macro"
	case *loopContext:
		return "LoopContext"
	case rangeValue:
		return "range"
	case *boundMethod:
		return "builtin_function_or_method"
	case *builtin:
		return "function"
	}
	return "object"
}

func (st *state) truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case Markup:
		return v != ""
	case *List:
		return len(v.items) > 0
	case *Tuple:
		return len(v.items) > 0
	case *Dict:
		return len(v.keys) > 0
	case *dictView:
		return len(v.dict.keys) > 0
	case rangeValue:
		return v.count > 0
	case *Undefined:
		return false
	}
	return true
}

func shrink(n *big.Int) any {
	if n.IsInt64() {
		return int(n.Int64())
	}
	return n
}

func itoa(i int) string { return strconv.Itoa(i) }

func join(parts []string, size int) string {
	var b strings.Builder
	b.Grow(size)
	for _, p := range parts {
		b.WriteString(p)
	}
	return b.String()
}

// number sees ints, bools and floats; exactly one result is set.
func number(v any) (i int, b *big.Int, f float64, kind byte) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, nil, 0, 'i'
		}
		return 0, nil, 0, 'i'
	case int:
		return v, nil, 0, 'i'
	case *big.Int:
		return 0, v, 0, 'b'
	case float64:
		return 0, nil, v, 'f'
	}
	return 0, nil, 0, 0
}

func toBig(v any) *big.Int {
	i, b, _, kind := number(v)
	if kind == 'b' {
		return b
	}
	return big.NewInt(int64(i))
}

func toFloat(v any) float64 {
	i, b, f, kind := number(v)
	switch kind {
	case 'i':
		return float64(i)
	case 'b':
		x, _ := new(big.Float).SetInt(b).Float64()
		if math.IsInf(x, 0) {
			panic(raisef("OverflowError", "int too large to convert to float"))
		}
		return x
	}
	return f
}

// str sees both kinds of text.
func str(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Markup:
		return string(v), true
	}
	return "", false
}

// integer is v as Python's __index__ has it.
func integer(v any) (int, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int:
		return v, true
	case *big.Int:
		if v.Sign() < 0 {
			return math.MinInt, true
		}
		return math.MaxInt, true
	}
	return 0, false
}

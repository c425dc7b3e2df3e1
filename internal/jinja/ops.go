package jinja

import (
	"math"
	"math/big"
	"strings"
)

func operands(op string, a, b any) *Error {
	return typeErrorf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
}

func defined(values ...any) {
	for _, v := range values {
		if u, ok := v.(*Undefined); ok {
			panic(u.fail())
		}
	}
}

func (st *state) add(a, b any) any {
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			st.size(len(x) + len(y))
			return x + y
		case Markup:
			return st.addMarkup(escapeHTML(x), string(y))
		}
		defined(b)
		panic(typeErrorf("can only concatenate str (not \"%s\") to str", typeName(b)))
	case Markup:
		switch y := b.(type) {
		case string:
			return st.addMarkup(string(x), escapeHTML(y))
		case Markup:
			return st.addMarkup(string(x), string(y))
		}
	case *List:
		if y, ok := b.(*List); ok {
			return &List{st.addItems(x.items, y.items)}
		}
		defined(b)
		panic(typeErrorf("can only concatenate list (not \"%s\") to list", typeName(b)))
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			return &Tuple{st.addItems(x.items, y.items)}
		}
		defined(b)
		panic(typeErrorf("can only concatenate tuple (not \"%s\") to tuple", typeName(b)))
	}
	return st.arith("+", a, b)
}

func (st *state) addMarkup(a, b string) any {
	st.size(len(a) + len(b))
	return Markup(a + b)
}

func (st *state) addItems(a, b []any) []any {
	st.size(16 * (len(a) + len(b)))
	return append(append(make([]any, 0, len(a)+len(b)), a...), b...)
}

func (st *state) negate(v any) any {
	i, b, f, kind := number(v)
	switch kind {
	case 'i':
		return shrink(new(big.Int).Neg(big.NewInt(int64(i))))
	case 'b':
		return shrink(new(big.Int).Neg(b))
	case 'f':
		return -f
	}
	defined(v)
	panic(typeErrorf("bad operand type for unary -: '%s'", typeName(v)))
}

func (st *state) plus(v any) any {
	i, b, f, kind := number(v)
	switch kind {
	case 'i':
		return i
	case 'b':
		return b
	case 'f':
		return f
	}
	defined(v)
	panic(typeErrorf("bad operand type for unary +: '%s'", typeName(v)))
}

// arith does every operator but + on texts and lists.
func (st *state) arith(op string, a, b any) any {
	if s, ok := str(a); ok && op == "%" {
		out := st.printf(s, b)
		if _, safe := a.(Markup); safe {
			return Markup(out)
		}
		return out
	}
	if op == "*" {
		if v, ok := st.repeat(a, b); ok {
			return v
		}
		if v, ok := st.repeat(b, a); ok {
			return v
		}
	}
	defined(a, b)
	_, _, _, ka := number(a)
	_, _, _, kb := number(b)
	switch {
	case ka == 0 || kb == 0:
		name := op
		if op == "**" {
			name = "** or pow()"
		}
		panic(operands(name, a, b))
	case ka == 'f' || kb == 'f':
		return floatArith(op, toFloat(a), toFloat(b))
	case op == "/":
		y := toFloat(b)
		if y == 0 {
			panic(raisef("ZeroDivisionError", "division by zero"))
		}
		return toFloat(a) / y
	}
	if ka == 'i' && kb == 'i' {
		x, _ := integer(a)
		y, _ := integer(b)
		if v, ok := smallArith(op, x, y); ok {
			return v
		}
	}
	return st.bigArith(op, toBig(a), toBig(b))
}

// smallArith handles what surely fits into an int.
func smallArith(op string, x, y int) (any, bool) {
	switch op {
	case "+":
		s := x + y
		return s, (s > x) == (y > 0)
	case "-":
		s := x - y
		return s, (s < x) == (y > 0)
	case "*":
		const half = 1 << 31
		return x * y, x < half && x > -half && y < half && y > -half
	case "//", "%":
		if y == 0 || y == -1 {
			return nil, false
		}
		q, r := x/y, x%y
		if r != 0 && (r < 0) != (y < 0) {
			q, r = q-1, r+y
		}
		if op == "%" {
			return r, true
		}
		return q, true
	}
	return nil, false
}

func (st *state) bigArith(op string, x, y *big.Int) any {
	st.size((x.BitLen() + y.BitLen()) / 8)
	z := new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		if x.BitLen()+y.BitLen() > 1<<20 {
			panic(limitf("an integer of more than a million bits"))
		}
		st.step((x.BitLen() / 8) * (y.BitLen()/512 + 1))
		z.Mul(x, y)
	case "//", "%":
		if y.Sign() == 0 {
			panic(raisef("ZeroDivisionError", "integer division or modulo by zero"))
		}
		m := new(big.Int)
		st.step((x.BitLen() / 8) * (y.BitLen()/512 + 1))
		z.DivMod(x, y, m)
		if m.Sign() != 0 && y.Sign() < 0 {
			z.Add(z, big.NewInt(-1))
			m.Add(m, y)
		}
		if op == "%" {
			return shrink(m)
		}
	case "**":
		return st.bigPower(x, y)
	}
	return shrink(z)
}

func (st *state) bigPower(x, y *big.Int) any {
	if y.Sign() < 0 {
		return floatArith("**", toFloat(x), toFloat(y))
	}
	if x.BitLen() > 1 {
		if !y.IsInt64() || y.Int64() > 1<<16 || int64(x.BitLen())*y.Int64() > 1<<18 {
			panic(limitf("an integer of more than 262144 bits"))
		}
		st.step(int(int64(x.BitLen())*y.Int64()) / 2)
	} else if x.Sign() != 0 { // 1 or -1
		if x.Sign() < 0 && y.Bit(0) == 1 {
			return -1
		}
		return 1
	}
	return shrink(new(big.Int).Exp(x, y, nil))
}

func floatArith(op string, x, y float64) any {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "**":
		v := math.Pow(x, y)
		if x == 0 && y < 0 {
			panic(raisef("ZeroDivisionError", "0.0 cannot be raised to a negative power"))
		}
		if math.IsInf(v, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
			panic(raisef("OverflowError", "Numerical result out of range"))
		}
		return v
	}
	if y == 0 {
		panic(raisef("ZeroDivisionError", "float division by zero"))
	}
	if op == "/" {
		return x / y
	}
	m := math.Mod(x, y)
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	if op == "%" {
		if m == 0 {
			m = math.Copysign(0, y)
		}
		return m
	}
	q := (x - m) / y
	f := math.Floor(q)
	if q-f > 0.5 {
		f++
	}
	return f
}

func (st *state) repeat(a, times any) (any, bool) {
	n, ok := integer(times)
	if !ok {
		return nil, false
	}
	n = max(n, 0)
	fits := func(unit int) {
		if unit > 0 && n > st.maxBytes/unit {
			panic(limitf("%d copies of %d bytes exceed %d", n, unit, st.maxBytes))
		}
		st.size(unit * n)
	}
	items := func(in []any) []any {
		fits(16 * len(in))
		var out []any
		if len(in) > 0 {
			out = make([]any, 0, n*len(in))
			for range n {
				out = append(out, in...)
			}
		}
		return out
	}
	switch a := a.(type) {
	case string:
		fits(len(a))
		if a == "" {
			return "", true
		}
		return strings.Repeat(a, n), true
	case Markup:
		fits(len(a))
		if a == "" {
			return a, true
		}
		return Markup(strings.Repeat(string(a), n)), true
	case *List:
		return &List{items(a.items)}, true
	case *Tuple:
		return &Tuple{items(a.items)}, true
	}
	return nil, false
}

func (st *state) equal(a, b any, depth int) bool {
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			st.step(min(len(x), len(y)))
			return x == y
		}
	case nil:
		return b == nil
	}
	if depth > maxJSONDepth {
		panic(&Error{Class: ClassLimit, Kind: "RecursionError", Message: "maximum recursion depth exceeded in comparison"})
	}
	st.step(0)
	if x, ok := str(a); ok {
		y, ok := str(b)
		return ok && x == y
	}
	if _, _, _, ka := number(a); ka != 0 {
		_, _, _, kb := number(b)
		return kb != 0 && orderNumbers(a, b) == 0
	}
	switch x := a.(type) {
	case *List:
		y, ok := b.(*List)
		return ok && st.equalItems(x.items, y.items, depth)
	case *Tuple:
		y, ok := b.(*Tuple)
		return ok && st.equalItems(x.items, y.items, depth)
	case *Dict:
		y, ok := b.(*Dict)
		return ok && st.equalDicts(x, y, depth)
	case *Undefined:
		_, ok := b.(*Undefined)
		return ok
	}
	return a == b
}

func (st *state) equalItems(a, b []any, depth int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !st.equal(a[i], b[i], depth+1) {
			return false
		}
	}
	return true
}

func (st *state) equalDicts(a, b *Dict, depth int) bool {
	if len(a.keys) != len(b.keys) {
		return false
	}
	for i, k := range a.keys {
		v, ok := b.lookup(k)
		if !ok || !st.equal(a.vals[i], v, depth+1) {
			return false
		}
	}
	return true
}

// orderNumbers compares two numbers; 2 means that one is not a number.
func orderNumbers(a, b any) int {
	ia, _, fa, ka := number(a)
	ib, _, fb, kb := number(b)
	switch {
	case ka == 'i' && kb == 'i':
		switch {
		case ia < ib:
			return -1
		case ia > ib:
			return 1
		}
		return 0
	case ka == 'f' && math.IsNaN(fa), kb == 'f' && math.IsNaN(fb):
		return 2
	case ka == 'f' && kb == 'f':
		return big.NewFloat(fa).Cmp(big.NewFloat(fb))
	}
	return exact(a).Cmp(exact(b))
}

func exact(v any) *big.Float {
	if f, ok := v.(float64); ok {
		return big.NewFloat(f)
	}
	return new(big.Float).SetInt(toBig(v))
}

func (st *state) compare(op string, a, b any) bool {
	switch op {
	case "==":
		return st.equal(a, b, 0)
	case "!=":
		return !st.equal(a, b, 0)
	case "in":
		return st.contains(b, a)
	case "not in":
		return !st.contains(b, a)
	}
	c := st.order(op, a, b, 0)
	if c == 2 {
		return false
	}
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// order is -1, 0, 1, or 2 for what has no order (NaN).
func (st *state) order(op string, a, b any, depth int) int {
	st.step(0)
	if x, ok := str(a); ok {
		if y, ok := str(b); ok {
			st.step(min(len(x), len(y)))
			return strings.Compare(x, y)
		}
	}
	_, _, _, ka := number(a)
	_, _, _, kb := number(b)
	if ka != 0 && kb != 0 {
		return orderNumbers(a, b)
	}
	if depth > maxJSONDepth {
		panic(&Error{Class: ClassLimit, Kind: "RecursionError", Message: "maximum recursion depth exceeded in comparison"})
	}
	switch x := a.(type) {
	case *List:
		if y, ok := b.(*List); ok {
			return st.orderItems(op, x.items, y.items, depth)
		}
	case *Tuple:
		if y, ok := b.(*Tuple); ok {
			return st.orderItems(op, x.items, y.items, depth)
		}
	}
	defined(a, b)
	panic(typeErrorf("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b)))
}

func (st *state) orderItems(op string, a, b []any, depth int) int {
	for i := range min(len(a), len(b)) {
		if !st.equal(a[i], b[i], depth+1) {
			return st.order(op, a[i], b[i], depth+1)
		}
	}
	return orderNumbers(len(a), len(b))
}

func (st *state) contains(in, v any) bool {
	switch c := in.(type) {
	case string, Markup:
		text, _ := str(in)
		part, ok := str(v)
		if !ok {
			panic(typeErrorf("'in <string>' requires string as left operand, not %s", typeName(v)))
		}
		st.step(len(text))
		return strings.Contains(text, part)
	case *Dict:
		_, ok := c.lookup(v)
		return ok
	case *dictView:
		if c.kind == "keys" {
			_, ok := c.dict.lookup(v)
			return ok
		}
	case *Undefined:
		return false
	case nil, bool, int, float64, *big.Int:
		panic(typeErrorf("argument of type '%s' is not iterable", typeName(in)))
	}
	it := st.iterate(in)
	for x, ok := it.next(); ok; x, ok = it.next() {
		if st.equal(x, v, 0) {
			return true
		}
	}
	return false
}

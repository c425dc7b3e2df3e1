package maths

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"math/cmplx"
	"slices"
)

// points is how many places expressions with letters are compared at.
const points = 8

// at is the value of a letter at a point: a rational between -3 and 3, the same for the
// same name.
func at(name string, point int) *big.Rat {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", name, point)
	n := int64(h.Sum64()%359) - 179
	n = cmp.Or(n, 180)
	return big.NewRat(n, 61)
}

// constant is the value of a letter that names a number.
func constant(name string) (complex128, bool) {
	switch name {
	case "π":
		return math.Pi, true
	case "e":
		return math.E, true
	case "i":
		return 1i, true
	case "∞":
		return complex(math.Inf(1), 0), true
	}
	return 0, false
}

// letters lists the names below n that have no value.
func (n *node) letters() []string {
	var out []string
	n.has(func(k *node) bool {
		if k.op == oSym {
			if _, ok := constant(k.name); !ok && !slices.Contains(out, k.name) {
				out = append(out, k.name)
			}
		}
		return false
	})
	return out
}

// maxBits bounds the size of exact numbers.
const maxBits = 4096

// meter counts what exact arithmetic has cost, in words. When it is spent, values are
// floating numbers.
type meter struct{ spent int }

const maxSpent = 4_000_000

func (m *meter) pay(r *big.Rat) bool {
	bits := r.Num().BitLen() + r.Denom().BitLen()
	m.spent += 1 + bits*bits>>16
	return bits < maxBits && m.spent < maxSpent
}

// rat is the exact value of n at a point; ok is false where it has none or is too large.
func (n *node) rat(point int, m *meter) (*big.Rat, bool) {
	switch n.op {
	case oNum:
		return n.num, true
	case oSym:
		if _, ok := constant(n.name); ok || n.name == "∅" {
			return nil, false
		}
		return at(n.name, point), true
	case oAdd, oMul:
		total := big.NewRat(int64(n.op-oAdd), 1)
		for _, k := range n.kids {
			v, ok := k.rat(point, m)
			if !ok {
				return nil, false
			}
			if n.op == oAdd {
				total = new(big.Rat).Add(total, v)
			} else {
				total = new(big.Rat).Mul(total, v)
			}
			if !m.pay(total) {
				return nil, false
			}
		}
		return total, true
	case oPow:
		base, ok1 := n.kids[0].rat(point, m)
		if !ok1 {
			return nil, false
		}
		exp, ok2 := n.kids[1].rat(point, m)
		if !ok2 {
			return nil, false
		}
		r, ok := ratPower(base, exp)
		return r, ok && m.pay(r)
	case oFunc:
		if v, ok := n.kids[0].rat(point, m); ok && n.name == "abs" {
			return new(big.Rat).Abs(v), true
		}
	}
	return nil, false
}

// ratPower is exact where the result is rational.
func ratPower(base, exp *big.Rat) (*big.Rat, bool) {
	if !exp.Num().IsInt64() || !exp.Denom().IsInt64() {
		return nil, false
	}
	n, d := exp.Num().Int64(), exp.Denom().Int64()
	if d != 1 {
		if d != 2 || base.Sign() < 0 {
			return nil, false
		}
		over, under := new(big.Int).Sqrt(base.Num()), new(big.Int).Sqrt(base.Denom())
		root := new(big.Rat).SetFrac(over, under)
		if new(big.Rat).Mul(root, root).Cmp(base) != 0 {
			return nil, false
		}
		base = root
	}
	if n < 0 {
		if base.Sign() == 0 {
			return nil, false
		}
		base, n = new(big.Rat).Inv(base), -n
	}
	if n > maxBits || n*int64(base.Num().BitLen()+base.Denom().BitLen()) > maxBits {
		return nil, false
	}
	e := big.NewInt(n)
	return new(big.Rat).SetFrac(new(big.Int).Exp(base.Num(), e, nil), new(big.Int).Exp(base.Denom(), e, nil)), true
}

// value is n at a point as a floating number; NaN where it has none.
func (n *node) value(point int) complex128 {
	switch n.op {
	case oNum:
		f, _ := n.num.Float64()
		return complex(f, 0)
	case oSym:
		if v, ok := constant(n.name); ok {
			return v
		}
		f, _ := at(n.name, point).Float64()
		return complex(f, 0)
	case oAdd, oMul:
		total := complex(float64(n.op-oAdd), 0)
		for _, k := range n.kids {
			if n.op == oAdd {
				total += k.value(point)
			} else {
				total *= k.value(point)
			}
		}
		return total
	case oPow:
		return power(n.kids[0].value(point), n.kids[1].value(point))
	case oFunc:
		args := make([]complex128, len(n.kids))
		for i, k := range n.kids {
			args[i] = k.value(point)
		}
		return apply(n.name, args)
	}
	return cmplx.NaN()
}

func power(base, exp complex128) complex128 {
	if base == 0 {
		switch {
		case real(exp) > 0:
			return 0
		case exp == 0:
			return 1
		}
		return cmplx.NaN()
	}
	if exp == -1 {
		return 1 / base
	}
	if imag(exp) == 0 && real(base) < 0 && imag(base) == 0 && math.Abs(1/real(exp)-3) < 1e-12 {
		return complex(math.Cbrt(real(base)), 0) // the real root
	}
	return cmplx.Pow(base, exp)
}

// elementary are the functions of one argument that have a value everywhere.
var elementary = map[string]func(complex128) complex128{
	"sin": cmplx.Sin, "cos": cmplx.Cos, "tan": cmplx.Tan,
	"arcsin": cmplx.Asin, "arccos": cmplx.Acos, "arctan": cmplx.Atan,
	"sinh": cmplx.Sinh, "cosh": cmplx.Cosh, "tanh": cmplx.Tanh, "exp": cmplx.Exp,
	"cot": func(x complex128) complex128 { return 1 / cmplx.Tan(x) },
	"sec": func(x complex128) complex128 { return 1 / cmplx.Cos(x) },
	"csc": func(x complex128) complex128 { return 1 / cmplx.Sin(x) },
	"abs": func(x complex128) complex128 { return complex(cmplx.Abs(x), 0) },
}

func apply(name string, a []complex128) complex128 {
	x := a[0]
	if f := elementary[name]; f != nil {
		return f(x)
	}
	switch name {
	case "ln", "log", "lg":
		switch {
		case x == 0:
			return cmplx.NaN()
		case len(a) > 1:
			return cmplx.Log(x) / cmplx.Log(a[1])
		case name == "lg":
			return cmplx.Log10(x)
		}
		return cmplx.Log(x)
	case "floor", "ceil", "!", "binom":
		return discrete(name, a)
	}
	return cmplx.NaN()
}

func discrete(name string, a []complex128) complex128 {
	for _, x := range a {
		if imag(x) != 0 {
			return cmplx.NaN()
		}
	}
	x := real(a[0])
	switch name {
	case "floor":
		return complex(math.Floor(x), 0)
	case "ceil":
		return complex(math.Ceil(x), 0)
	case "!":
		if x < 0 || x > 170 {
			return cmplx.NaN()
		}
		return complex(math.Gamma(x+1), 0)
	}
	k := real(a[1])
	if k < 0 || k > 1000 || k != math.Trunc(k) {
		return cmplx.NaN()
	}
	out := 1.0
	for i := range int(k) {
		out *= (x - float64(i)) / float64(i+1)
	}
	return complex(out, 0)
}

func finite(v complex128) bool { return !cmplx.IsNaN(v) && !cmplx.IsInf(v) }

package maths

import (
	"math"
	"math/big"
	"math/cmplx"
	"slices"
	"strings"

	"hermes/internal/late"
)

// maxWork bounds how many nodes one verdict may look at.
const maxWork = 400_000

// comparer compares two trees.
type comparer struct {
	o     Options
	work  int
	exact meter
}

func (c *comparer) same(a, b *node) bool {
	c.work += a.size() + b.size()
	if c.work > maxWork {
		return false
	}
	if a.percent || b.percent {
		return c.samePercent(a, b)
	}
	if a.canon() == b.canon() {
		return true
	}
	if a.op == oRel || b.op == oRel {
		return c.sameRelation(a, b)
	}
	if c.union(a, b) || c.union(b, a) {
		return true
	}
	if as, bs, ok := lists(a, b); ok {
		return c.match(as, bs)
	}
	switch {
	case a.op == oTuple && b.op == oTuple:
		return a.name == b.name && c.each(a.kids, b.kids)
	case a.op == oTuple && b.op == oList && (a.name == "()" || a.name == "[]" && len(a.kids) > 2):
		return c.each(a.kids, b.kids)
	case b.op == oTuple && a.op == oList && (b.name == "()" || b.name == "[]" && len(b.kids) > 2):
		return c.each(a.kids, b.kids)
	case a.op == oMat && b.op == oTuple:
		return c.rows(a, b)
	case a.op == oTuple && b.op == oMat:
		return c.rows(b, a)
	case a.op == oUnion && b.op == oUnion:
		return a.name == b.name && (a.name != "setminus" && c.match(a.kids, b.kids) || c.each(a.kids, b.kids))
	case a.op == oMat && b.op == oMat:
		return len(a.kids) == len(b.kids) && c.each(a.kids, b.kids)
	case a.op == oRatio && b.op == oRatio:
		return c.sameRatio(a, b)
	case a.op == oText || b.op == oText:
		return plainText(a) != "" && plainText(a) == plainText(b)
	}
	return a.scalar() && b.scalar() && c.sameScalar(a, b)
}

// rows compares a matrix with the list of its rows: [[1, 2], [3, 4]].
func (c *comparer) rows(matrix, list *node) bool {
	return list.name == "[]" && slices.EqualFunc(matrix.kids, list.kids, func(want, row *node) bool {
		return row.op == oTuple && row.name == "[]" && c.each(want.kids, row.kids)
	})
}

// union compares "x < 1 or x > 2" with a union of intervals.
func (c *comparer) union(list, set *node) bool {
	if !c.o.Relations || list.op != oList || set.op != oUnion || set.name != "cup" || len(list.kids) != len(set.kids) {
		return false
	}
	parts := make([]*node, len(list.kids))
	for i, k := range list.kids {
		part, ok := interval(k)
		if !ok || k.op != oRel {
			return false
		}
		parts[i] = part
	}
	return c.match(parts, set.kids)
}

// samePercent holds 28% equal to 28 and to 0.28.
func (c *comparer) samePercent(a, b *node) bool {
	x, y := *a, *b
	x.percent, y.percent = false, false
	if c.same(&x, &y) {
		return true
	}
	part := func(n *node) *node { return product(n, inverse(number(100))) }
	return !b.percent && c.same(part(&x), &y) || !a.percent && c.same(&x, part(&y))
}

// lists returns the elements of both where one is a set or a list; ± is two elements.
func lists(a, b *node) (as, bs []*node, ok bool) {
	as, ok1 := elements(a)
	bs, ok2 := elements(b)
	tuple := a.op == oTuple && b.op == oList || a.op == oList && b.op == oTuple // (1,3) is 1,3 in this order
	return as, bs, (ok1 || ok2) && !tuple
}

func elements(n *node) ([]*node, bool) {
	var out []*node
	many := n.op == oSet || n.op == oList
	kids := []*node{n}
	if many {
		kids = n.kids
	}
	for _, k := range kids {
		if !k.has(func(k *node) bool { return k.op == oPM }) {
			out = append(out, k)
			continue
		}
		many = true
		for _, plus := range []bool{true, false} {
			out = append(out, k.swap(func(n *node) *node {
				if n.op != oPM {
					return n
				}
				if (n.name == "pm") == plus {
					return sum(n.kids...)
				}
				return sum(n.kids[0], negative(n.kids[1]))
			}))
		}
	}
	return out, many
}

func (c *comparer) each(as, bs []*node) bool {
	return slices.EqualFunc(as, bs, c.same)
}

// match pairs the elements in any order.
func (c *comparer) match(as, bs []*node) bool {
	if len(as) != len(bs) { // said twice is said once
		as, bs = c.once(as), c.once(bs)
	}
	if len(as) != len(bs) {
		return false
	}
	partner := make([]int, len(bs)) // 1 + index of as
	var find func(i int, tried []bool) bool
	known := map[[2]int]bool{}
	equal := func(i, j int) bool {
		v, ok := known[[2]int{i, j}]
		if !ok {
			v = c.same(as[i], bs[j])
			known[[2]int{i, j}] = v
		}
		return v
	}
	find = func(i int, tried []bool) bool {
		for j := range bs {
			if tried[j] || !equal(i, j) {
				continue
			}
			tried[j] = true
			if partner[j] == 0 || find(partner[j]-1, tried) {
				partner[j] = i + 1
				return true
			}
		}
		return false
	}
	for i := range as {
		if !find(i, make([]bool, len(bs))) {
			return false
		}
	}
	return true
}

// once leaves out what is said again, in any notation: 1/2, 0.5.
func (c *comparer) once(ns []*node) (out []*node) {
	if len(ns) > maxTwice {
		return ns
	}
	for _, n := range ns {
		if !slices.ContainsFunc(out, func(o *node) bool { return c.same(o, n) }) {
			out = append(out, n)
		}
	}
	return out
}

// maxTwice bounds the lists in which values that are said twice are looked for.
const maxTwice = 50

func (c *comparer) sameRatio(a, b *node) bool {
	if c.each(a.kids, b.kids) {
		return true
	}
	if len(a.kids) != 2 || len(b.kids) != 2 {
		return false
	}
	for _, k := range append(slices.Clone(a.kids), b.kids...) {
		if v := k.value(0); !k.scalar() || v == 0 || !finite(v) {
			return false
		}
	}
	return c.sameScalar(product(a.kids[0], b.kids[1]), product(a.kids[1], b.kids[0]))
}

// label is the letter of a choice: (A).
var label = late.Regexp(`^[(\[]([a-z])[)\].]$`)

// plainText is what a text or a run of letters says.
func plainText(n *node) string {
	switch n.op {
	case oText:
		text := strings.ToLower(strings.Join(strings.Fields(strings.Trim(n.name, " .")), ""))
		if m := label.FindStringSubmatch(text); m != nil {
			return m[1]
		}
		return text
	case oSym:
		return strings.ToLower(n.name)
	case oMul:
		var b strings.Builder
		for _, k := range n.kids {
			t := plainText(k)
			if t == "" {
				return ""
			}
			b.WriteString(t)
		}
		return b.String()
	}
	return ""
}

// sameScalar compares exactly where both are rational, else to 9 digits, or to the places
// of the options where a decimal fraction is among them.
func (c *comparer) sameScalar(a, b *node) bool {
	rounded := func(n *node) bool { return n.has(func(k *node) bool { return k.decimal }) }
	loose := rounded(a) || rounded(b)
	n := points
	if len(a.letters())+len(b.letters()) == 0 {
		n = 1
	}
	seen := 0
	for p := range n {
		if x, ok := a.rat(p, &c.exact); ok {
			if y, ok := b.rat(p, &c.exact); ok {
				if x.Cmp(y) != 0 && (!loose || !c.near(x, y)) {
					return false
				}
				seen++
				continue
			}
		}
		x, y := a.value(p), b.value(p)
		if n == 1 && cmplx.IsInf(x) && cmplx.IsInf(y) && unbounded(a) && unbounded(b) { // else too large to know
			return math.Signbit(real(x)) == math.Signbit(real(y))
		}
		if !finite(x) || !finite(y) {
			continue
		}
		if !c.close(x, y, loose) {
			return false
		}
		seen++
	}
	return seen > 0 && seen >= min(n, 3)
}

func unbounded(n *node) bool {
	return n.has(func(k *node) bool { return k.op == oSym && k.name == "∞" })
}

func (c *comparer) near(x, y *big.Rat) bool {
	a, _ := x.Float64()
	b, _ := y.Float64()
	return c.close(complex(a, 0), complex(b, 0), true)
}

func (c *comparer) close(x, y complex128, loose bool) bool {
	apart, size := cmplx.Abs(x-y), max(cmplx.Abs(x), cmplx.Abs(y))
	if apart <= 1e-9*size || apart < 1e-300 {
		return true
	}
	if !loose {
		return size < 1e-9 && apart < 1e-12
	}
	unit := math.Pow(10, -float64(c.o.places()))
	return apart <= 0.5*unit*(1+1e-9) && (size >= 10*unit || apart <= unit*size)
}

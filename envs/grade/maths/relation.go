package maths

import (
	"math/cmplx"
	"slices"
)

// named tells whether n only gives a name to what it equals: x, f(x), |AB|, V_1:V_2, (p,q).
func named(n *node) bool {
	switch n.op {
	case oSym, oText:
		return true
	case oNum:
		return false
	case oPow:
		return n.kids[1].canon() == "-1" && named(n.kids[0])
	case oMul, oTuple, oRatio, oList, oFunc:
		return !slices.ContainsFunc(n.kids, func(k *node) bool { return !named(k) })
	}
	return false
}

// meant is what a relation says of a value: x = 5 is 5, x ∈ S is S.
func meant(n *node) (*node, bool) {
	if n.op != oRel {
		return n, true
	}
	last := n.rels[len(n.rels)-1]
	first := n.kids[0]
	switch {
	case last == "∈" && len(n.rels) == 1:
		return n.kids[1], true
	case last != "=":
		return nil, false
	case len(n.rels) > 1 || named(first) || len(n.letters()) == 0:
		return n.kids[len(n.kids)-1], true
	}
	return nil, false
}

// asked tells whether an equation may say what was asked for, and is none to be solved: the sum
// of two letters or more is a number: m + n = 10.
func asked(n *node) bool {
	if n.op != oRel || slices.ContainsFunc(n.rels, func(r string) bool { return r != "=" }) {
		return false
	}
	left := n.kids[0]
	return left.op == oAdd && len(left.letters()) > 1 && !slices.ContainsFunc(left.kids, func(k *node) bool { return k.op != oSym || len(k.letters()) != 1 })
}

func (c *comparer) sameRelation(a, b *node) bool {
	a, b = ends(a), ends(b)
	if a.op == oRel && b.op == oRel {
		return c.bothRelations(a, b)
	}
	if a.op == oNum && asked(b) { // of the answer alone: x + y = 10 is no 10
		return c.same(a, b.kids[len(b.kids)-1])
	}
	if x, ok := meant(a); ok {
		if y, ok := meant(b); ok && (x != a || y != b) && c.same(x, y) {
			return true
		}
	}
	return c.setOf(a, b)
}

// ends makes x = 5 + 5 = 10 of two ends.
func ends(n *node) *node {
	if n.op != oRel || len(n.rels) < 2 || slices.ContainsFunc(n.rels, func(r string) bool { return r != "=" }) {
		return n
	}
	return &node{op: oRel, kids: []*node{n.kids[0], n.kids[len(n.kids)-1]}, rels: []string{"="}}
}

func (c *comparer) bothRelations(a, b *node) bool {
	a, b = upward(a), upward(b)
	if !slices.Equal(a.rels, b.rels) {
		return c.setOf(a, b)
	}
	if c.each(a.kids, b.kids) {
		return true
	}
	if len(a.rels) != 1 {
		return false
	}
	if a.rels[0] == "=" && named(a.kids[0]) && named(b.kids[0]) && alike(a.kids[0], b.kids[0]) && c.same(a.kids[1], b.kids[1]) {
		return true
	}
	if a.rels[0] == "∈" {
		return c.same(a.kids[0], b.kids[0]) && c.same(a.kids[1], b.kids[1])
	}
	for _, k := range append(slices.Clone(a.kids), b.kids...) {
		if !k.scalar() {
			return false
		}
	}
	difference := func(n *node) *node { return sum(n.kids[0], negative(n.kids[1])) }
	return proportional(difference(a), difference(b), a.rels[0] == "<" || a.rels[0] == "≤")
}

// alike tells whether two names are the same, arguments aside: f(n) and f(x).
func alike(a, b *node) bool {
	return a.op == oMul && b.op == oMul && len(a.kids) == 2 && len(b.kids) == 2 && a.kids[0].canon() == b.kids[0].canon()
}

// upward writes a > b as b < a.
func upward(n *node) *node {
	down := func(r string) bool { return r == ">" || r == "≥" }
	if n.op != oRel || !slices.ContainsFunc(n.rels, down) || slices.ContainsFunc(n.rels, func(r string) bool { return !down(r) }) {
		return n
	}
	c := &node{op: oRel, kids: slices.Clone(n.kids)}
	slices.Reverse(c.kids)
	for _, r := range slices.Backward(n.rels) {
		c.rels = append(c.rels, map[string]string{">": "<", "≥": "≤"}[r])
	}
	return c
}

// proportional tells whether a = k·b with one k ≠ 0, or k > 0, at all points.
func proportional(a, b *node, positive bool) bool {
	var ratio complex128
	seen := 0
	for p := range points {
		x, y := a.value(p), b.value(p)
		if !finite(x) || !finite(y) {
			continue
		}
		if cmplx.Abs(x) < 1e-12 || cmplx.Abs(y) < 1e-12 {
			if cmplx.Abs(x-y) > 1e-9 {
				return false
			}
			continue
		}
		r := x / y
		seen++
		if seen == 1 {
			ratio = r
		}
		if cmplx.Abs(r-ratio) > 1e-9*cmplx.Abs(ratio) {
			return false
		}
	}
	return seen >= 3 && (!positive || real(ratio) > 0 && imag(ratio) == 0)
}

// setOf compares a relation with a set: -2 ≤ x ≤ 7 with [-2,7].
func (c *comparer) setOf(a, b *node) bool {
	if !c.o.Relations {
		return false
	}
	if a.op == oList || b.op == oList {
		return false // x = 2, x = 3 are two values, and 2 < x < 3 is no pair of them
	}
	x, ok1 := interval(a)
	y, ok2 := interval(b)
	return ok1 && ok2 && x.op != oRel && y.op != oRel && c.same(x, y)
}

// interval is the set that a relation of one letter describes; sets are what they are.
func interval(n *node) (*node, bool) {
	if n.op != oRel {
		return n, true
	}
	if m, ok := meant(n); ok && n.rels[0] == "∈" {
		return m, true
	}
	n = upward(n)
	between := func(low, high *node, l, h string) (*node, bool) {
		open, shut := "(", ")"
		if l == "≤" {
			open = "["
		}
		if h == "≤" {
			shut = "]"
		}
		return &node{op: oTuple, name: open + shut, kids: []*node{low, high}}, true
	}
	free := func(k *node) bool { return k.op == oSym && len(k.letters()) == 1 }
	switch {
	case len(n.rels) == 2 && free(n.kids[1]):
		return between(n.kids[0], n.kids[2], n.rels[0], n.rels[1])
	case len(n.rels) == 1 && n.rels[0] == "≠" && free(n.kids[0]) && len(n.kids[1].letters()) == 0:
		low, _ := between(negative(sym("∞")), n.kids[1], "<", "<")
		high, _ := between(n.kids[1], sym("∞"), "<", "<")
		return &node{op: oUnion, name: "cup", kids: []*node{low, high}}, true
	case len(n.rels) == 1 && (n.rels[0] == "<" || n.rels[0] == "≤") && free(n.kids[0]):
		return between(negative(sym("∞")), n.kids[1], "<", n.rels[0])
	case len(n.rels) == 1 && (n.rels[0] == "<" || n.rels[0] == "≤") && free(n.kids[1]):
		return between(n.kids[0], sym("∞"), n.rels[0], "<")
	}
	return nil, false
}

package maths

import (
	"math/big"
	"slices"
	"strings"
)

// op says what a node is.
type op int

const (
	oNum   op = iota // num
	oSym             // name; constants too
	oAdd             // kids
	oMul             // kids
	oPow             // base, exponent
	oFunc            // name, kids
	oTuple           // kids in the brackets of name: "(", "]" …
	oSet             // kids, in any order
	oList            // kids without brackets
	oUnion           // kids joined by name
	oRel             // kids joined by rels
	oMat             // kids are rows of kids
	oRatio           // kids
	oText            // name
	oPM              // kids: a ± b
	oBig             // name: sum, prod, int, lim; kids: from, to, body
)

// node is a piece of mathematics. Subtraction and division are sums and products with a
// factor of -1 and a power of -1.
type node struct {
	op      op
	kids    []*node
	name    string
	num     *big.Rat
	decimal bool // written with a decimal point: compared to some places
	rels    []string
	percent bool
}

func number(n int64) *node               { return &node{op: oNum, num: big.NewRat(n, 1)} }
func sym(name string) *node              { return &node{op: oSym, name: name} }
func negative(n *node) *node             { return product(number(-1), n) }
func inverse(n *node) *node              { return &node{op: oPow, kids: []*node{n, number(-1)}} }
func call(name string, k ...*node) *node { return &node{op: oFunc, name: name, kids: k} }

func sum(kids ...*node) *node { return flat(oAdd, kids) }

func product(kids ...*node) *node { return flat(oMul, kids) }

// flat joins sums of sums, products of products.
func flat(o op, kids []*node) *node {
	n := &node{op: o}
	for _, k := range kids {
		if k.op == o && !k.percent {
			n.kids = append(n.kids, k.kids...)
		} else {
			n.kids = append(n.kids, k)
		}
	}
	return n
}

// canon writes a node so that the order of summands and factors does not matter.
func (n *node) canon() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	switch n.op {
	case oNum:
		b.WriteString(n.num.RatString())
		return
	case oSym:
		b.WriteString(n.name)
		return
	case oText:
		b.WriteString("'" + n.name + "'")
		return
	}
	parts := make([]string, len(n.kids))
	for i, k := range n.kids {
		parts[i] = k.canon()
	}
	if n.op == oAdd || n.op == oMul || n.op == oSet {
		slices.Sort(parts)
	}
	b.WriteString([]string{"", "", "+", "*", "^", "f:", "t", "set", "list", "u", "rel", "mat", "ratio", "", "pm", "big:"}[n.op])
	b.WriteString(n.name + "(" + strings.Join(parts, ",") + ")" + strings.Join(n.rels, ""))
}

// size is how many nodes there are.
func (n *node) size() int {
	size := 1
	for _, k := range n.kids {
		size += k.size()
	}
	return size
}

// has tells whether any node below n is one that f wants.
func (n *node) has(f func(*node) bool) bool {
	return f(n) || slices.ContainsFunc(n.kids, func(k *node) bool { return k.has(f) })
}

// scalar tells whether n is a number, perhaps with letters.
func (n *node) scalar() bool {
	switch n.op {
	case oNum, oSym, oAdd, oMul, oPow, oFunc, oPM, oBig:
		return !slices.ContainsFunc(n.kids, func(k *node) bool { return n.op != oBig && !k.scalar() })
	}
	return false
}

// swap returns n with every node replaced by what f makes of it, from below.
func (n *node) swap(f func(*node) *node) *node {
	c := *n
	c.kids = make([]*node, len(n.kids))
	for i, k := range n.kids {
		c.kids[i] = k.swap(f)
	}
	return f(&c)
}

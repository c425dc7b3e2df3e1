package jinja

// The tree that the parser makes. Names follow Jinja2's own nodes.

type expr interface{ place() pos }

func (p pos) place() pos { return p }

type (
	constNode struct {
		pos
		value any
	}
	nameNode struct {
		pos
		name string
	}
	nsRefNode struct { // the target ns.attr of a set
		pos
		name, attr string
	}
	seqNode struct {
		pos
		items []expr
		tuple bool
	}
	dictNode struct {
		pos
		keys, values []expr
	}
	attrNode struct {
		pos
		of   expr
		name string
	}
	itemNode struct {
		pos
		of, key expr
	}
	sliceNode struct {
		pos
		of               expr
		start, stop, inc expr // nil where left out
	}
	callNode struct {
		pos
		fn expr
		callArgs
	}
	filterNode struct {
		pos
		of   expr // nil inside a filter or set block: the captured text
		name string
		callArgs
	}
	testNode struct {
		pos
		of   expr
		name string
		callArgs
	}
	unaryNode struct {
		pos
		op string
		of expr
	}
	binaryNode struct {
		pos
		op          string
		left, right expr
	}
	compareNode struct {
		pos
		first expr
		ops   []string
		rest  []expr
	}
	concatNode struct {
		pos
		parts []expr
	}
	condNode struct {
		pos
		test, yes, no expr // no is nil where left out
	}
)

// callArgs are the arguments of a call, a filter or a test.
type callArgs struct {
	args    []expr
	names   []string // keyword arguments
	values  []expr
	dynArgs expr
	dynKw   expr
}

type stmt interface{ place() pos }

type (
	dataStmt struct {
		pos
		text string
	}
	printStmt struct {
		pos
		value expr
	}
	ifStmt struct {
		pos
		test expr
		body []stmt
		elif []stmt // at most one ifStmt
		els  []stmt
	}
	forStmt struct {
		pos
		target    expr
		iter      expr
		test      expr
		body, els []stmt
		recursive bool
	}
	setStmt struct {
		pos
		target, value expr
	}
	setBlock struct {
		pos
		target expr
		filter expr // nil, or a chain of filterNodes whose innermost has no operand
		body   []stmt
	}
	macroStmt struct {
		pos
		name string
		macroDef
	}
	callBlock struct {
		pos
		call expr // nil for a generation block
		macroDef
	}
	filterBlock struct {
		pos
		filter expr
		body   []stmt
	}
	withStmt struct {
		pos
		targets []expr
		values  []expr
		body    []stmt
	}
	loopControl struct {
		pos
		signal signal
	}
)

// macroDef is what macros and call blocks share. defaults belong to the last
// parameters.
type macroDef struct {
	params   []string
	defaults []expr
	body     []stmt
}

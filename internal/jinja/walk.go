package jinja

// walk visits an expression and all inside it, in the order of evaluation.
func walk(e expr, visit func(expr)) {
	if e == nil {
		return
	}
	visit(e)
	all := func(list []expr) {
		for _, x := range list {
			walk(x, visit)
		}
	}
	call := func(a callArgs) {
		all(a.args)
		all(a.values)
		walk(a.dynArgs, visit)
		walk(a.dynKw, visit)
	}
	switch n := e.(type) {
	case *seqNode:
		all(n.items)
	case *dictNode:
		for i, k := range n.keys {
			walk(k, visit)
			walk(n.values[i], visit)
		}
	case *attrNode:
		walk(n.of, visit)
	case *itemNode:
		walk(n.of, visit)
		walk(n.key, visit)
	case *sliceNode:
		walk(n.of, visit)
		walk(n.start, visit)
		walk(n.stop, visit)
		walk(n.inc, visit)
	case *callNode:
		walk(n.fn, visit)
		call(n.callArgs)
	case *filterNode:
		walk(n.of, visit)
		call(n.callArgs)
	case *testNode:
		walk(n.of, visit)
		call(n.callArgs)
	case *unaryNode:
		walk(n.of, visit)
	case *binaryNode:
		walk(n.left, visit)
		walk(n.right, visit)
	case *compareNode:
		walk(n.first, visit)
		all(n.rest)
	case *concatNode:
		all(n.parts)
	case *condNode:
		walk(n.test, visit)
		walk(n.yes, visit)
		walk(n.no, visit)
	}
}

// mentions reports whether name is read anywhere in body, however deep.
func mentions(body []stmt, name string) bool {
	found := false
	in := func(e expr) {
		walk(e, func(e expr) {
			if n, ok := e.(*nameNode); ok && n.name == name {
				found = true
			}
		})
	}
	for _, s := range body {
		var bodies [][]stmt
		switch n := s.(type) {
		case *printStmt:
			in(n.value)
		case *ifStmt:
			in(n.test)
			bodies = [][]stmt{n.body, n.elif, n.els}
		case *forStmt:
			in(n.iter)
			in(n.test)
			bodies = [][]stmt{n.body, n.els}
		case *setStmt:
			in(n.value)
		case *setBlock:
			in(n.filter)
			bodies = [][]stmt{n.body}
		case *macroStmt:
			for _, d := range n.defaults {
				in(d)
			}
			bodies = [][]stmt{n.body}
		case *callBlock:
			in(n.call)
			bodies = [][]stmt{n.body}
		case *filterBlock:
			in(n.filter)
			bodies = [][]stmt{n.body}
		case *withStmt:
			for _, v := range n.values {
				in(v)
			}
			bodies = [][]stmt{n.body}
		}
		for _, b := range bodies {
			found = found || mentions(b, name)
		}
		if found {
			return true
		}
	}
	return false
}

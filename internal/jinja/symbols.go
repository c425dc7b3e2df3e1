package jinja

import "maps"

// The rules by which Jinja2 decides what a name means, ported from its
// idtracking: every frame (root, loop turn, macro, set block ...) first learns
// which names it stores and loads, and only then is compiled.

type loadKind uint8

const (
	loadParam   loadKind = iota // bound by the caller of the frame
	loadResolve                 // looked up among the caller's variables
	loadAlias                   // starts with the value it has outside
	loadMissing                 // starts undefined
)

type load struct {
	kind  loadKind
	outer *symbols // of loadAlias: where the outer variable lives
}

// symbols are the names of one frame. A name has one variable per frame.
type symbols struct {
	parent *symbols
	fn     *function
	level  int
	loads  map[string]load // keyed by name; presence means that the frame has a variable of it
	stores map[string]bool
	budget *int
}

// function counts the variables that one activation needs.
type function struct {
	parent *function
	slots  map[slotKey]int
}

// slotKey names a variable of a function: frames side by side share theirs.
type slotKey struct {
	level int
	name  string
}

func newSymbols(parent *symbols, fn *function, budget *int) *symbols {
	s := &symbols{parent: parent, fn: fn, loads: map[string]load{}, stores: map[string]bool{}, budget: budget}
	if parent != nil {
		s.level = parent.level + 1
	}
	return s
}

func (s *symbols) copy() *symbols {
	c := *s
	*s.budget -= 1 + len(s.loads) + len(s.stores)
	if *s.budget < 0 {
		panic(limitf("the template has too many names and branches"))
	}
	c.loads = maps.Clone(s.loads)
	c.stores = maps.Clone(s.stores)
	return &c
}

// find returns the frame that owns the variable that name means here.
func (s *symbols) find(name string) *symbols {
	for ; s != nil; s = s.parent {
		if _, ok := s.loads[name]; ok {
			return s
		}
	}
	return nil
}

func (s *symbols) outer(name string) *symbols {
	if s.parent == nil {
		return nil
	}
	return s.parent.find(name)
}

func (s *symbols) store(name string) {
	s.stores[name] = true
	if _, ok := s.loads[name]; ok {
		return
	}
	if o := s.outer(name); o != nil {
		s.loads[name] = load{loadAlias, o}
		return
	}
	s.loads[name] = load{kind: loadMissing}
}

func (s *symbols) param(name string) {
	s.stores[name] = true
	s.loads[name] = load{kind: loadParam}
}

func (s *symbols) load(name string) {
	if s.find(name) == nil {
		s.loads[name] = load{kind: loadResolve}
	}
}

// branches merges what the branches of an if did: a name stored in only some
// of them starts with its outer value.
func (s *symbols) branches(all ...*symbols) {
	var stored []string
	for _, b := range all {
		for name := range b.stores {
			if !s.stores[name] {
				stored = append(stored, name)
			}
		}
	}
	for _, b := range all {
		maps.Copy(s.loads, b.loads)
		maps.Copy(s.stores, b.stores)
	}
	for _, name := range stored {
		if o := s.outer(name); o != nil {
			s.loads[name] = load{loadAlias, o}
		} else {
			s.loads[name] = load{kind: loadResolve}
		}
	}
}

// slot is the place of name in an activation of the frame's function.
func (s *symbols) slot(name string) int {
	k := slotKey{s.level, name}
	i, ok := s.fn.slots[k]
	if !ok {
		i = len(s.fn.slots)
		s.fn.slots[k] = i
	}
	return i
}

func (s *symbols) statements(body []stmt) {
	for _, b := range body {
		s.statement(b)
	}
}

// statement notes what a statement does to this frame; the bodies of loops,
// macros and blocks are separate frames.
func (s *symbols) statement(n stmt) {
	switch n := n.(type) {
	case *printStmt:
		s.expr(n.value)
	case *ifStmt:
		s.expr(n.test)
		all := [3]*symbols{}
		for i, body := range [][]stmt{n.body, n.elif, n.els} {
			all[i] = s
			if len(body) > 0 {
				all[i] = s.copy()
				all[i].statements(body)
			}
		}
		s.branches(all[:]...)
	case *forStmt:
		s.expr(n.iter)
	case *setStmt:
		s.expr(n.value)
		s.target(n.target)
	case *setBlock:
		s.target(n.target)
	case *macroStmt:
		s.store(n.name)
	case *callBlock:
		if n.call != nil {
			s.expr(n.call)
		}
	case *filterBlock:
		s.expr(n.filter)
	case *withStmt:
		for _, v := range n.values {
			s.expr(v)
		}
	}
}

func (s *symbols) target(e expr) {
	switch e := e.(type) {
	case *nameNode:
		s.store(e.name)
	case *nsRefNode:
		s.load(e.name)
	case *seqNode:
		for _, i := range e.items {
			s.target(i)
		}
	}
}

func (s *symbols) params(e expr) {
	walk(e, func(e expr) {
		if n, ok := e.(*nameNode); ok {
			s.param(n.name)
		}
	})
}

func (s *symbols) expr(e expr) {
	walk(e, func(e expr) {
		if n, ok := e.(*nameNode); ok {
			s.load(n.name)
		}
	})
}

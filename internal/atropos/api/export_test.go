package api

import "hermes/internal/atropos/ledger"

// BeforeForming has f called in front of each forming of batches.
func (s *Server) BeforeForming(f func()) {
	s.form = func(g *ledger.Forming) { f(); g.Work() }
}

package api

import "hermes/internal/atropos/ledger"

// BeforeForming has f called in front of each forming of batches.
func (s *Server) BeforeForming(f func()) {
	s.form = func(g *ledger.Forming) { f(); g.Work() }
}

// Sight is another value after each change of the state.
func Sight(s *Server) any { return s.seen.Load() }

// Held is what bodies hold of the memory.
func Held(s *Server) int64 { return s.memory.held }

// Gets are the paths that can be asked for with GET.
func Gets(s *Server) (list []string) {
	for path, methods := range s.routes {
		if methods["GET"] != nil {
			list = append(list, path)
		}
	}
	return list
}

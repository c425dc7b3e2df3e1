package report

import "maps"

// Scalars are the figures under the names that trainers log them by: those of the books,
// and the suite's own.
func (r *Report) Scalars() map[string]float64 {
	m := maps.Clone(r.scalars)
	m["samples/scored"] = float64(r.Samples.Scored) // it may have been judged again
	delete(m, "reward/mean")
	for name, e := range r.Metrics {
		if name == "reward" {
			m["reward/mean"] = e.Value
		}
		m["eval/"+r.Suite+"/"+name] = e.Value
	}
	for cause, n := range r.Samples.Failed {
		m["void/"+cause] = float64(n)
	}
	return m
}

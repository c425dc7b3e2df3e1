package grade_test

import (
	"testing"

	"hermes/envs"
	"hermes/envs/grade"
)

// One sample scored again: its row bound, its answer graded.
func BenchmarkScore(b *testing.B) {
	ep := said(b, "We add 12 and 30 in three steps, which gives 42 and nothing else. The answer is 42.")
	for _, name := range []string{"row", "exact", "normalised", "number", "math", "choice", "similarity"} {
		s, err := grade.Parse(name)
		if err != nil {
			b.Fatal(err)
		}
		r := row(b, `{"answer":"42"}`)
		if name == "choice" {
			r = row(b, `{"answer":"B"}`)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				g, err := s.Bind(r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := g.Grade(b.Context(), envs.World{}, ep); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

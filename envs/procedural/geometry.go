package procedural

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
)

// polygonArea: the area of a polygon on the grid of whole coordinates, or, from level 4
// on, the number of grid points inside of it.
func polygonArea(r *rand.Rand, level int) Puzzle {
	corners := star(r, 3+level, 3+3*level)
	twice, edge := 0, 0 // the area, and the grid points on the edge
	var text []string
	for i, p := range corners {
		q := corners[(i+1)%len(corners)]
		twice += p[0]*q[1] - p[1]*q[0]
		edge += gcd(max(q[0]-p[0], p[0]-q[0]), max(q[1]-p[1], p[1]-q[1]))
		text = append(text, fmt.Sprintf("(%d, %d)", p[0], p[1]))
	}
	about := "A polygon has the corners " + strings.Join(text, ", ") + ", in this order around it. "
	if level >= 4 && r.IntN(2) == 0 {
		return numberAnswer(about+"How many points with whole coordinates lie strictly inside of it, not on its edge?", (twice-edge)/2+1, "point", "points") // Pick's theorem
	}
	area := big.NewRat(int64(twice), 2)
	return Puzzle{
		Question: about + "What is its area?",
		Answer:   strings.TrimSuffix(area.FloatString(1), ".0"),
		Check: func(answer string) error {
			v, err := rational(lone(answer, "unit", "units", "square unit", "square units", "sq units", "units^2", "units²"))
			if err != nil {
				return err
			}
			if v.Cmp(area) != 0 {
				return fmt.Errorf("%s is not the area", clip(answer))
			}
			return nil
		},
	}
}

// star draws n points of different directions around a centre, so that the edges between
// them do not cross; counter-clockwise.
func star(r *rand.Rand, n, size int) [][2]int {
	cross := func(p, q [2]int) int { return p[0]*q[1] - p[1]*q[0] }
	below := func(p [2]int) bool { return p[1] < 0 || p[1] == 0 && p[0] < 0 }
	for {
		points := make([][2]int, n)
		for i := range points {
			points[i] = [2]int{r.IntN(2*size+1) - size, r.IntN(2*size+1) - size}
		}
		slices.SortFunc(points, func(p, q [2]int) int {
			switch {
			case below(p) != below(q) && below(q):
				return -1
			case below(p) != below(q):
				return 1
			}
			return -cross(p, q)
		})
		fits := true
		for i, p := range points {
			fits = fits && cross(p, points[(i+1)%n]) > 0
		}
		if !fits {
			continue
		}
		dx, dy := r.IntN(2*size+1)-size, r.IntN(2*size+1)-size
		for i := range points {
			points[i][0], points[i][1] = points[i][0]+dx, points[i][1]+dy
		}
		return points
	}
}

package procedural

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// numberSorting of 4·level numbers.
func numberSorting(r *rand.Rand, level int) Puzzle {
	numbers := make([]int, 4*level)
	for i := range numbers {
		numbers[i] = r.IntN(2000*level) - 1000*level
	}
	sorted := slices.Clone(numbers)
	slices.Sort(sorted)
	order := "ascending"
	if r.IntN(2) == 0 {
		order = "descending"
		slices.Reverse(sorted)
	}
	return Puzzle{
		Question: fmt.Sprintf("Sort these numbers in %s order: %s. Separate them with commas.", order, join(numbers, ", ")),
		Answer:   join(sorted, ", "), Check: exactly(sorted),
	}
}

// vocabulary is what texts are made of.
const vocabulary = "river stone lantern orchard silver window harbor meadow copper thunder marble garden falcon winter candle bridge forest saddle pepper ribbon anchor basket hollow velvet"

// caesarCipher asks for the text of a cipher. From level 4 on the question does not give the
// shift; there the text begins with a known word.
func caesarCipher(r *rand.Rand, level int) Puzzle {
	all := strings.Fields(vocabulary)
	var words []string
	for range 2 * level {
		words = append(words, all[r.IntN(len(all))])
	}
	shift := 1 + r.IntN(25)
	rule := fmt.Sprintf("Each letter was replaced by the one %d places later in the alphabet (z is followed by a).", shift)
	if level > 3 {
		words = append([]string{"secret"}, words...)
		rule = `Each letter was replaced by the one a fixed number of places later in the alphabet (z is followed by a). The first word of the text is "secret".`
	}
	plain := strings.Join(words, " ")
	secret := strings.Map(func(c rune) rune {
		if c == ' ' {
			return c
		}
		return 'a' + (c-'a'+rune(shift))%26
	}, plain)
	return Puzzle{Question: rule + " What was the text?\n\n" + secret, Answer: plain, Check: func(answer string) error {
		letters := strings.FieldsFunc(strings.ToLower(answer), func(c rune) bool { return strings.ContainsRune(" \t\r\n\"'“”.", c) })
		if strings.Join(letters, " ") != plain {
			return fmt.Errorf("%q is not the text", clip(answer))
		}
		return nil
	}}
}

// gameOfLife after level steps, on a torus.
func gameOfLife(r *rand.Rand, level int) Puzzle {
	size, steps := 4+level/2, (level+1)/2
	grid := make([][]byte, size)
	for i := range grid {
		grid[i] = make([]byte, size)
		for j := range grid[i] {
			grid[i][j] = ".#"[r.IntN(2)]
		}
	}
	start := lines(grid)
	for range steps {
		grid = life(grid)
	}
	return Puzzle{
		Question: fmt.Sprintf("This is Conway's Game of Life on a grid whose edges are joined (left to right, top to bottom); # is alive. Give the grid after %d steps, one row a line.\n\n%s", steps, start),
		Answer:   lines(grid), Check: lifeCheck(grid),
	}
}

// lifeCheck wants the fields of a grid, however they are set apart.
func lifeCheck(want [][]byte) func(string) error {
	return func(answer string) error {
		if strings.Join(separate(answer), "") != strings.ReplaceAll(lines(want), "\n", "") {
			return fmt.Errorf("%q is not the grid", clip(answer))
		}
		return nil
	}
}

func lines(grid [][]byte) string {
	var rows []string
	for _, row := range grid {
		rows = append(rows, string(row))
	}
	return strings.Join(rows, "\n")
}

func life(grid [][]byte) [][]byte {
	n := len(grid)
	next := make([][]byte, n)
	for i := range grid {
		next[i] = make([]byte, n)
		for j := range grid[i] {
			alive := 0
			for di := -1; di <= 1; di++ {
				for dj := -1; dj <= 1; dj++ {
					if (di != 0 || dj != 0) && grid[(i+di+n)%n][(j+dj+n)%n] == '#' {
						alive++
					}
				}
			}
			next[i][j] = '.'
			if alive == 3 || alive == 2 && grid[i][j] == '#' {
				next[i][j] = '#'
			}
		}
	}
	return next
}

// shortestPath through a maze; every path that is valid and as short is right.
func shortestPath(r *rand.Rand, level int) Puzzle {
	size := 3 + level
	var grid [][]byte
	var path string
	for path == "" {
		grid = maze(r, size)
		path = walk(grid)
	}
	return Puzzle{
		Question: "Find a shortest path from S to G in this maze. # is a wall; a step goes up, down, left or right. Give the steps as letters U, D, L, R without blanks.\n\n" + lines(grid),
		Answer:   path,
		Check: func(answer string) error {
			answer = strings.Join(separate(arrows.Replace(strings.ToUpper(answer))), "")
			if len(answer) != len(path) {
				return fmt.Errorf("%d steps, a shortest path has %d", len(answer), len(path))
			}
			at := place{0, 0}
			for _, c := range answer {
				to, ok := at.step(c, len(grid))
				if !ok || grid[to.y][to.x] == '#' {
					return fmt.Errorf("step %q leads into a wall", c)
				}
				at = to
			}
			if grid[at.y][at.x] != 'G' {
				return fmt.Errorf("the path does not end at G")
			}
			return nil
		},
	}
}

// arrows may stand between what follows each other.
var arrows = strings.NewReplacer("->", " ", "→", " ", "➔", " ", "=>", " ", "⇒", " ", `\RIGHTARROW`, " ", `\rightarrow`, " ", `\TO `, " ", `\to `, " ")

type place struct{ y, x int }

// step goes one step on a square of n fields a side.
func (p place) step(c rune, n int) (place, bool) {
	switch c {
	case 'U':
		p.y--
	case 'D':
		p.y++
	case 'L':
		p.x--
	case 'R':
		p.x++
	default:
		return p, false
	}
	return p, p.y >= 0 && p.x >= 0 && p.y < n && p.x < n
}

func maze(r *rand.Rand, n int) [][]byte {
	grid := make([][]byte, n)
	for i := range grid {
		grid[i] = make([]byte, n)
		for j := range grid[i] {
			grid[i][j] = '.'
			if r.IntN(100) < 30 {
				grid[i][j] = '#'
			}
		}
	}
	grid[0][0], grid[n-1][n-1] = 'S', 'G'
	return grid
}

// walk finds a shortest path by breadth-first search; "" when there is none.
func walk(grid [][]byte) string {
	paths := map[place]string{{0, 0}: ""}
	queue := []place{{0, 0}}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if grid[at.y][at.x] == 'G' {
			return paths[at]
		}
		for _, c := range "UDLR" {
			to, ok := at.step(c, len(grid))
			if _, seen := paths[to]; !ok || seen || grid[to.y][to.x] == '#' {
				continue
			}
			paths[to] = paths[at] + string(c)
			queue = append(queue, to)
		}
	}
	return ""
}

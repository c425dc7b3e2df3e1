package procedural

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
)

// sudoku with exactly one solution: 4×4 up to level 3, 6×6 up to level 6, then 9×9. A
// higher level leaves fewer digits.
func sudoku(r *rand.Rand, level int) Puzzle {
	h, w := 2, 2
	switch {
	case level > 6:
		h, w = 3, 3
	case level > 3:
		h, w = 2, 3
	}
	n := h * w
	full := newBoard(h, w)
	full.solve(r, 1)
	puzzle := full.solved[0]
	keep := n*n*(70-4*level)/100 + (10-level)/3
	left := n * n
	for _, at := range r.Perm(n * n) {
		was := puzzle[at]
		if left <= keep {
			break
		}
		puzzle[at] = 0
		b := newBoard(h, w)
		b.cells = append([]int(nil), puzzle...)
		if b.solve(nil, 2); len(b.solved) > 1 {
			puzzle[at] = was
		} else {
			left--
		}
	}
	check := sudokuCheck(puzzle, h, w)
	b := newBoard(h, w)
	b.cells = append([]int(nil), puzzle...)
	b.solve(nil, 1)
	return Puzzle{
		Question: fmt.Sprintf("Fill in this sudoku: each row, each column and each block of %d rows and %d columns has each number from 1 to %d once. _ is empty. Give all %d rows, one a line, the numbers separated by blanks.\n\n%s",
			h, w, n, n, strings.ReplaceAll(square(puzzle, n), "0", "_")),
		Answer: square(b.solved[0], n), Check: check,
	}
}

func square(cells []int, n int) string {
	var rows []string
	for i := range n {
		rows = append(rows, join(cells[i*n:(i+1)*n], " "))
	}
	return strings.Join(rows, "\n")
}

// sudokuCheck accepts any filling of the puzzle (0: empty) that keeps the rules.
func sudokuCheck(puzzle []int, h, w int) func(string) error {
	n := h * w
	return func(answer string) error {
		if len(answer) > longest {
			return fmt.Errorf("%d characters", len(answer))
		}
		got, err := whole(spaced(answer))
		if err != nil {
			return err
		}
		if len(got) != n*n {
			return fmt.Errorf("%d numbers, want %d", len(got), n*n)
		}
		b := newBoard(h, w)
		rows := make([]int, n)
		cols := make([]int, n)
		blocks := make([]int, n)
		for at, v := range got {
			if v < 1 || v > n || puzzle[at] != 0 && puzzle[at] != v {
				return fmt.Errorf("row %d, column %d cannot be %d", at/n+1, at%n+1, v)
			}
			y, x, z := b.groups(at)
			if bit := 1 << v; (rows[y]|cols[x]|blocks[z])&bit != 0 {
				return fmt.Errorf("row %d, column %d: %d is there already", y+1, x+1, v)
			} else {
				rows[y], cols[x], blocks[z] = rows[y]|bit, cols[x]|bit, blocks[z]|bit
			}
		}
		return nil
	}
}

// spaced sets the digits of an answer apart: "12 34" is four numbers.
func spaced(answer string) string {
	var b strings.Builder
	for _, c := range answer {
		b.WriteRune(c)
		b.WriteByte(' ')
	}
	return b.String()
}

// board is a sudoku that is being solved.
type board struct {
	h, w, n int
	cells   []int // 0: empty
	solved  [][]int
}

func newBoard(h, w int) *board {
	n := h * w
	return &board{h: h, w: w, n: n, cells: make([]int, n*n)}
}

func (b *board) groups(at int) (row, col, block int) {
	row, col = at/b.n, at%b.n
	return row, col, row/b.h*b.h + col/b.w // n/w blocks stand beside each other, and n/w = h
}

// solve finds up to limit solutions, in an order drawn from r (nil: ascending).
func (b *board) solve(r *rand.Rand, limit int) {
	rows := make([]int, b.n)
	cols := make([]int, b.n)
	blocks := make([]int, b.n)
	for at, v := range b.cells {
		if v != 0 {
			y, x, z := b.groups(at)
			rows[y], cols[x], blocks[z] = rows[y]|1<<v, cols[x]|1<<v, blocks[z]|1<<v
		}
	}
	all := 1<<(b.n+1) - 2
	var step func()
	step = func() {
		best := -1
		free := 0
		fewest := b.n + 1
		for at, v := range b.cells {
			if v != 0 {
				continue
			}
			y, x, z := b.groups(at)
			open := all &^ (rows[y] | cols[x] | blocks[z])
			if c := bits.OnesCount(uint(open)); c < fewest {
				best = at
				free = open
				fewest = c
			}
		}
		if best < 0 {
			b.solved = append(b.solved, append([]int(nil), b.cells...))
			return
		}
		y, x, z := b.groups(best)
		first := 0
		if r != nil {
			first = r.IntN(b.n)
		}
		for i := range b.n {
			v := (first+i)%b.n + 1
			if free&(1<<v) == 0 || len(b.solved) >= limit {
				continue
			}
			b.cells[best] = v
			rows[y], cols[x], blocks[z] = rows[y]|1<<v, cols[x]|1<<v, blocks[z]|1<<v
			step()
			b.cells[best] = 0
			rows[y], cols[x], blocks[z] = rows[y]&^(1<<v), cols[x]&^(1<<v), blocks[z]&^(1<<v)
		}
	}
	step()
}

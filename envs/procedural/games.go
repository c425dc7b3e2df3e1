package procedural

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"hermes/internal/late"
)

// towerOfHanoi with 4 to 8 disks that lie scattered over the pegs. Every sequence of legal
// moves that ends as wanted is right, also a long one.
func towerOfHanoi(r *rand.Rand, level int) Puzzle {
	disks, goal := 4+level*4/10, r.IntN(3)
	start := make([]int, disks) // the peg of each disk, the smallest first
	from := (goal + 1 + r.IntN(2)) % 3
	for i := range start {
		start[i] = from
		if i < disks-1 {
			start[i] = r.IntN(3)
		}
	}
	var moves []string
	at := slices.Clone(start)
	var gather func(n, to int)
	gather = func(n, to int) {
		for n > 0 && at[n-1] == to {
			n--
		}
		if n == 0 {
			return
		}
		gather(n-1, 3-at[n-1]-to)
		moves = append(moves, fmt.Sprintf("Move disk %d from peg %d to peg %d", n, at[n-1]+1, to+1))
		at[n-1] = to
		gather(n-1, to)
	}
	gather(disks, goal)
	var lie []string
	for peg := range 3 {
		var here []int
		for i := disks - 1; i >= 0; i-- {
			if start[i] == peg {
				here = append(here, i+1)
			}
		}
		text := "nothing"
		if len(here) > 0 {
			text = "disks " + join(here, ", ")
		}
		lie = append(lie, fmt.Sprintf("on peg %d: %s", peg+1, text))
	}
	return Puzzle{
		Question: fmt.Sprintf("This is a Tower of Hanoi with %d disks; disk 1 is the smallest. From bottom to top lie %s. Bring all disks to peg %d. One disk is moved at a time, the topmost of its peg, and never onto a smaller one. Give the moves, one a line, in the form \"Move disk X from peg Y to peg Z\".",
			disks, strings.Join(lie, "; "), goal+1),
		Answer: strings.Join(moves, "\n"), Check: hanoiCheck(start, 3, goal),
	}
}

var move = late.Regexp(`^\s*(?:\d+[.)]\s+|[-*•]\s+)?(?i:move\s+)?(?i:disk\s+)?(\d+)[\s,]+(?i:from\s+)?(?i:peg\s+)?(\d+)[\s,]+(?i:to\s+)?(?i:peg\s+)?(\d+)\s*[.;,]?\s*$`)

// hanoiCheck plays moves of disks (counted from 1, the smallest first) that lie on pegs
// (from 0), until all are on goal.
func hanoiCheck(start []int, pegs, goal int) func(string) error {
	return func(answer string) error {
		if len(answer) > longest {
			return fmt.Errorf("%d characters of moves", len(answer))
		}
		at := slices.Clone(start)
		for line := range strings.Lines(answer) {
			if strings.TrimSpace(line) == "" {
				continue
			}
			m := move.FindStringSubmatch(arrows.Replace(line))
			if m == nil {
				return fmt.Errorf("%q is no move", clip(line))
			}
			disk, _ := strconv.Atoi(m[1])
			from, _ := strconv.Atoi(m[2])
			to, _ := strconv.Atoi(m[3])
			if disk < 1 || disk > len(at) || to < 1 || to > pegs || at[disk-1] != from-1 || to == from {
				return fmt.Errorf("%q: there is no such disk or peg", clip(line))
			}
			for i := range disk - 1 {
				if at[i] == from-1 || at[i] == to-1 {
					return fmt.Errorf("%q: disk %d is in the way", clip(line), i+1)
				}
			}
			at[disk-1] = to - 1
		}
		for i, peg := range at {
			if peg != goal {
				return fmt.Errorf("disk %d is not on peg %d", i+1, goal+1)
			}
		}
		return nil
	}
}

// nQueens on boards of 5 to 12 rows, of which some have their queen; a higher level leaves
// fewer of them. Every solution is right.
func nQueens(r *rand.Rand, level int) Puzzle {
	n := 5 + level*7/10
	solution := queens(r, n)
	given := slices.Clone(solution)
	for _, row := range r.Perm(n)[:2+(n-4)*level/10] {
		given[row] = -1
	}
	return Puzzle{
		Question: fmt.Sprintf("Complete this chess board of %d rows and columns with queens (Q), so that there are %d and none of them attacks another: no two stand in one row, column or diagonal. Give the whole board, one row a line, with Q and _ separated by blanks.\n\n%s", n, n, queenRows(given)),
		Answer:   queenRows(solution), Check: queensCheck(given),
	}
}

func queenRows(cols []int) string {
	var rows []string
	for _, c := range cols {
		row := slices.Repeat([]string{"_"}, len(cols))
		if c >= 0 {
			row[c] = "Q"
		}
		rows = append(rows, strings.Join(row, " "))
	}
	return strings.Join(rows, "\n")
}

// queens draws a full board: the column of the queen of each row.
func queens(r *rand.Rand, n int) []int {
	for {
		cols := r.Perm(n)
		for clash := 0; clash < 4*n*n; clash++ { // swap two columns where that helps
			if diagonals(cols) == 0 {
				return cols
			}
			i, j := r.IntN(n), r.IntN(n)
			before := diagonals(cols)
			cols[i], cols[j] = cols[j], cols[i]
			if diagonals(cols) > before {
				cols[i], cols[j] = cols[j], cols[i]
			}
		}
	}
}

// diagonals counts the pairs of queens on one diagonal.
func diagonals(cols []int) (n int) {
	for i := range cols {
		for j := range i {
			if d := cols[i] - cols[j]; d == i-j || d == j-i {
				n++
			}
		}
	}
	return n
}

// queensCheck wants a board with one queen in each row that keeps the given ones (-1: none).
func queensCheck(given []int) func(string) error {
	n := len(given)
	return func(answer string) error {
		var cells []byte
		for _, c := range []byte(strings.ToUpper(answer)) {
			switch {
			case c == 'Q' || c == '_' || c == '.':
				cells = append(cells, c)
			case !strings.ContainsRune(" ,[]\"'|\r\n\t", rune(c)):
				return fmt.Errorf("a board has no %q", c)
			}
		}
		if len(cells) != n*n {
			return fmt.Errorf("%d fields, want %d", len(cells), n*n)
		}
		var cols []int
		for row := range n {
			line := string(cells[row*n : (row+1)*n])
			at := strings.IndexByte(line, 'Q')
			if strings.Count(line, "Q") != 1 || given[row] >= 0 && at != given[row] || slices.Contains(cols, at) {
				return fmt.Errorf("row %d is not as it should be", row+1)
			}
			cols = append(cols, at)
		}
		if diagonals(cols) > 0 {
			return errors.New("two queens attack each other")
		}
		return nil
	}
}

// puzzle24: an expression that equals 24, with each number once. From level 4 on adding
// and subtracting is not enough; from level 7 on there are five numbers.
func puzzle24(r *rand.Rand, level int) Puzzle {
	count := 4
	if level >= 7 {
		count = 5
	}
	for {
		numbers := make([]int64, count)
		for i := range numbers {
			numbers[i] = 1 + r.Int64N(int64(8+level))
		}
		if level >= 4 && signs24(numbers, 0) {
			continue
		}
		if text := search24(numbers); text != "" {
			return Puzzle{
				Question: fmt.Sprintf("Write an expression that equals 24 with the numbers %s, each exactly once, with + - * / and parentheses.", join(numbers, ", ")),
				Answer:   text, Check: check24(numbers),
			}
		}
	}
}

func check24(numbers []int64) func(string) error {
	want := slices.Sorted(slices.Values(numbers))
	return func(answer string) error {
		v, used, err := evaluate(answer)
		if err != nil {
			return err
		}
		if !slices.Equal(slices.Sorted(slices.Values(used)), want) {
			return fmt.Errorf("it has the numbers %v", used)
		}
		if v.Cmp(big.NewRat(24, 1)) != 0 {
			return fmt.Errorf("it equals %s", clip(v.RatString()))
		}
		return nil
	}
}

// fraction is a number of the puzzle, or what an operation makes of two values; small ones
// alone occur.
type fraction struct {
	n, d int64
	op   rune
	a, b *fraction
}

func (x *fraction) String() string {
	if x.op == 0 {
		return strconv.FormatInt(x.n, 10)
	}
	return fmt.Sprintf("(%s %c %s)", x.a, x.op, x.b)
}

// signs24 tells whether adding and subtracting the numbers to sum leads to 24.
func signs24(numbers []int64, sum int64) bool {
	if len(numbers) == 0 {
		return sum == 24
	}
	return signs24(numbers[1:], sum+numbers[0]) || signs24(numbers[1:], sum-numbers[0])
}

// search24 joins two values by an operation until one is left; "" where 24 is not reached.
func search24(numbers []int64) string {
	var list []*fraction
	for _, n := range numbers {
		list = append(list, &fraction{n: n, d: 1})
	}
	if found := reach24(list); found != nil {
		return found.String()
	}
	return ""
}

func reach24(list []*fraction) *fraction {
	if len(list) == 1 {
		if list[0].n == 24*list[0].d {
			return list[0]
		}
		return nil
	}
	for i := range list {
		for j := range list {
			if i == j {
				continue
			}
			rest := []*fraction{nil}
			for k := range list {
				if k != i && k != j {
					rest = append(rest, list[k])
				}
			}
			a, b := list[i], list[j]
			for _, op := range "+-*/" {
				x := &fraction{d: a.d * b.d, op: op, a: a, b: b}
				switch {
				case op == '+' && i < j:
					x.n = a.n*b.d + b.n*a.d
				case op == '-':
					x.n = a.n*b.d - b.n*a.d
				case op == '*' && i < j:
					x.n = a.n * b.n
				case op == '/' && b.n != 0:
					x.n, x.d = a.n*b.d, a.d*b.n
				default:
					continue
				}
				rest[0] = x
				if found := reach24(rest); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

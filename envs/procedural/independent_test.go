package procedural_test

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"hermes/envs/procedural"
)

// judge reads a puzzle from its question alone and says whether an answer is right. It
// shares no code with the generators and prefers brute force.
type judge func(question, answer string) bool

var digits = regexp.MustCompile(`-?\d+`)

func numbers(text string) []int {
	var out []int
	for _, w := range digits.FindAllString(text, -1) {
		n, _ := strconv.Atoi(w)
		out = append(out, n)
	}
	return out
}

func grid(text string) (rows [][]int) {
	for line := range strings.Lines(text) {
		if n := numbers(line); len(n) > 0 {
			rows = append(rows, n)
		}
	}
	return rows
}

func between(text, a, b string) string {
	_, text, _ = strings.Cut(text, a)
	text, _, _ = strings.Cut(text, b)
	return text
}

func assigned(answer string) map[string]string {
	out := map[string]string{}
	for _, p := range strings.Split(answer, ", ") {
		name, v, _ := strings.Cut(p, " = ")
		if _, twice := out[name]; twice {
			return nil
		}
		out[name] = v
	}
	return out
}

// once is the judge of puzzles with one answer, which is found once for each question; form
// brings an answer into the form of what solve gives.
func once(solve, form func(string) string) judge {
	last, found := "", ""
	return func(q, a string) bool {
		if q != last {
			last, found = q, solve(q)
		}
		return form(a) == found
	}
}

func judges() map[string]judge {
	return map[string]judge{
		"linear_systems": func(q, a string) bool {
			said := assigned(a)
			for line := range strings.Lines(q[strings.Index(q, "\n\n")+2:]) {
				left, right, _ := strings.Cut(strings.TrimSpace(line), " = ")
				sum := 0
				for _, term := range strings.Fields(strings.NewReplacer("- ", "-", "+ ", "").Replace(left)) {
					name := term[len(term)-1:]
					k, err := strconv.Atoi(strings.TrimSuffix(term, name))
					if err != nil {
						k = map[string]int{name: 1, "-" + name: -1}[term]
					}
					v, err := strconv.Atoi(said[name])
					if err != nil {
						return false
					}
					sum += k * v
				}
				if fmt.Sprint(sum) != right {
					return false
				}
			}
			return len(said) == strings.Count(q, "\n")-1
		},
		"polynomial_equations": func(q, a string) bool {
			text := between(q, "the equation ", " = 0")
			value := func(x int) (sum int) {
				for _, term := range strings.Fields(strings.NewReplacer("- ", "-", "+ ", "").Replace(text)) {
					k, power, ok := strings.Cut(term, "x")
					if k == "" || k == "-" {
						k += "1"
					}
					n, _ := strconv.Atoi(k)
					e := 0
					if ok {
						e = 1
					}
					if p, err := strconv.Atoi(strings.TrimPrefix(power, "^")); err == nil {
						e = p
					}
					for range e {
						n *= x
					}
					sum += n
				}
				return sum
			}
			var roots []int
			for x := -50; x <= 50; x++ {
				if value(x) == 0 {
					roots = append(roots, x)
				}
			}
			got := numbers(a)
			sort.Ints(got)
			return slices.Equal(slices.Compact(got), roots)
		},
		"chinese_remainder": func(q, a string) bool {
			n := numbers(q)[1:]
			for x := 0; ; x++ {
				fits := true
				for i := 0; i < len(n); i += 2 {
					fits = fits && x%n[i+1] == n[i]
				}
				if fits {
					return a == strconv.Itoa(x)
				}
			}
		},
		"satisfiability": func(q, a string) bool {
			said := assigned(a)
			for line := range strings.Lines(q[strings.Index(q, "\n\n")+2:]) {
				good := false
				for _, l := range strings.Split(strings.Trim(strings.TrimSpace(line), "()"), " or ") {
					name, negated := strings.CutPrefix(l, "not ")
					if said[name] != "true" && said[name] != "false" {
						return false
					}
					good = good || (said[name] == "true") != negated
				}
				if !good {
					return false
				}
			}
			return len(said) == len(strings.Split(between(q, "values for ", ", each"), ", "))
		},
		"zebra_puzzles": zebraJudge,
		"graph_color": func(q, a string) bool {
			said := assigned(a)
			for _, e := range strings.Split(between(q, "The edges are: ", "."), ", ") {
				x, y := said[e[:1]], said[e[2:]]
				if x == y || !strings.Contains("123", x) || !strings.Contains("123", y) || len(x)*len(y) != 1 {
					return false
				}
			}
			for _, v := range said {
				if len(v) != 1 || !strings.Contains("123", v) {
					return false
				}
			}
			return len(said) == len(strings.Split(between(q, "corners ", " one of"), ", "))
		},
		"course_schedule": courseJudge,
		"weighted_path":   pathJudge,
		"sorting_steps":   sortingJudge,
		"program_output":  once(programAnswer, strings.Clone),
		"sudoku":          sudokuJudge,
		"group_anagrams": func(q, a string) bool {
			words := strings.Split(between(q, "the same letters: ", "."), ", ")
			letters := func(w string) string { b := strings.Split(w, ""); sort.Strings(b); return strings.Join(b, "") }
			var said, keys []string
			for _, line := range strings.Split(a, "\n") {
				group := strings.Split(line, ", ")
				for _, w := range group {
					if letters(w) != letters(group[0]) {
						return false
					}
				}
				keys, said = append(keys, letters(group[0])), append(said, group...)
			}
			sort.Strings(keys)
			sort.Strings(said)
			sort.Strings(words)
			return slices.Equal(said, words) && len(slices.Compact(keys)) == len(strings.Split(a, "\n"))
		},
		"tower_of_hanoi": hanoiJudge,
		"n_queens": func(q, a string) bool {
			board, asked := strings.Split(a, "\n"), strings.Split(q[strings.Index(q, "\n\n")+2:], "\n")
			if len(board) != len(asked) {
				return false
			}
			for y, row := range board {
				if len(row) != len(asked[y]) || strings.Count(row, "Q") != 1 || strings.Count(row, "_") != len(board)-1 {
					return false
				}
				x := strings.Index(row, "Q") / 2
				if g := strings.Index(asked[y], "Q"); g >= 0 && g/2 != x {
					return false
				}
				for z, other := range board[:y] {
					if w := strings.Index(other, "Q") / 2; w == x || math.Abs(float64(w-x)) == float64(y-z) {
						return false
					}
				}
			}
			return true
		},
		"puzzle24": func(q, a string) bool {
			want, got := numbers(between(q, "the numbers ", ", each")), numbers(a)
			sort.Ints(want)
			sort.Ints(got)
			v, rest, ok := value(a)
			return slices.Equal(want, got) && ok && rest == "" && math.Abs(v-24) < 1e-9
		},
		"calendar_arithmetic":  once(calendarAnswer, strings.Clone),
		"number_sequence":      sequenceJudge,
		"grid_rules":           once(gridAnswer, func(a string) string { return fmt.Sprint(grid(a)) }),
		"polygon_area":         polygonJudge,
		"family_relationships": familyJudge,
	}
}

// value computes a fully parenthesised expression in floating point.
func value(text string) (v float64, rest string, ok bool) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "(") {
		w := digits.FindString(text)
		n, err := strconv.Atoi(w)
		return float64(n), strings.TrimPrefix(text, w), err == nil
	}
	a, rest, ok := value(text[1:])
	if !ok || len(rest) < 3 {
		return 0, "", false
	}
	op := strings.TrimSpace(rest)[0]
	b, rest, ok := value(strings.TrimSpace(rest)[1:])
	if !ok || !strings.HasPrefix(rest, ")") {
		return 0, "", false
	}
	return map[byte]float64{'+': a + b, '-': a - b, '*': a * b, '/': a / b}[op], rest[1:], true
}

func zebraJudge(q, a string) bool {
	houses := map[string]int{}
	for _, line := range strings.Split(a, "\n") {
		number, line, _ := strings.Cut(line, ": ")
		for _, w := range strings.Split(line, ", ") {
			houses[w], _ = strconv.Atoi(number)
			if houses[w] > numbers(q)[0] {
				return false
			}
		}
	}
	count := 0
	for _, group := range regexp.MustCompile(`\(([^)]+)\)`).FindAllStringSubmatch(q[:strings.Index(q, "\n")], -1) {
		seen := map[int]bool{}
		for _, w := range strings.Split(group[1], ", ") {
			seen[houses[w]] = true
			count++
		}
		if seen[0] || len(seen) != numbers(q)[0] {
			return false
		}
	}
	if len(houses) != count || len(strings.Split(a, "\n")) != numbers(q)[0] {
		return false
	}
	for _, m := range regexp.MustCompile(`(?m)^\d+\. (.*)\.$`).FindAllStringSubmatch(q, -1) {
		var at []int
		for _, w := range strings.FieldsFunc(m[1], func(c rune) bool { return c == ' ' }) {
			if h, ok := houses[w]; ok {
				at = append(at, h)
			}
		}
		n := numbers(m[1])
		not := strings.Contains(m[1], " not ")
		holds := false
		switch {
		case strings.Contains(m[1], "live in house") || strings.Contains(m[1], "lives in house"):
			holds = (at[0] == n[0]) != not
		case strings.Contains(m[1], "directly left of"):
			holds = at[0]+1 == at[1]
		case strings.Contains(m[1], "next to"):
			holds = at[0]-at[1] == 1 || at[1]-at[0] == 1
		case strings.Contains(m[1], "somewhere left of"):
			holds = at[0] < at[1]
		default:
			holds = (at[0] == at[1]) != not
		}
		if !holds {
			return false
		}
	}
	return true
}

func courseJudge(q, a string) bool {
	names := strings.Split(between(q, "These are courses: ", "."), ", ")
	after := map[string][]string{}
	for _, m := range regexp.MustCompile(`([A-Z]) needs ([A-Z])`).FindAllStringSubmatch(q, -1) {
		after[m[1]] = append(after[m[1]], m[2])
	}
	done := map[string]bool{}
	for range names { // Kahn: whoever needs nothing that is not done
		for _, n := range names {
			if !slices.ContainsFunc(after[n], func(x string) bool { return !done[x] }) {
				done[n] = true
			}
		}
	}
	if len(done) < len(names) {
		return a == "none"
	}
	said := strings.Split(a, ", ")
	for i, n := range said {
		for _, x := range after[n] {
			if j := slices.Index(said, x); j < 0 || j > i {
				return false
			}
		}
	}
	sorted := slices.Sorted(slices.Values(said))
	return slices.Equal(sorted, names)
}

func pathJudge(q, a string) bool {
	cost := map[string]int{}
	var places []string
	for _, m := range regexp.MustCompile(`([A-Z]) to ([A-Z]): (\d+)`).FindAllStringSubmatch(q, -1) {
		cost[m[1]+m[2]], _ = strconv.Atoi(m[3])
		places = append(places, m[1], m[2])
	}
	sort.Strings(places)
	places = slices.Compact(places)
	best := map[string]int{"A": 0}
	for range places { // Bellman and Ford
		for road, c := range cost {
			if d, ok := best[road[:1]]; ok {
				if old, seen := best[road[1:]]; !seen || d+c < old {
					best[road[1:]] = d + c
				}
			}
		}
	}
	goal := places[len(places)-1]
	said, sum := strings.Split(a, ", "), 0
	for i := range len(said) - 1 {
		c, ok := cost[said[i]+said[i+1]]
		if !ok {
			return false
		}
		sum += c
	}
	return said[0] == "A" && said[len(said)-1] == goal && sum == best[goal]
}

func sortingJudge(q, a string) bool {
	list, swaps := numbers(between(q, "The list is: ", "\n")), 0
	swap := func(i, j int) {
		if i != j {
			list[i], list[j] = list[j], list[i]
			swaps++
		}
	}
	switch {
	case strings.HasPrefix(q, "Bubble"):
		for range numbers(between(q, "This is done ", " times"))[0] {
			for i := 1; i < len(list); i++ {
				if list[i-1] > list[i] {
					swap(i-1, i)
				}
			}
		}
	case strings.HasPrefix(q, "Selection"):
		for i := range numbers(between(q, "with itself. ", " steps"))[0] {
			swap(i, i+slices.Index(list[i:], slices.Min(list[i:])))
		}
	default:
		p, small := list[len(list)-1], 0
		for i, v := range list {
			if v < p {
				swap(small, i)
				small++
			}
		}
		swap(small, len(list)-1)
	}
	return slices.Equal(numbers(a), append(list, swaps))
}

// programAnswer interprets the lines of a program.
func programAnswer(q string) string {
	_, text, _ := strings.Cut(q, "\n\n")
	vars := map[string]int{}
	printed := ""
	floor := func(x, y int) int { return int(math.Floor(float64(x) / float64(y))) }
	get := func(w string) int {
		if n, err := strconv.Atoi(w); err == nil {
			return n
		}
		return vars[w]
	}
	expr := func(text string) int {
		f := strings.Fields(strings.NewReplacer("(", "", ")", "").Replace(text))
		v := get(f[0])
		for i := 1; i < len(f); i += 2 {
			switch x := get(f[i+1]); f[i] {
			case "+":
				v += x
			case "-":
				v -= x
			case "*":
				v *= x
			case "//":
				v = floor(v, x)
			case "%":
				v -= x * floor(v, x)
			}
		}
		return v
	}
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	var run func(lines []string)
	run = func(lines []string) {
		for i := 0; i < len(lines); {
			body := i + 1
			for body < len(lines) && indent(lines[body]) > indent(lines[i]) {
				body++
			}
			line, inner := strings.TrimSpace(lines[i]), lines[i+1:body]
			i = body
			switch {
			case strings.HasPrefix(line, "for "):
				for n := range numbers(line)[0] {
					vars[line[4:5]] = n
					run(inner)
				}
			case strings.HasPrefix(line, "if "):
				cond := strings.TrimSuffix(line[3:], ":")
				yes := false
				if l, r, ok := strings.Cut(cond, " > "); ok {
					yes = get(l) > get(r)
				} else {
					l, _, _ = strings.Cut(cond, " == ")
					yes = expr(l) == 0
				}
				last := i + 1
				for last < len(lines) && indent(lines[last]) > indent(lines[i]) {
					last++
				}
				if yes {
					run(inner)
				} else {
					run(lines[i+1 : last])
				}
				i = last
			case strings.HasPrefix(line, "print("):
				for _, v := range strings.Split(strings.Trim(line[5:], "()"), ", ") {
					printed += fmt.Sprint(vars[v]) + " "
				}
			default:
				to, e, _ := strings.Cut(line, " = ")
				vars[to] = expr(e)
			}
		}
	}
	run(strings.Split(text, "\n"))
	return strings.TrimSpace(printed)
}

func sudokuJudge(q, a string) bool {
	n, size := grid(a), numbers(q)
	asked := strings.Split(q[strings.Index(q, "\n\n")+2:], "\n")
	h, w := size[0], size[1]
	if len(n) != h*w {
		return false
	}
	for y, row := range n {
		if len(row) != h*w {
			return false
		}
		for x, v := range row {
			if given := strings.Fields(asked[y])[x]; given != "_" && given != fmt.Sprint(v) || v < 1 || v > h*w {
				return false
			}
			for y2, row2 := range n {
				for x2, v2 := range row2 {
					if (y2 != y || x2 != x) && v2 == v && (y2 == y || x2 == x || y2/h == y/h && x2/w == x/w) {
						return false
					}
				}
			}
		}
	}
	return true
}

func hanoiJudge(q, a string) bool {
	pegs := [4][]int{}
	for p := 1; p <= 3; p++ {
		pegs[p] = numbers(strings.SplitN(between(q, fmt.Sprintf("on peg %d: ", p), "."), ";", 2)[0])
	}
	disks := numbers(q)[0]
	goal := numbers(between(q, "Bring all disks to peg ", ". "))[0]
	for _, line := range strings.Split(a, "\n") {
		m := numbers(line)
		if len(m) != 3 || m[1] < 1 || m[1] > 3 || m[2] < 1 || m[2] > 3 {
			return false
		}
		from := pegs[m[1]]
		if len(from) == 0 || from[len(from)-1] != m[0] {
			return false
		}
		if to := pegs[m[2]]; len(to) > 0 && to[len(to)-1] < m[0] {
			return false
		}
		pegs[m[1]] = from[:len(from)-1]
		pegs[m[2]] = append(slices.Clone(pegs[m[2]]), m[0])
	}
	return len(pegs[goal]) == disks
}

// calendarAnswer counts days one by one, on its own calendar.
func calendarAnswer(q string) string {
	leap := func(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }
	length := func(y, m int) int {
		if m == 2 && leap(y) {
			return 29
		}
		return []int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[m-1]
	}
	type date struct{ y, m, d int }
	next := func(x date) date {
		x.d++
		if x.d > length(x.y, x.m) {
			x.d, x.m = 1, x.m+1
		}
		if x.m > 12 {
			x.m, x.y = 1, x.y+1
		}
		return x
	}
	show := func(x date) string { return fmt.Sprintf("%04d-%02d-%02d", x.y, x.m, x.d) }
	var dates []date
	for _, m := range regexp.MustCompile(`(\d{4})-(\d\d)-(\d\d)`).FindAllString(q, -1) {
		p := strings.Split(m, "-")
		y, _ := strconv.Atoi(p[0])
		mo, _ := strconv.Atoi(p[1])
		d, _ := strconv.Atoi(p[2])
		dates = append(dates, date{y, mo, d})
	}
	weekday := func(x date) int { // 0 is a Monday: 1900-01-01
		n := 0
		for at := (date{1900, 1, 1}); at != x; at = next(at) {
			n++
		}
		return n % 7
	}
	forward := func(x date, n int) date {
		for range n {
			x = next(x)
		}
		return x
	}
	switch {
	case strings.Contains(q, " days after ") && strings.HasPrefix(q, "Which"):
		return show(forward(dates[0], numbers(q)[0]))
	case strings.Contains(q, " days before "):
		x := date{dates[0].y - 6, 1, 1}
		for forward(x, numbers(q)[0]) != dates[0] {
			x = next(x)
		}
		return show(x)
	case strings.HasPrefix(q, "How many"):
		n := 0
		for at := dates[0]; at != dates[1]; at = next(at) {
			n++
		}
		return fmt.Sprint(n)
	case strings.HasPrefix(q, "Work begins"):
		left, at := numbers(between(q, "takes ", " working"))[0], dates[0]
		for left > 0 {
			at = next(at)
			if weekday(at) < 5 {
				left--
			}
		}
		return show(at)
	case strings.HasPrefix(q, "A plane"):
		m := regexp.MustCompile(`at (\d\d):(\d\d) .*UTC([+-])(\d\d):(\d\d)\. .* for (\d+) hours and (\d+) min.*UTC([+-])(\d\d):(\d\d)\. When`).FindStringSubmatch(q)
		n := func(i int) int { v, _ := strconv.Atoi(m[i]); return v }
		sign := func(i int) int { return map[string]int{"+": 1, "-": -1}[m[i]] }
		minutes := n(1)*60 + n(2) - sign(3)*(n(4)*60+n(5)) + n(6)*60 + n(7) + sign(8)*(n(9)*60+n(10))
		at := dates[0]
		if minutes < 0 {
			at, minutes = calendarBack(at.y, at.m, at.d, length, func(y, m, d int) date { return date{y, m, d} }), minutes+24*60
		}
		return fmt.Sprintf("%s %02d:%02d", show(forward(at, minutes/1440)), minutes%1440/60, minutes%60)
	}
	// Which date is Sunday number 3 of May 2001?
	m := regexp.MustCompile(`is (\w+) number (\d) of (\w+) (\d+)`).FindStringSubmatch(q)
	month := slices.IndexFunc([]time.Month{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, func(x time.Month) bool { return x.String() == m[3] }) + 1
	day := slices.Index(strings.Fields("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"), m[1])
	year, _ := strconv.Atoi(m[4])
	nth, _ := strconv.Atoi(m[2])
	for at := (date{year, month, 1}); ; at = next(at) {
		if weekday(at) == day {
			nth--
			if nth == 0 {
				return show(at)
			}
		}
	}
}

func calendarBack[T any](y, m, d int, length func(int, int) int, date func(int, int, int) T) T {
	d--
	if d == 0 {
		m--
		if m == 0 {
			m, y = 12, y-1
		}
		d = length(y, m)
	}
	return date(y, m, d)
}

func sequenceJudge(q, a string) bool {
	shown := numbers(between(q, "It begins: ", ". Give"))
	q0 := 5
	s0 := 5
	first := 2
	if !strings.Contains(q, "s*n") {
		s0 = 0
	}
	if !strings.Contains(q, "a(n-2)") {
		q0, first = 0, 1
	}
	got := numbers(a)
	if want := map[bool]int{true: 1}[strings.Contains(q, "next number")] + map[bool]int{true: 2}[strings.Contains(q, "next two")] + map[bool]int{true: 3}[strings.Contains(q, "next three")]; len(got) != want {
		return false
	}
	found := false
	for p := -5; p <= 5; p++ {
		for k := -q0; k <= q0; k++ {
			for s := -s0; s <= s0; s++ {
				for t := -5; t <= 5; t++ {
					all := append(slices.Clone(shown), got...)
					begun := true // it gives what is shown
					fits := true
					for i := first; i < len(all) && begun; i++ {
						v := p*all[i-1] + s*(i+1) + t
						if first == 2 {
							v += k * all[i-2]
						}
						if v != all[i] {
							fits = false
							begun = i >= len(shown)
							if begun {
								break
							}
						}
					}
					if begun && !fits {
						return false // another rule goes on otherwise
					}
					found = found || begun
				}
			}
		}
	}
	return found
}

// gridAnswer tries all rules of the length in the question on the examples and on the grid
// asked for. It returns "" where the rules that fit do not agree.
func gridAnswer(q string) string {
	var before, after [][][]int
	for _, part := range strings.Split(q, "before:\n")[1:] {
		b, rest, _ := strings.Cut(part, "\nafter:\n")
		x, _, _ := strings.Cut(rest, "\n\n")
		before, after = append(before, grid(b)), append(after, grid(x))
	}
	test := grid(between(q, "to this grid:\n", "\n\nGive"))
	type cell struct{ y, x, v int }
	do := func(step int, g [][]int) [][]int {
		h, w := len(g), len(g[0])
		var cells []cell
		for y := range g {
			for x, v := range g[y] {
				switch step {
				case 0:
					cells = append(cells, cell{x, h - 1 - y, v})
				case 1:
					cells = append(cells, cell{y, w - 1 - x, v})
				case 2:
					cells = append(cells, cell{h - 1 - y, x, v})
				case 3:
					cells = append(cells, cell{x, y, v})
				case 4:
					cells = append(cells, cell{(y + 1) % h, x, v})
				case 5:
					cells = append(cells, cell{y, (x + 1) % w, v})
				case 6:
					cells = append(cells, cell{y, x, map[int]int{1: 2, 2: 1, 3: 3}[v]})
				case 7:
					cells = append(cells, cell{y, x, map[int]int{1: 1, 2: 2}[v]})
				case 8:
					below := 0 // numbers but 0 that lie under this one
					for z := y + 1; z < h; z++ {
						if g[z][x] != 0 {
							below++
						}
					}
					if v != 0 {
						cells = append(cells, cell{h - 1 - below, x, v})
					}
				}
			}
		}
		if step == 0 || step == 3 {
			h, w = w, h
		}
		out := make([][]int, h)
		for y := range out {
			out[y] = make([]int, w)
		}
		for _, c := range cells {
			out[c.y][c.x] = c.v
		}
		return out
	}
	results := map[string]bool{}
	var try func(list [][][]int, left int)
	try = func(list [][][]int, left int) {
		for step := range 9 {
			next := make([][][]int, len(list))
			fits := true
			for i, g := range list {
				next[i] = do(step, g)
				fits = fits && (i == len(after) || slices.EqualFunc(next[i], after[i], slices.Equal))
			}
			if fits {
				results[fmt.Sprint(next[len(after)])] = true
			}
			if left > 1 {
				try(next, left-1)
			}
		}
	}
	try(append(slices.Clone(before), test), numbers(q)[0])
	if len(results) != 1 {
		return ""
	}
	for only := range results {
		return only
	}
	return ""
}

// polygonJudge counts the grid points inside and on the edge; the area follows from it.
func polygonJudge(q, a string) bool {
	n := numbers(between(q, "has the corners ", ", in this order"))
	inside, edge := 0, 0
	lo, hi := slices.Min(n), slices.Max(n)
	for y := lo; y <= hi; y++ {
		for x := lo; x <= hi; x++ {
			on, odd := false, false
			for i := 0; i < len(n); i += 2 {
				ax := n[i]
				ay := n[i+1]
				bx := n[(i+2)%len(n)]
				by := n[(i+3)%len(n)]
				side := (bx-ax)*(y-ay) - (by-ay)*(x-ax)
				if side == 0 && min(ax, bx) <= x && x <= max(ax, bx) && min(ay, by) <= y && y <= max(ay, by) {
					on = true
				}
				if (ay > y) != (by > y) && (side > 0) == (by > ay) {
					odd = !odd
				}
			}
			switch {
			case on:
				edge++
			case odd:
				inside++
			}
		}
	}
	if strings.Contains(q, "strictly inside") {
		return a == fmt.Sprint(inside)
	}
	v, err := strconv.ParseFloat(a, 64)
	return err == nil && v == float64(inside)+float64(edge)/2-1
}

// familyJudge walks up to the nearest common ancestor, where the other looks at parents.
func familyJudge(q, a string) bool {
	parent := map[string][]string{}
	female := map[string]bool{}
	spouse := map[string]string{}
	name := func(w string) string {
		n, sex, _ := strings.Cut(w, " (")
		female[n] = sex == "f)"
		return n
	}
	for _, m := range regexp.MustCompile(`(\w+ \([fm]\)) is married to (\w+ \([fm]\)); the list of their children: ([^.]*)\.`).FindAllStringSubmatch(q, -1) {
		x, y := name(m[1]), name(m[2])
		spouse[x], spouse[y] = y, x
		for _, c := range strings.Split(m[3], ", ") {
			parent[name(c)] = []string{x, y}
		}
	}
	m := regexp.MustCompile(`What is (\w+) to (\w+)\?`).FindStringSubmatch(q)
	var up func(x string, n int) map[string]int
	up = func(x string, n int) map[string]int {
		out := map[string]int{x: n}
		for _, p := range parent[x] {
			for k, v := range up(p, n+1) {
				out[k] = v
			}
		}
		return out
	}
	blood := func(x, y string) (int, int, bool) { // steps up from x and from y
		ux, uy := up(x, 0), up(y, 0)
		best, found := [2]int{99, 99}, false
		for k, v := range ux {
			if w, ok := uy[k]; ok && v+w < best[0]+best[1] {
				best, found = [2]int{v, w}, true
			}
		}
		return best[0], best[1], found
	}
	word := func(x, y string) [2]string {
		i, j, ok := blood(x, y)
		if !ok {
			return [2]string{}
		}
		return map[[2]int][2]string{
			{0, 1}: {"mother", "father"},
			{1, 0}: {"daughter", "son"},
			{1, 1}: {"sister", "brother"},
			{0, 2}: {"grandmother", "grandfather"},
			{2, 0}: {"granddaughter", "grandson"},
			{0, 3}: {"great-grandmother", "great-grandfather"},
			{3, 0}: {"great-granddaughter", "great-grandson"},
			{1, 2}: {"aunt", "uncle"},
			{2, 1}: {"niece", "nephew"},
			{2, 2}: {"cousin", "cousin"},
		}[[2]int{i, j}]
	}
	x, y := m[1], m[2]
	w := word(x, y)
	if spouse[x] == y {
		w = [2]string{"wife", "husband"}
	}
	for _, other := range [][2]string{{x, spouse[y]}, {spouse[x], y}} {
		if v := word(other[0], other[1]); w[0] == "" && other[0] != "" && other[1] != "" && slices.Contains([]string{"mother", "daughter", "sister"}, v[0]) {
			w = [2]string{v[0] + "-in-law", v[1] + "-in-law"}
		}
	}
	if female[x] {
		return w[0] == a
	}
	return w[1] == a
}

var long = flag.Bool("long", false, "1,000 puzzles of every generator, all of them judged")

// TestIndependent makes 1,000 puzzles of each newer generator (200 of slow ones without
// -long): its own answer is right, and right and wrong answers are distinguished as the judge
// tells them apart.
func TestIndependent(t *testing.T) {
	all := judges()
	maps.Copy(all, plainJudges())
	for _, g := range procedural.Builtin() {
		t.Run(g.Name, func(t *testing.T) {
			right := all[g.Name]
			refused := 0
			other := 0
			seen := map[string]bool{}
			seeds := uint64(1000)
			if slow := []string{"zebra_puzzles", "sudoku", "puzzle24", "grid_rules", "calendar_arithmetic"}; slices.Contains(slow, g.Name) && !*long {
				seeds = 200
			}
			for seed := range seeds {
				level := int(seed%10) + 1
				p := g.Make(rand.New(rand.NewPCG(seed, 42)), level)
				if level > 2 {
					seen[p.Question] = true
				}
				if err := p.Check(p.Answer); err != nil {
					t.Fatalf("level %d seed %d: its own answer: %v\n%s\n%s", level, seed, err, p.Question, p.Answer)
				}
				if !*long && seed/10%4 != 0 {
					continue // the judges are slow
				}
				if !right(p.Question, p.Answer) {
					t.Fatalf("level %d seed %d: the judge refuses the own answer\n%s\n%s", level, seed, p.Question, p.Answer)
				}
				for _, wrong := range spoilt(rand.New(rand.NewPCG(seed, 43)), p.Answer) {
					got, want := p.Check(wrong) == nil, right(p.Question, wrong)
					if got != want {
						t.Fatalf("level %d seed %d: Check accepts %q: %v, the judge: %v\n%s", level, seed, wrong, got, want, p.Question)
					}
					if got {
						other++
					} else {
						refused++
					}
				}
			}
			if refused < 100 {
				t.Errorf("%d wrong answers refused, %d accepted", refused, other)
			}
			if len(seen) < int(seeds)*7/10 {
				t.Errorf("%d different puzzles of %d", len(seen), seeds*8/10)
			}
		})
	}
}

// spoilt are answers in the form of a right one that are wrong most of the time.
func spoilt(r *rand.Rand, answer string) (out []string) {
	add := func(s string) {
		if s != answer && s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	numbersAt := digits.FindAllStringIndex(answer, -1)
	if len(numbersAt) > 0 {
		for range 2 {
			at := numbersAt[r.IntN(len(numbersAt))]
			n, _ := strconv.Atoi(strings.TrimPrefix(answer[at[0]:at[1]], "-"))
			text := strconv.Itoa(n + 1)
			add(answer[:at[0]] + strings.Repeat("0", max(0, at[1]-at[0]-len(text))) + text + answer[at[1]:])
		}
	}
	for _, sep := range []string{"\n", ", "} {
		parts := strings.Split(answer, sep)
		if len(parts) < 2 {
			continue
		}
		i, j := r.IntN(len(parts)), r.IntN(len(parts))
		swapped := slices.Clone(parts)
		swapped[i], swapped[j] = swapped[j], swapped[i]
		add(strings.Join(swapped, sep))
		add(strings.Join(parts[:len(parts)-1], sep))
		add(strings.Join(append(slices.Clone(parts), parts[0]), sep))
	}
	switch {
	case strings.Trim(answer, "UDLR") == "": // a way
		add(answer[1:])
		add(answer + "U")
		for range 2 {
			i := r.IntN(len(answer))
			add(answer[:i] + "UDLR"[r.IntN(4):][:1] + answer[i+1:])
		}
	case strings.ContainsAny(answer, "#."): // a grid, or a number
		add(strings.Replace(answer, "#", ".", 1))
		add(strings.Replace(answer, ".", "#", 1))
	}
	pairs := [][2]string{{"knight", "knave"}, {"true", "false"}, {"Q _", "_ Q"}, {"*", "+"}, {"-", "+"}}
	if len(numbersAt) == 0 {
		pairs = append(pairs, [][2]string{{"a", "e"},
			{"mother", "father"},
			{"daughter", "son"},
			{"sister", "brother"},
			{"aunt", "niece"},
			{"nephew", "uncle"},
			{"cousin", "great-aunt"},
			{"grand", "step"},
			{"-in-law", "-out-of-law"}}...)
	}
	for _, pair := range pairs {
		add(strings.Replace(answer, pair[0], pair[1], 1))
		add(strings.Replace(answer, pair[1], pair[0], 1))
	}
	return out
}

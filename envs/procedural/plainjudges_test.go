package procedural_test

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// plainJudges are those of the generators that came first; see judges.
func plainJudges() map[string]judge {
	trim := strings.TrimSpace
	return map[string]judge{
		"chain_sum": once(func(q string) string {
			f, sum := strings.Fields(strings.TrimPrefix(q, "Compute: ")), new(big.Int)
			for i := 0; i < len(f); i += 2 {
				n, _ := new(big.Int).SetString(f[i], 10)
				if i > 0 && f[i-1] == "-" {
					n.Neg(n)
				}
				sum.Add(sum, n)
			}
			return sum.String()
		}, trim),
		"base_conversion": func(q, a string) bool {
			m := regexp.MustCompile(`number (\w+), given in base (\d+), in base (\d+)`).FindStringSubmatch(q)
			from, _ := strconv.Atoi(m[2])
			to, _ := strconv.Atoi(m[3])
			given, ok1 := new(big.Int).SetString(m[1], from)
			said, ok2 := new(big.Int).SetString(a, to)
			return ok1 && ok2 && given.Cmp(said) == 0 && !strings.HasPrefix(a, "0")
		},
		"prime_factorization": func(q, a string) bool {
			n := numbers(q)[0]
			for _, w := range strings.Split(a, " × ") {
				p, err := strconv.Atoi(w)
				if err != nil || p < 2 || n%p != 0 {
					return false
				}
				for d := 2; d*d <= p; d++ {
					if p%d == 0 {
						return false
					}
				}
				n /= p
			}
			return n == 1
		},
		"simple_equations": func(q, a string) bool {
			x, err := strconv.Atoi(a)
			side := func(text string) int {
				k, rest, _ := strings.Cut(trim(text), "x")
				factor, _ := strconv.Atoi(k)
				more, _ := strconv.Atoi(strings.ReplaceAll(rest, " ", ""))
				return factor*x + more
			}
			l, r, _ := strings.Cut(strings.TrimPrefix(q, "Solve for x: "), "=")
			return err == nil && side(l) == side(r)
		},
		"countdown": func(q, a string) bool {
			n := numbers(q)
			given, goal := n[:len(n)-1], n[len(n)-1]
			for _, w := range regexp.MustCompile(`\d+`).FindAllString(a, -1) {
				k, _ := strconv.Atoi(w)
				i := slices.Index(given, k)
				if i < 0 {
					return false
				}
				given = slices.Delete(slices.Clone(given), i, i+1)
			}
			v, ok := fromLeft(a)
			return ok && v.Cmp(big.NewRat(int64(goal), 1)) == 0
		},
		"number_sorting": func(q, a string) bool {
			given, said := numbers(q), numbers(a)
			if strings.Join(strings.Fields(a), " ") != strings.ReplaceAll(strings.Trim(fmt.Sprint(said), "[]"), " ", ", ") {
				return false
			}
			for i := 1; i < len(said); i++ {
				if down := strings.Contains(q, "descending"); down && said[i] > said[i-1] || !down && said[i] < said[i-1] {
					return false
				}
			}
			for _, n := range given {
				i := slices.Index(said, n)
				if i < 0 {
					return false
				}
				said = slices.Delete(said, i, i+1)
			}
			return len(said) == 0
		},
		"caesar_cipher": once(func(q string) string {
			ask, secret, _ := strings.Cut(q, "\n\n")
			shift := int(secret[0]) - 's' // of "secret", the known first word
			if n := numbers(ask); len(n) > 0 {
				shift = n[0]
			}
			out := ""
			for _, c := range secret {
				if c != ' ' {
					c = rune('a' + (int(c)-'a'-shift+52)%26)
				}
				out += string(c)
			}
			return out
		}, trim),
		"game_of_life": once(func(q string) string {
			ask, text, _ := strings.Cut(q, "\n\n")
			alive, size := map[[2]int]bool{}, 0
			for y, line := range strings.Split(text, "\n") {
				size = len(line)
				for x, c := range line {
					alive[[2]int{y, x}] = c == '#'
				}
			}
			for range numbers(ask)[0] {
				beside := map[[2]int]int{}
				for p, is := range alive {
					for d := range 9 {
						if is && d != 4 {
							beside[[2]int{(p[0] + d/3 - 1 + size) % size, (p[1] + d%3 - 1 + size) % size}]++
						}
					}
				}
				next := map[[2]int]bool{}
				for p, n := range beside {
					next[p] = n == 3 || n == 2 && alive[p]
				}
				alive = next
			}
			out := ""
			for y := range size {
				for x := range size {
					out += map[bool]string{true: "#", false: "."}[alive[[2]int{y, x}]]
				}
				out += "\n"
			}
			return trim(out)
		}, trim),
		"shortest_path": func(q, a string) bool {
			_, text, _ := strings.Cut(q, "\n\n")
			grid := strings.Split(text, "\n")
			open := func(y, x int) bool { return y >= 0 && x >= 0 && y < len(grid) && x < len(grid) && grid[y][x] != '#' }
			far := map[[2]int]int{{0, 0}: 0} // by relaxing all fields again and again
			for changed := true; changed; {
				changed = false
				for p, n := range far {
					for _, d := range [][2]int{{0, 1}, {1, 0}, {0, -1}, {-1, 0}} {
						to := [2]int{p[0] + d[0], p[1] + d[1]}
						if was, ok := far[to]; open(to[0], to[1]) && (!ok || was > n+1) {
							far[to], changed = n+1, true
						}
					}
				}
			}
			y, x := 0, 0
			for _, c := range a {
				switch c {
				case 'U':
					y--
				case 'D':
					y++
				case 'L':
					x--
				case 'R':
					x++
				}
				if !open(y, x) {
					return false
				}
			}
			return grid[y][x] == 'G' && far[[2]int{y, x}] == len(a)
		},
		"knights_knaves": once(func(q string) string {
			said := regexp.MustCompile(`(\w+) says: "([^"]+)"`).FindAllStringSubmatch(q, -1)
			var found []string
			for bits := range 1 << len(said) {
				kind := map[string]string{}
				for i, m := range said {
					kind[m[1]] = []string{"knave", "knight"}[bits>>i&1]
				}
				one := func(text string) bool { f := strings.Fields(text); return kind[f[0]] == f[3] }
				fits := true
				for _, m := range said {
					a, b, and := strings.Cut(m[2], " and ")
					c, d, or := strings.Cut(m[2], " or ")
					truth := false
					switch {
					case strings.HasSuffix(m[2], " are the same"):
						truth = kind[a] == kind[strings.Fields(b)[0]]
					case and:
						truth = one(a) && one(b)
					case or:
						truth = one(c) || one(d)
					default:
						truth = one(m[2])
					}
					fits = fits && truth == (kind[m[1]] == "knight")
				}
				if fits {
					var words []string
					for _, m := range said {
						words = append(words, m[1]+" is a "+kind[m[1]])
					}
					found = append(found, strings.Join(words, ", "))
				}
			}
			return strings.Join(found, " | ") // more than one: no answer is equal to this
		}, trim),
	}
}

// fromLeft reads ((a * b) + c) - d, as the generator writes it, from the right end: what
// is before the last operator is in parentheses or a number.
func fromLeft(text string) (*big.Rat, bool) {
	at := strings.LastIndexAny(text, "+-*/")
	if at < 0 {
		return new(big.Rat).SetString(strings.Trim(text, " "))
	}
	left := strings.TrimSpace(text[:at])
	if strings.HasPrefix(left, "(") && strings.HasSuffix(left, ")") {
		left = left[1 : len(left)-1]
	}
	a, ok1 := fromLeft(left)
	b, ok2 := new(big.Rat).SetString(strings.TrimSpace(text[at+1:]))
	if !ok1 || !ok2 {
		return nil, false
	}
	switch text[at] {
	case '+':
		return a.Add(a, b), true
	case '-':
		return a.Sub(a, b), true
	case '*':
		return a.Mul(a, b), true
	}
	if b.Sign() == 0 {
		return nil, false
	}
	return a.Quo(a, b), true
}

package procedural

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// memory holds the variables a to d and the counters i to k of a program.
type memory [7]int

// programOutput: what a small program prints. Its lines are Python and mean what they mean
// there; every program ends. One whose numbers grow beyond largest is thrown away: those
// of Python have no end, those of a machine have.
func programOutput(r *rand.Rand, level int) Puzzle {
	for {
		if p, ok := drawProgram(r, level); ok {
			return p
		}
	}
}

// largest is the size up to which numbers may grow. Their products fit into 64 bits.
const largest = 1_000_000_000

// drawProgram makes a program; false: its numbers grow too large.
func drawProgram(r *rand.Rand, level int) (Puzzle, bool) {
	g := &programmer{r: r, depth: 1 + level/4}
	var text []string
	var m memory
	for v := range 2 + level/4 {
		m[v] = r.IntN(20) - 5
		text = append(text, fmt.Sprintf("%s = %d", variable(v), m[v]))
		g.vars++
	}
	body, run := g.block(2+level/2, 0)
	run(&m)
	var names, values []string
	for v := range g.vars {
		names, values = append(names, variable(v)), append(values, fmt.Sprint(m[v]))
	}
	text = append(append(text, body...), "print("+strings.Join(names, ", ")+")")
	return Puzzle{
		Question: "What does this Python program print?\n\n" + strings.Join(text, "\n"),
		Answer:   strings.Join(values, " "),
		Check: func(answer string) error {
			got, err := whole(answer)
			if err != nil {
				return err
			}
			if len(got) != g.vars {
				return fmt.Errorf("%d numbers, want %d", len(got), g.vars)
			}
			for v, n := range got {
				if n != m[v] {
					return fmt.Errorf("%s is not %d", names[v], n)
				}
			}
			return nil
		},
	}, !g.over
}

func variable(v int) string { return "abcdijk"[v : v+1] }

// programmer writes programs as text and as what they do.
type programmer struct {
	r     *rand.Rand
	vars  int
	depth int  // of nested blocks
	over  bool // a number grew beyond largest
}

func (g *programmer) block(statements, deep int) (text []string, run func(*memory)) {
	var do []func(*memory)
	for range statements {
		var lines []string
		var f func(*memory)
		switch kind := g.r.IntN(4); {
		case deep >= g.depth || kind == 0:
			lines, f = g.assign()
		case kind == 1:
			lines, f = g.branch(deep)
		default:
			lines, f = g.loop(deep)
		}
		text, do = append(text, lines...), append(do, f)
	}
	return text, func(m *memory) {
		for _, f := range do {
			f(m)
		}
	}
}

func indented(lines []string) (out []string) {
	for _, line := range lines {
		out = append(out, "    "+line)
	}
	return out
}

// set stores a value where it may be stored.
func (g *programmer) set(m *memory, to, v int) {
	if v > largest || v < -largest {
		g.over = true
		return
	}
	m[to] = v
}

func (g *programmer) assign() ([]string, func(*memory)) {
	to := g.r.IntN(g.vars)
	x := g.r.IntN(g.vars)
	y := g.r.IntN(g.vars)
	k := 2 + g.r.IntN(8)
	a := variable(to)
	b := variable(x)
	c := variable(y)
	switch g.r.IntN(5) {
	case 0:
		return []string{fmt.Sprintf("%s = %s + %s", a, b, c)}, func(m *memory) { g.set(m, to, m[x]+m[y]) }
	case 1:
		return []string{fmt.Sprintf("%s = %s - %d", a, b, k)}, func(m *memory) { g.set(m, to, m[x]-k) }
	case 2:
		return []string{fmt.Sprintf("%s = (%s * %s + %d) %% 97", a, b, c, k)}, func(m *memory) { g.set(m, to, modulo(m[x]*m[y]+k, 97)) }
	case 3:
		return []string{fmt.Sprintf("%s = %s // %d", a, b, k)}, func(m *memory) { g.set(m, to, (m[x]-modulo(m[x], k))/k) }
	}
	return []string{fmt.Sprintf("%s = %s %% %d - %s", a, b, k, c)}, func(m *memory) { g.set(m, to, modulo(m[x], k)-m[y]) }
}

// modulo is the remainder with the sign of the divisor, as in Python.
func modulo(a, b int) int { return (a%b + b) % b }

func (g *programmer) branch(deep int) ([]string, func(*memory)) {
	x := g.r.IntN(g.vars)
	y := g.r.IntN(g.vars)
	k := 2 + g.r.IntN(3)
	cond, test := fmt.Sprintf("%s > %s", variable(x), variable(y)), func(m *memory) bool { return m[x] > m[y] }
	if x == y || g.r.IntN(2) == 0 {
		cond, test = fmt.Sprintf("%s %% %d == 0", variable(x), k), func(m *memory) bool { return modulo(m[x], k) == 0 }
	}
	yes, doYes := g.block(1, deep+1)
	no, doNo := g.block(1, deep+1)
	text := append([]string{"if " + cond + ":"}, indented(yes)...)
	text = append(append(text, "else:"), indented(no)...)
	return text, func(m *memory) {
		if test(m) {
			doYes(m)
		} else {
			doNo(m)
		}
	}
}

func (g *programmer) loop(deep int) ([]string, func(*memory)) {
	i, n := 4+deep, 2+g.r.IntN(3)
	body, do := g.block(1+g.r.IntN(2), deep+1)
	use := g.r.IntN(g.vars) // so that the counter matters
	body = append(body, fmt.Sprintf("%s = %s + %s", variable(use), variable(use), variable(i)))
	return append([]string{fmt.Sprintf("for %s in range(%d):", variable(i), n)}, indented(body)...), func(m *memory) {
		for m[i] = 0; m[i] < n; m[i]++ {
			do(m)
			g.set(m, use, m[use]+m[i])
		}
	}
}

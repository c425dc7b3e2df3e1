package procedural

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// graphColor: 5 to 14 corners, three colours, as many edges as a planted colouring lets
// through; every colouring without conflict is right.
func graphColor(r *rand.Rand, level int) Puzzle {
	n := 4 + level
	names := letters(n)
	colour := make([]int, n)
	for i := range colour {
		colour[i] = 1 + i%3
	}
	r.Shuffle(n, func(i, j int) { colour[i], colour[j] = colour[j], colour[i] })
	var edges [][2]int
	var text, gold []string
	for _, e := range r.Perm(n * n) {
		a, b := e/n, e%n
		if a < b && colour[a] != colour[b] && len(edges) < n*2+level/3 {
			edges = append(edges, [2]int{a, b})
			text = append(text, names[a]+"-"+names[b])
		}
	}
	for i, c := range colour {
		gold = append(gold, fmt.Sprintf("%s = %d", names[i], c))
	}
	return Puzzle{
		Question: fmt.Sprintf("Give each of the corners %s one of the colours 1, 2, 3, so that no edge joins two corners of one colour. The edges are: %s. Answer in the form \"A = 1, B = 2\", with all corners.",
			strings.Join(names, ", "), strings.Join(text, ", ")),
		Answer: strings.Join(gold, ", "),
		Check: func(answer string) error {
			said, err := pairs(answer, names)
			if err != nil {
				return err
			}
			for name, c := range said {
				if c != "1" && c != "2" && c != "3" {
					return fmt.Errorf("%s = %q: want 1, 2 or 3", name, clip(c))
				}
			}
			for i, e := range edges {
				if said[names[e[0]]] == said[names[e[1]]] {
					return fmt.Errorf("the edge %s joins two of one colour", text[i])
				}
			}
			return nil
		},
	}
}

// courseSchedule: an order in which every course comes after those that it needs, or
// "none" where they need each other in a circle.
func courseSchedule(r *rand.Rand, level int) Puzzle {
	n := 4 + level
	names := letters(n)
	order := r.Perm(n)
	circle := r.IntN(6) == 0
	needs := map[[2]int]bool{} // the second needs the first
	for len(needs) < n+n/2 {
		i, j := r.IntN(n), r.IntN(n)
		if i < j {
			needs[[2]int{order[i], order[j]}] = true
		}
	}
	if circle {
		i := r.IntN(n - 2)
		needs[[2]int{order[i], order[i+1]}] = true
		needs[[2]int{order[i+1], order[i+2]}] = true
		needs[[2]int{order[i+2], order[i]}] = true
	}
	var text []string
	for need := range needs {
		text = append(text, fmt.Sprintf("%s needs %s", names[need[1]], names[need[0]]))
	}
	slices.Sort(text)
	r.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
	gold := "none"
	if !circle {
		var words []string
		for _, i := range order {
			words = append(words, names[i])
		}
		gold = strings.Join(words, ", ")
	}
	return Puzzle{
		Question: fmt.Sprintf("These are courses: %s. %s. Give all courses in an order in which each comes after all that it needs, separated by commas, or say \"none\" if there is no such order.",
			strings.Join(names, ", "), strings.Join(text, ", ")),
		Answer: gold,
		Check: func(answer string) error {
			words := separate(arrows.Replace(answer))
			if circle {
				return oneWord("none")(answer)
			}
			if len(words) != n {
				return fmt.Errorf("%d courses, want %d, each once", len(words), n)
			}
			for need := range needs {
				before, after := slices.Index(words, names[need[0]]), slices.Index(words, names[need[1]])
				if before < 0 || after < before {
					return fmt.Errorf("%s needs %s", names[need[1]], names[need[0]])
				}
			}
			for _, name := range names {
				if !slices.Contains(words, name) {
					return fmt.Errorf("%s is missing", name)
				}
			}
			return nil
		},
	}
}

// weightedPath: a cheapest way through one-way roads; every one that is as cheap is right.
func weightedPath(r *rand.Rand, level int) Puzzle {
	n := 4 + level
	names := letters(n)
	var cost map[[2]int]int
	var path []string
	best := 0
	for len(path) < 4+level/5 { // a way of few roads is seen at once
		cost = roads(r, n, level)
		path, best = cheapest(cost, n)
	}
	var text []string
	for road, c := range cost {
		text = append(text, fmt.Sprintf("%s to %s: %d", names[road[0]], names[road[1]], c))
	}
	slices.Sort(text)
	return Puzzle{
		Question: fmt.Sprintf("These are one-way roads with their costs. %s. Find a cheapest way from A to %s. Give the places on it from A to %s, separated by commas.",
			strings.Join(text, "; "), names[n-1], names[n-1]),
		Answer: strings.Join(path, ", "),
		Check: func(answer string) error {
			words := separate(arrows.Replace(answer))
			if len(words) < 2 || words[0] != "A" || words[len(words)-1] != names[n-1] {
				return fmt.Errorf("%q does not lead from A to %s", clip(answer), names[n-1])
			}
			sum := 0
			for i := range len(words) - 1 {
				c, ok := cost[[2]int{slices.Index(names, words[i]), slices.Index(names, words[i+1])}]
				if !ok {
					return fmt.Errorf("there is no road from %s to %s", clip(words[i]), clip(words[i+1]))
				}
				sum += c
			}
			if sum != best {
				return fmt.Errorf("it costs %d, a cheapest one %d", sum, best)
			}
			return nil
		},
	}
}

// roads join n places so that each can be reached from everywhere.
func roads(r *rand.Rand, n, level int) map[[2]int]int {
	cost := map[[2]int]int{}
	for i := range 2 {
		ring := r.Perm(n)
		for j := range ring {
			cost[[2]int{ring[j], ring[(j+1)%n]}] = 1 + r.IntN(10*(i+1)+level)
		}
	}
	for range n {
		if a, b := r.IntN(n), r.IntN(n); a != b {
			cost[[2]int{a, b}] = 10 + r.IntN(20+level)
		}
	}
	return cost
}

// cheapest is Dijkstra's algorithm from 0 to n-1. Every place must be reachable.
func cheapest(cost map[[2]int]int, n int) (path []string, best int) {
	const far = 1 << 30
	dist := slices.Repeat([]int{far}, n)
	from := make([]int, n)
	done := make([]bool, n)
	dist[0] = 0
	for {
		at := -1
		for i := range n {
			if !done[i] && (at < 0 || dist[i] < dist[at]) {
				at = i
			}
		}
		done[at] = true
		if at == n-1 {
			break
		}
		for i := range n {
			if c, ok := cost[[2]int{at, i}]; ok && dist[at]+c < dist[i] {
				dist[i], from[i] = dist[at]+c, at
			}
		}
	}
	for at := n - 1; ; at = from[at] {
		path = append(path, letters(n)[at])
		if at == 0 {
			break
		}
	}
	slices.Reverse(path)
	return path, dist[n-1]
}

// sortingSteps: what a list looks like in the midst of being sorted, and with how many
// swaps.
func sortingSteps(r *rand.Rand, level int) Puzzle {
	for {
		list := make([]int, 4+level)
		for i := range list {
			list[i] = r.IntN(20 * (level + 1))
		}
		steps := 1 + r.IntN(1+level/2)
		given := slices.Clone(list)
		var rule string
		var swaps int
		switch r.IntN(3) {
		case 0:
			rule = fmt.Sprintf("Bubble sort goes through the list from left to right and swaps two neighbours whenever the left one is greater. This is done %d times.", steps)
			swaps = bubble(list, steps)
		case 1:
			rule = fmt.Sprintf("Selection sort swaps, in step 1, the smallest number of the list with the first number; in step 2 the smallest from place 2 on with the number at place 2; and so on. The leftmost counts where the smallest stands more than once; a number is not swapped with itself. %d steps are made.", steps)
			swaps = selection(list, steps)
		default:
			rule = "Let p be the last number of the list. A mark stands before the first number. Go through all numbers before the last one from left to right: whenever one is smaller than p, it changes places with the number right after the mark, and the mark moves one place to the right. At last p changes places with the number right after the mark. A number that would change places with itself stays and does not count as a swap."
			swaps = partition(list)
		}
		if slices.Equal(list, given) {
			continue
		}
		want := append(slices.Clone(list), swaps)
		return Puzzle{
			Question: fmt.Sprintf("%s\n\nThe list is: %s\n\nGive the list as it is then, and behind it, as one more number, how many swaps were made. Separate all numbers with commas.", rule, join(given, ", ")),
			Answer:   join(want, ", "), Check: exactly(want),
		}
	}
}

func bubble(list []int, passes int) (swaps int) {
	for range passes {
		for i := range len(list) - 1 {
			if list[i] > list[i+1] {
				list[i], list[i+1] = list[i+1], list[i]
				swaps++
			}
		}
	}
	return swaps
}

func selection(list []int, steps int) (swaps int) {
	for i := range steps {
		at := i
		for j := i; j < len(list); j++ {
			if list[j] < list[at] {
				at = j
			}
		}
		if at != i {
			list[i], list[at] = list[at], list[i]
			swaps++
		}
	}
	return swaps
}

func partition(list []int) (swaps int) {
	mark, last := 0, len(list)-1
	swap := func(i, j int) {
		if i != j {
			list[i], list[j] = list[j], list[i]
			swaps++
		}
	}
	for i := range last {
		if list[i] < list[last] {
			swap(i, mark)
			mark++
		}
	}
	swap(mark, last)
	return swaps
}

package codedebug

import (
	"math/rand/v2"
	"slices"
	"strings"
)

func firstIndexBase() base {
	return base{
		name: "first_index",
		source: `def first_index(items, target):
    """Index of the first item that is not less than target in a sorted list; its length if there is none."""
    low = 0
    high = len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] < target:
            low = middle + 1
        else:
            high = middle
    return low
`,
		edges: [][]any{args(ints(), 3), args(ints(1), 1), args(ints(1), 2), args(ints(1, 3, 3, 5), 3), args(ints(1, 3, 3, 5), 4), args(ints(2, 4, 6, 8, 10), 10), args(ints(2, 4, 6, 8, 10), 0)},
		draw:  func(r *rand.Rand) []any { return args(sortedInts(numbers(r, 3, 12, 0, 20)), r.IntN(22)) },
		solve: func(a []any) any {
			for i, v := range a[0].([]any) {
				if v.(int) >= a[1].(int) {
					return i
				}
			}
			return len(a[0].([]any))
		},
	}
}

func mergeSortedBase() base {
	return base{
		name: "merge_sorted",
		source: `def merge_sorted(left, right):
    """One sorted list of two sorted lists."""
    out = []
    i = 0
    j = 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            out.append(left[i])
            i += 1
        else:
            out.append(right[j])
            j += 1
    return out + left[i:] + right[j:]
`,
		edges: [][]any{args(ints(), ints()), args(ints(1), ints()), args(ints(), ints(2, 3)), args(ints(1, 4), ints(2, 3, 9)), args(ints(5, 6), ints(1, 2)), args(ints(1, 1), ints(1)), args(ints(1, 2, 3), ints(2))},
		draw: func(r *rand.Rand) []any {
			return args(sortedInts(numbers(r, 0, 7, 0, 30)), sortedInts(numbers(r, 0, 7, 0, 30)))
		},
		solve: func(a []any) any { return sortedInts(append(slices.Clone(a[0].([]any)), a[1].([]any)...)) },
	}
}

func runLengthsBase() base {
	return base{
		name: "run_lengths",
		source: `def run_lengths(text):
    """Runs of equal letters as [letter, length] pairs, in order."""
    runs = []
    for letter in text:
        if runs and runs[-1][0] == letter:
            runs[-1][1] += 1
        else:
            runs.append([letter, 1])
    return runs
`,
		edges: [][]any{args(""), args("a"), args("aab"), args("abba"), args("aaaa"), args("abcc")},
		draw:  func(r *rand.Rand) []any { return args(text(r, "abc", 2, 12)) },
		solve: func(a []any) any {
			out := []any{}
			for i, s := 0, a[0].(string); i < len(s); {
				j := i
				for j < len(s) && s[j] == s[i] {
					j++
				}
				out = append(out, args(s[i:i+1], j-i))
				i = j
			}
			return out
		},
	}
}

func toRomanBase() base {
	return base{
		name: "to_roman",
		source: `def to_roman(number):
    """A whole number from 1 to 3999 as a Roman numeral."""
    table = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
    out = ""
    for value, letters in table:
        while number >= value:
            out += letters
            number -= value
    return out
`,
		edges: [][]any{args(1), args(4), args(9), args(14), args(40), args(90), args(400), args(1994), args(3999)},
		draw:  func(r *rand.Rand) []any { return args(1 + r.IntN(3999)) },
		solve: func(a []any) any {
			n := a[0].(int)
			digit := func(d int, one, five, ten string) string {
				return []string{"", one, one + one, one + one + one, one + five, five, five + one, five + one + one, five + one + one + one, one + ten}[d]
			}
			return strings.Repeat("M", n/1000) + digit(n/100%10, "C", "D", "M") + digit(n/10%10, "X", "L", "C") + digit(n%10, "I", "V", "X")
		},
	}
}

func balancedBase() base {
	return base{
		name: "balanced",
		source: `def balanced(text):
    """Whether the brackets of a text, of the kinds () [] {}, are closed in the right order."""
    pairs = {")": "(", "]": "[", "}": "{"}
    stack = []
    for letter in text:
        if letter in "([{":
            stack.append(letter)
        elif letter in pairs:
            if not stack or stack.pop() != pairs[letter]:
                return False
    return len(stack) == 0
`,
		edges: [][]any{args(""), args("()"), args("([{}])"), args("(]"), args("(("), args(")("), args("a(b)c"), args("([)]")},
		draw:  func(r *rand.Rand) []any { return args(text(r, "()[]x", 2, 6)) },
		solve: func(a []any) any {
			s := strings.Map(func(c rune) rune {
				if strings.ContainsRune("()[]{}", c) {
					return c
				}
				return -1
			}, a[0].(string))
			for n := -1; n != len(s); {
				n = len(s)
				s = strings.NewReplacer("()", "", "[]", "", "{}", "").Replace(s)
			}
			return s == ""
		},
	}
}

func rotateBase() base {
	return base{
		name: "rotate",
		source: `def rotate(items, steps):
    """The list moved to the right by steps places, round its end; to the left for negative steps."""
    if not items:
        return []
    steps = steps % len(items)
    cut = len(items) - steps
    return items[cut:] + items[:cut]
`,
		edges: [][]any{args(ints(), 3), args(ints(1), 5), args(ints(1, 2, 3), 1), args(ints(1, 2, 3), 0), args(ints(1, 2, 3), -1), args(ints(1, 2, 3, 4, 5), 12)},
		draw:  func(r *rand.Rand) []any { return args(numbers(r, 2, 8, 0, 50), r.IntN(30)-15) },
		solve: func(a []any) any {
			in, k := a[0].([]any), a[1].(int)
			out := make([]any, len(in))
			for i, v := range in {
				out[((i+k)%len(in)+len(in))%len(in)] = v
			}
			return out
		},
	}
}

func primesBelowBase() base {
	return base{
		name: "primes_below",
		source: `def primes_below(limit):
    """All primes less than limit, in order."""
    found = []
    for number in range(2, limit):
        prime = True
        for divisor in found:
            if divisor * divisor > number:
                break
            if number % divisor == 0:
                prime = False
                break
        if prime:
            found.append(number)
    return found
`,
		edges: [][]any{args(0), args(2), args(3), args(4), args(10), args(26), args(50), args(122)},
		draw:  func(r *rand.Rand) []any { return args(5 + r.IntN(200)) },
		solve: func(a []any) any {
			out := []any{}
			for n := 2; n < a[0].(int); n++ {
				d := 2
				for d < n && n%d != 0 {
					d++
				}
				if d == n {
					out = append(out, n)
				}
			}
			return out
		},
	}
}

func longestRiseBase() base {
	return base{
		name: "longest_rise",
		source: `def longest_rise(numbers):
    """Length of the longest stretch in which each number is larger than the one before it."""
    if not numbers:
        return 0
    best = 1
    length = 1
    for i in range(1, len(numbers)):
        if numbers[i] > numbers[i - 1]:
            length += 1
            best = max(best, length)
        else:
            length = 1
    return best
`,
		edges: [][]any{args(ints()), args(ints(5)), args(ints(1, 2, 3)), args(ints(3, 2, 1)), args(ints(1, 1, 1)), args(ints(1, 2, 1, 2, 3, 0, 1)), args(ints(5, 1, 2, 2, 3))},
		draw:  func(r *rand.Rand) []any { return args(numbers(r, 3, 14, 0, 9)) },
		solve: func(a []any) any {
			in, best := a[0].([]any), 0
			for i := range in {
				for j := i; j < len(in) && (j == i || in[j].(int) > in[j-1].(int)); j++ {
					best = max(best, j-i+1)
				}
			}
			return best
		},
	}
}

func wordCountsBase() base {
	return base{
		name: "word_counts",
		source: `def word_counts(text):
    """Words of a text with their counts as [word, count], the most frequent first, ties in alphabetical order."""
    counts = {}
    for word in text.lower().split():
        word = word.strip(".,!?")
        if word:
            counts[word] = counts.get(word, 0) + 1
    return [[w, n] for w, n in sorted(counts.items(), key=lambda p: (-p[1], p[0]))]
`,
		edges: [][]any{args(""), args("a"), args("b a b"), args("The cat. the dog, THE end!"), args("x y z"), args("... b"), args("b b a a c")},
		draw: func(r *rand.Rand) []any {
			list := strings.Fields("red blue Red green, blue. tea Tea! oak")
			var out []string
			for range 3 + r.IntN(9) {
				out = append(out, list[r.IntN(len(list))])
			}
			return args(strings.Join(out, " "))
		},
		solve: func(a []any) any {
			var list []string
			for _, w := range strings.Fields(strings.ToLower(a[0].(string))) {
				w = strings.Trim(w, ".,!?")
				if w != "" {
					list = append(list, w)
				}
			}
			slices.Sort(list)
			out := []any{}
			for len(list) > 0 {
				n := 1
				for n < len(list) && list[n] == list[0] {
					n++
				}
				out = append(out, args(list[0], n))
				list = list[n:]
			}
			slices.SortStableFunc(out, func(x, y any) int { return y.([]any)[1].(int) - x.([]any)[1].(int) })
			return out
		},
	}
}

func movingSumsBase() base {
	return base{
		name: "moving_sums",
		source: `def moving_sums(numbers, width):
    """Sums of each width neighbours of a list; none where the list is shorter."""
    if width < 1 or width > len(numbers):
        return []
    total = sum(numbers[:width])
    out = [total]
    for i in range(width, len(numbers)):
        total += numbers[i] - numbers[i - width]
        out.append(total)
    return out
`,
		edges: [][]any{args(ints(), 1), args(ints(1, 2, 3), 0), args(ints(1, 2, 3), 1), args(ints(1, 2, 3), 3), args(ints(1, 2, 3), 4), args(ints(4, -1, 7, 2), 2)},
		draw:  func(r *rand.Rand) []any { return args(numbers(r, 4, 10, -9, 30), 1+r.IntN(5)) },
		solve: func(a []any) any {
			in := a[0].([]any)
			k := a[1].(int)
			out := []any{}
			for i := 0; k >= 1 && i+k <= len(in); i++ {
				s := 0
				for _, v := range in[i : i+k] {
					s += v.(int)
				}
				out = append(out, s)
			}
			return out
		},
	}
}

func toBaseBase() base {
	return base{
		name: "to_base",
		source: `def to_base(number, base):
    """The digits of a number in a base from 2 to 16, as lower-case text."""
    if number == 0:
        return "0"
    sign = ""
    if number < 0:
        sign = "-"
        number = -number
    out = ""
    while number > 0:
        out = "0123456789abcdef"[number % base] + out
        number = number // base
    return sign + out
`,
		edges: [][]any{args(0, 2), args(1, 2), args(5, 2), args(255, 16), args(-10, 3), args(16, 16), args(100, 7)},
		draw:  func(r *rand.Rand) []any { return args(r.IntN(5000)-500, 2+r.IntN(15)) },
		solve: func(a []any) any {
			n, b := a[0].(int), a[1].(int)
			if n < 0 {
				return "-" + digits(-n, b)
			}
			return digits(n, b)
		},
	}
}

func mergeSpansBase() base {
	return base{
		name: "merge_spans",
		source: `def merge_spans(spans):
    """Spans [start, end] joined where they touch or overlap, sorted by start."""
    out = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return out
`,
		edges: [][]any{args(args()), args(args(ints(1, 2))), args(args(ints(1, 3), ints(2, 5))), args(args(ints(1, 3), ints(3, 4))), args(args(ints(5, 6), ints(1, 2))), args(args(ints(1, 9), ints(2, 3))), args(args(ints(1, 2), ints(3, 4), ints(4, 4)))},
		draw: func(r *rand.Rand) []any {
			out := []any{}
			for range 2 + r.IntN(5) {
				s := r.IntN(30)
				out = append(out, ints(s, s+r.IntN(8)))
			}
			return args(out)
		},
		solve: func(a []any) any { return mergeSpans(a[0].([]any)) },
	}
}

func editDistanceBase() base {
	return base{
		name: "edit_distance",
		source: `def edit_distance(first, second):
    """How many letters must be inserted, removed or replaced to turn one text into the other."""
    row = list(range(len(second) + 1))
    for i, a in enumerate(first):
        before = row
        row = [i + 1]
        for j, b in enumerate(second):
            cost = 0 if a == b else 1
            row.append(min(before[j + 1] + 1, row[j] + 1, before[j] + cost))
    return row[-1]
`,
		edges: [][]any{args("", ""), args("a", ""), args("", "abc"), args("kitten", "sitting"), args("flaw", "lawn"), args("abc", "abc"), args("abcd", "badc")},
		draw:  func(r *rand.Rand) []any { return args(text(r, "abcd", 2, 8), text(r, "abcd", 2, 8)) },
		solve: func(a []any) any { return distance(a[0].(string), a[1].(string)) },
	}
}

func bestLoadBase() base {
	return base{
		name: "best_load",
		source: `def best_load(weights, values, limit):
    """The largest value of things whose weights come to limit at most, each thing at most once."""
    best = [0] * (limit + 1)
    for i in range(len(weights)):
        for room in range(limit, weights[i] - 1, -1):
            best[room] = max(best[room], best[room - weights[i]] + values[i])
    return best[limit]
`,
		edges: [][]any{args(ints(), ints(), 5), args(ints(3), ints(4), 2), args(ints(3), ints(4), 3), args(ints(1, 2, 3), ints(6, 10, 12), 5), args(ints(2, 2), ints(3, 3), 3), args(ints(1, 4), ints(1, 9), 9)},
		draw: func(r *rand.Rand) []any {
			w := numbers(r, 3, 6, 1, 8)
			v := make([]any, len(w))
			for i := range v {
				v[i] = 1 + r.IntN(20)
			}
			return args(w, v, 4+r.IntN(14))
		},
		solve: func(a []any) any {
			w := a[0].([]any)
			v := a[1].([]any)
			best := 0
			for set := range 1 << len(w) {
				weight, value := 0, 0
				for i := range w {
					if set>>i&1 == 1 {
						weight, value = weight+w[i].(int), value+v[i].(int)
					}
				}
				if weight <= a[2].(int) {
					best = max(best, value)
				}
			}
			return best
		},
	}
}

func flattenBase() base {
	return base{
		name: "flatten",
		source: `def flatten(nested):
    """All values of lists within lists, in order."""
    out = []
    for item in nested:
        if isinstance(item, list):
            out.extend(flatten(item))
        else:
            out.append(item)
    return out
`,
		edges: [][]any{args(args()), args(args(1, args(2, args(3)))), args(args(args(), args(args()))), args(args(1, 2)), args(args(args(1, 2), 3, args(4)))},
		draw:  func(r *rand.Rand) []any { return args(nest(r, 3)) },
		solve: func(a []any) any {
			out := []any{}
			var walk func(v any)
			walk = func(v any) {
				if list, ok := v.([]any); ok {
					for _, x := range list {
						walk(x)
					}
					return
				}
				out = append(out, v)
			}
			walk(a[0])
			return out
		},
	}
}

func spiralBase() base {
	return base{
		name: "spiral",
		source: `def spiral(rows):
    """The values of a table, read along a spiral from the top left corner, clockwise."""
    out = []
    top = 0
    left = 0
    bottom = len(rows) - 1
    right = len(rows[0]) - 1 if rows else -1
    while top <= bottom and left <= right:
        for x in range(left, right + 1):
            out.append(rows[top][x])
        for y in range(top + 1, bottom + 1):
            out.append(rows[y][right])
        if top < bottom and left < right:
            for x in range(right - 1, left - 1, -1):
                out.append(rows[bottom][x])
            for y in range(bottom - 1, top, -1):
                out.append(rows[y][left])
        top += 1
        left += 1
        bottom -= 1
        right -= 1
    return out
`,
		edges: [][]any{args(args()), args(args(ints(1))), args(args(ints(1, 2, 3))), args(args(ints(1), ints(2), ints(3))), args(args(ints(1, 2), ints(3, 4))), args(args(ints(1, 2, 3), ints(4, 5, 6), ints(7, 8, 9))), args(args(ints(1, 2, 3, 4), ints(5, 6, 7, 8), ints(9, 10, 11, 12)))},
		draw: func(r *rand.Rand) []any {
			h, w := 1+r.IntN(4), 1+r.IntN(4)
			out := []any{}
			for y := range h {
				row := []any{}
				for x := range w {
					row = append(row, 10*y+x)
				}
				out = append(out, row)
			}
			return args(out)
		},
		solve: func(a []any) any { return spiral(a[0].([]any)) },
	}
}

func digits(n, b int) string {
	if n < b {
		return "0123456789abcdef"[n : n+1]
	}
	return digits(n/b, b) + digits(n%b, b)
}

func nest(r *rand.Rand, deep int) []any {
	out := []any{}
	for range r.IntN(4) {
		if deep > 0 && r.IntN(2) == 0 {
			out = append(out, nest(r, deep-1))
		} else {
			out = append(out, r.IntN(100))
		}
	}
	return out
}

// mergeSpans marks every half step that a span covers.
func mergeSpans(spans []any) any {
	var covered [200]bool
	for _, s := range spans {
		p := s.([]any)
		for i := 2 * p[0].(int); i <= 2*p[1].(int); i++ {
			covered[i] = true
		}
	}
	out := []any{}
	for i := 0; i < len(covered); i++ {
		if !covered[i] {
			continue
		}
		j := i
		for covered[j+1] {
			j++
		}
		out = append(out, ints(i/2, j/2))
		i = j
	}
	return out
}

// distance is the definition, on the ends of the texts.
func distance(a, b string) int {
	switch {
	case a == "":
		return len(b)
	case b == "":
		return len(a)
	case a[0] == b[0]:
		return distance(a[1:], b[1:])
	}
	return 1 + min(distance(a[1:], b), distance(a, b[1:]), distance(a[1:], b[1:]))
}

// spiral takes the first row off and turns the rest.
func spiral(rows []any) []any {
	out := []any{}
	for len(rows) > 0 && len(rows[0].([]any)) > 0 {
		out = append(out, rows[0].([]any)...)
		rest := rows[1:]
		if len(rest) == 0 {
			break
		}
		var turned []any
		for x := len(rest[0].([]any)) - 1; x >= 0; x-- {
			column := []any{}
			for _, row := range rest {
				column = append(column, row.([]any)[x])
			}
			turned = append(turned, column)
		}
		rows = turned
	}
	return out
}

package pack_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"hermes/internal/atropos/pack"
)

func sizes(list ...int) (q []pack.Item) {
	for _, n := range list {
		q = append(q, pack.Item{Size: n})
	}
	return q
}

// TestBatches holds cases whose answers were seen on Atropos' own server.
func TestBatches(t *testing.T) {
	tests := []struct {
		name  string
		queue []int
		batch int
		want  string
	}{
		{"all at once", []int{2, 2, 2, 2, 2, 2}, 4, "[[0 1] [2 3] [4 5]]"},
		{"odd sizes starve", []int{3, 1, 4}, 4, "[[2]]"},
		{"one single is left", []int{3, 1, 1, 1, 1}, 4, "[[0 1]]"},
		{"a batch that ends inside a pack", []int{3, 1, 1, 1}, 4, "[[0 1]]"},
		{"not a multiple", []int{4, 4, 4, 4}, 6, "[]"},
		{"too few", []int{4}, 8, "[]"},
		{"empty", nil, 4, "[]"},
		{"size 3 beside 1", []int{3, 1}, 4, "[]"},
		{"pairs", []int{2, 2, 2, 2}, 8, "[[0 1 2 3]]"},
		{"no sequences", []int{0, 0, 4}, 4, "[[2]]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(pack.Batches(sizes(tt.queue...), tt.batch)); got != tt.want {
			t.Errorf("%s: %v of %v gives %s, want %s", tt.name, tt.batch, tt.queue, got, tt.want)
		}
	}
}

// naive forms one batch by the rule as it is written down: divide into packs, take them in
// order, give up when a step overshoots.
func naive(queue []pack.Item, left []int, batch int) []int {
	largest, total := 0, 0
	for _, i := range left {
		largest, total = max(largest, queue[i].Size), total+queue[i].Size
	}
	if len(left) == 0 || total < batch {
		return nil
	}
	open, ready := map[int][]int{}, []int{}
	for _, i := range left {
		s := queue[i].Size
		open[s] = append(open[s], i)
		if len(open[s])*s == largest {
			ready = append(ready, open[s]...)
			open[s] = nil
		}
	}
	sum := 0
	for n, i := range ready {
		sum += queue[i].Size
		if sum == batch {
			return ready[:n+1]
		}
		if sum > batch {
			return nil
		}
	}
	return nil
}

func TestBatchesLikeOneByOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	formed := 0
	for range 5000 {
		var queue []pack.Item
		choice := [][]int{{1, 2, 4}, {4}, {1, 2, 3, 4, 6}, {2, 8}, {1, 5}}[rng.IntN(5)]
		for range rng.IntN(40) {
			queue = append(queue, pack.Item{Size: choice[rng.IntN(len(choice))]})
		}
		batch := 1 + rng.IntN(16)
		var want [][]int
		left := []int{}
		for i := range queue {
			left = append(left, i)
		}
		for got := naive(queue, left, batch); got != nil; got = naive(queue, left, batch) {
			want = append(want, got)
			left = slices.DeleteFunc(left, func(i int) bool { return slices.Contains(got, i) })
		}
		formed += len(want)
		if got := pack.Batches(queue, batch); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("batch %d of %v: %v, one by one %v", batch, queue, got, want)
		}
	}
	if formed < 1000 {
		t.Errorf("only %d batches were formed", formed)
	}
}

func TestWithMinimums(t *testing.T) {
	q := func(list ...int64) (q []pack.Item) { // env, size, env, size; env -1 for none
		for i := 0; i < len(list); i += 2 {
			q = append(q, pack.Item{Env: list[i], HasEnv: list[i] >= 0, Size: int(list[i+1])})
		}
		return q
	}
	m := func(list ...float64) (m []pack.Minimum) {
		for i := 0; i < len(list); i += 2 {
			m = append(m, pack.Minimum{Env: int64(list[i]), Share: list[i+1]})
		}
		return m
	}
	tests := []struct {
		name     string
		queue    []pack.Item
		batch    int
		minimums []pack.Minimum
		want     string
		starved  int64
	}{
		{"the env with a minimum has nothing", q(1, 4, 1, 4, 1, 4), 8, m(0, 0.5, 2, 0), "[]", 0},
		{"no pack of 4 yet", q(1, 4, 1, 4, 0, 2), 8, m(0, 0.5, 2, 0), "[]", 0},
		{"both and the first of the other", q(1, 4, 1, 4, 1, 4, 0, 2, 0, 2), 8, m(0, 0.5, 2, 0), "[[3 4 0]]", 0},
		{"minimums over a hundred", q(0, 4, 1, 4, 0, 4, 1, 4), 8, m(0, 0.7, 1, 0.6), "[[0 1] [2 3]]", -1},
		{"no env takes no part", q(-1, 4, -1, 4, 0, 4), 8, m(0, 0.5), "[]", -1},
		{"unregistered ones fill", q(7, 4, 0, 4), 8, m(0, 0.5), "[[1 0]]", -1},
		{"none connected", q(0, 4, 0, 4), 8, nil, "[[0 1]]", -1},
	}
	for _, tt := range tests {
		got, starved := pack.WithMinimums(tt.queue, tt.batch, tt.minimums)
		if fmt.Sprint(got) != tt.want || starved != tt.starved {
			t.Errorf("%s: %v, starved %d; want %s, %d", tt.name, got, starved, tt.want, tt.starved)
		}
	}
}

func TestSubset(t *testing.T) {
	tests := []struct {
		sizes  []int
		target int
		want   string
	}{
		{[]int{3}, 4, "[]"}, {[]int{3, 2}, 4, "[]"}, {[]int{3, 2, 1}, 4, "[0 2]"}, {[]int{2, 2}, 4, "[0 1]"},
		{[]int{5, 4}, 4, "[1]"}, {[]int{3, 3, 2, 2}, 4, "[2 3]"}, {nil, 0, "[]"}, {[]int{3, 2, 3, 4, 2}, 7, "[0 1 4]"}, {[]int{1}, -1, "[]"},
		{[]int{3, 2, 4, 4}, 6, "[1 3]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(pack.Subset(tt.sizes, tt.target)); got != tt.want {
			t.Errorf("%v to %d: %s, want %s", tt.sizes, tt.target, got, tt.want)
		}
	}
}

// BenchmarkBatches forms all batches of a queue of a million sequences.
func BenchmarkBatches(b *testing.B) {
	var queue []pack.Item
	for i := range 125_000 {
		queue = append(queue, pack.Item{Size: 8, Env: int64(i % 4), HasEnv: true})
	}
	for b.Loop() {
		if n := len(pack.Batches(queue, 128)); n != 125_000/16 {
			b.Fatal(n)
		}
	}
}

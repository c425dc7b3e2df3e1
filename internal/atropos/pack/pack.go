// Package pack decides which queued groups make a batch, as Atropos' server does: a
// group is never split, groups of one size are put together to packs as large as the
// largest group, and a batch is filled with packs in the order of their completion. Its
// functions are pure; the rules are Atropos' (api/utils.py), found again by our own tests.
package pack

import (
	"maps"
	"slices"
)

// Item is what packing looks at in a queued group.
type Item struct {
	Size   int   // sequences
	Env    int64 // environment; means nothing unless HasEnv
	HasEnv bool
}

// Batches forms all batches of exactly batch sequences that the queue can give, in the
// order in which they form. It returns the indices of their groups. Forming is repeated on
// what is left after each batch; where packs stay aligned, that is one pass over the queue.
func Batches(queue []Item, batch int) [][]int {
	var out [][]int
	left := make([]int, len(queue))
	for i := range left {
		left[i] = i
	}
	for {
		formed, rest := pass(queue, left, batch)
		out = append(out, formed...)
		if len(formed) == 0 || len(rest) == 0 {
			return out
		}
		left = rest
	}
}

// pass forms batches from one division into packs. It ends where a repetition would divide
// otherwise: a batch ended inside a pack, or no group of the largest size is left.
func pass(queue []Item, left []int, batch int) (formed [][]int, rest []int) {
	largest := 0
	total := 0
	most := 0
	for _, i := range left {
		switch s := queue[i].Size; {
		case s > largest:
			largest, most = s, 1
		case s == largest:
			most++
		}
		total += queue[i].Size
	}
	if total < batch || batch <= 0 {
		return nil, left
	}
	open := map[int]*[]int{} // by size
	// ends: for each ready group, how many are ready with its pack
	ready, ends := make([]int, 0, len(left)), make([]int, 0, len(left))
	for _, i := range left {
		s := queue[i].Size
		if s == largest && s > 0 { // a pack of one
			ready = append(ready, i)
			ends = append(ends, len(ready))
			continue
		}
		bin := open[s]
		if bin == nil {
			bin = new([]int)
			open[s] = bin
		}
		*bin = append(*bin, i)
		if len(*bin)*s == largest {
			ready = append(ready, *bin...)
			for range *bin {
				ends = append(ends, len(ready))
			}
			*bin = (*bin)[:0]
		}
	}
	taken := make([]bool, len(queue))
	sum := 0
	for _, i := range ready {
		sum += queue[i].Size
	}
	for at := 0; sum >= batch; {
		n, to := 0, at
		for to < len(ready) && n < batch {
			n += queue[ready[to]].Size
			to++
		}
		if n != batch {
			break // it overshoots: no batch at all
		}
		got := ready[at:to:to]
		formed = append(formed, got)
		for _, i := range got {
			taken[i] = true
			if queue[i].Size == largest {
				most--
			}
		}
		sum -= batch
		aligned := ends[to-1] == to
		at = to
		if !aligned || most == 0 {
			break
		}
	}
	return formed, without(left, taken)
}

func without(left []int, taken []bool) []int {
	rest := make([]int, 0, len(left))
	for _, i := range left {
		if !taken[i] {
			rest = append(rest, i)
		}
	}
	return rest
}

// Minimum is the share of every batch that an environment must have.
type Minimum struct {
	Env   int64
	Share float64
}

// WithMinimums forms all batches as [Batches] does, each with the minimums of minimums,
// which stand in the order of registration. Groups without an environment take no part.
// starved is the environment whose lack of packs ended it, -1 for none.
func WithMinimums(queue []Item, batch int, minimums []Minimum) (out [][]int, starved int64) {
	if len(minimums) == 0 {
		return Batches(queue, batch), -1
	}
	left := make([]int, len(queue))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		got, env := oneWithMinimums(queue, left, batch, minimums)
		if got == nil {
			return out, env
		}
		out = append(out, got)
		taken := make([]bool, len(queue))
		for _, i := range got {
			taken[i] = true
		}
		left = without(left, taken)
	}
	return out, -1
}

func oneWithMinimums(queue []Item, left []int, batch int, minimums []Minimum) ([]int, int64) {
	if batch <= 0 {
		return nil, -1
	}
	packs := packsByEnv(queue, left)
	need := make([]int, len(minimums))
	all := 0
	for k, m := range minimums {
		need[k] = int(float64(batch) * m.Share)
		if need[k] > 0 && len(packs[m.Env]) == 0 {
			return nil, m.Env
		}
		all += max(need[k], 0)
	}
	if all > batch {
		for k, m := range minimums {
			if need[k] > 0 {
				scaled := int(float64(need[k]) * (float64(batch) / float64(all)))
				need[k] = max(smallest(queue, packs[m.Env]), scaled)
			}
		}
	}
	var got []int
	total, used := 0, map[int]bool{}
	take := func(i int) bool {
		if s := queue[i].Size; total+s <= batch {
			got, used[i] = append(got, i), true
			total += s
			return true
		}
		return false
	}
	for k, m := range minimums {
		have := 0
		for _, i := range packs[m.Env] {
			if need[k] <= 0 || have >= need[k] {
				break
			}
			if take(i) {
				have += queue[i].Size
			}
		}
	}
	if total < batch {
		for _, i := range inOrder(packs) {
			if !used[i] {
				take(i)
			}
			if total == batch {
				break
			}
		}
	}
	if total != batch {
		return nil, -1
	}
	return got, -1
}

// packsByEnv are the groups in complete packs of each environment, in the order of
// completion.
func packsByEnv(queue []Item, left []int) map[int64][]int {
	largest := 0
	for _, i := range left {
		largest = max(largest, queue[i].Size)
	}
	type bin struct {
		env  int64
		size int
	}
	open, packs := map[bin][]int{}, map[int64][]int{}
	for _, i := range left {
		it := queue[i]
		if !it.HasEnv {
			continue
		}
		b := bin{it.Env, it.Size}
		open[b] = append(open[b], i)
		if len(open[b])*it.Size == largest {
			packs[it.Env] = append(packs[it.Env], open[b]...)
			open[b] = nil
		}
	}
	return packs
}

func inOrder(packs map[int64][]int) []int {
	all := slices.Concat(slices.Collect(maps.Values(packs))...)
	slices.Sort(all)
	return all
}

func smallest(queue []Item, list []int) int {
	n := queue[list[0]].Size
	for _, i := range list {
		n = min(n, queue[i].Size)
	}
	return n
}

// Subset finds groups whose sizes make exactly target: greedily in order, else any, of
// several the one with the later groups. The indices ascend; nil when there is none. It
// takes len(sizes)·target steps.
func Subset(sizes []int, target int) []int {
	if target < 0 {
		return nil
	}
	var greedy []int
	sum := 0
	for i, s := range sizes {
		if sum+s <= target {
			greedy = append(greedy, i)
			sum += s
			if sum == target {
				return greedy
			}
		}
	}
	reach := make([][]bool, len(sizes)+1) // reach[i][j]: j can be made of the first i
	for i := range reach {
		reach[i] = make([]bool, target+1)
	}
	reach[0][0] = true
	for i, s := range sizes {
		for j := range reach[i] {
			reach[i+1][j] = reach[i][j] || j >= s && reach[i][j-s]
		}
	}
	if !reach[len(sizes)][target] {
		return nil
	}
	var out []int
	for i, j := len(sizes), target; i > 0; i-- {
		if s := sizes[i-1]; j >= s && reach[i-1][j-s] {
			out = append(out, i-1)
			j -= s
		}
	}
	slices.Reverse(out)
	return out
}

package grade

// matching is how many of n wanted things can be paired with m given ones at once, where
// fits says which go together (Kuhn's augmenting paths). Taking the first that fits would
// refuse sets that match.
func matching(n, m int, fits func(i, j int) bool) int {
	edges := make([][]int, n)
	for i := range edges {
		for j := range m {
			if fits(i, j) {
				edges[i] = append(edges[i], j)
			}
		}
	}
	partner := make([]int, m) // 1 + index of the wanted one
	var find func(i int, tried []bool) bool
	find = func(i int, tried []bool) bool {
		for _, j := range edges[i] {
			if tried[j] {
				continue
			}
			tried[j] = true
			if partner[j] == 0 || find(partner[j]-1, tried) {
				partner[j] = i + 1
				return true
			}
		}
		return false
	}
	pairs := 0
	for i := range n {
		if find(i, make([]bool, m)) {
			pairs++
		}
	}
	return pairs
}

// inOrder is the length of the longest common subsequence.
func inOrder(n, m int, fits func(i, j int) bool) int {
	row := make([]int, m+1)
	for i := range n {
		diagonal := 0
		for j := range m {
			above := row[j+1]
			if fits(i, j) {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return row[m]
}

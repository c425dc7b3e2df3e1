package figures

import "math"

// PassAtK is the unbiased estimate of the chance that at least one of k samples passes,
// of n samples of which c did: 1 − C(n−c,k)/C(n,k). It is NaN where n < k.
func PassAtK(n, c, k int) float64 {
	if n < k {
		return math.NaN()
	}
	if n-c < k {
		return 1
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}

// PassHatK is the unbiased estimate of the chance that all of k samples pass:
// C(c,k)/C(n,k). It is NaN where n < k.
func PassHatK(n, c, k int) float64 {
	if n < k {
		return math.NaN()
	}
	all := 1.0
	for i := range k {
		all *= max(0, float64(c-i)) / float64(n-i)
	}
	return all
}

// MajAtK is the chance that the most frequent answer among k of n samples is right, over
// all choices of k; equally frequent answers share it. right counts the samples with the
// right answer, wrong those of each wrong answer. It is NaN where there are fewer than k.
func MajAtK(right int, wrong []int, k int) float64 {
	n := right
	for _, w := range wrong {
		n += w
	}
	if n < k || k < 1 {
		return math.NaN()
	}
	p := 0.0
	for t := 1; t <= min(right, k); t++ {
		p += choose(right, t) * wins(wrong, t, k-t) / choose(n, k)
	}
	return p
}

// wins counts the choices of m wrong samples in which no wrong answer occurs more than t
// times. A choice in which j wrong answers occur exactly t times counts 1/(1+j).
func wins(wrong []int, t, m int) float64 {
	ties := m / t
	ways := make([][]float64, m+1) // [samples chosen][answers that tie]
	for i := range ways {
		ways[i] = make([]float64, ties+1)
	}
	ways[0][0] = 1
	for _, w := range wrong {
		for used := m; used >= 0; used-- { // from above: each answer is used once
			for j := ties; j >= 0; j-- {
				sum := 0.0
				for x := 0; x <= min(w, t, used); x++ {
					switch {
					case x < t:
						sum += choose(w, x) * ways[used-x][j]
					case j > 0:
						sum += choose(w, x) * ways[used-x][j-1]
					}
				}
				ways[used][j] = sum
			}
		}
	}
	total := 0.0
	for j, n := range ways[m] {
		total += n / float64(1+j)
	}
	return total
}

func choose(n, k int) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}

package serve

// Target is how many groups may be in flight by Atropos' arithmetic.
func Target(size, batch, offPolicy int, minimum *float64, queue, own, largest int, unallocated float64) int {
	return throttle{size: size, batch: batch, offPolicy: offPolicy, min: minimum, queue: queue, own: own, largest: largest, unallocated: unallocated}.target()
}

// Firsts leaves the first cursor of each step.
func Firsts(all []Cursor) []Cursor { return firsts(all) }

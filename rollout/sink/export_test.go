package sink

// Remember sets how many digests a sorter keeps at least.
func (c *Sorter) Remember(n int) { c.digests.size = n }

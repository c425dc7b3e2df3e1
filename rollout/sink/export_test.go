package sink

// Remember sets how many digests a clerk keeps at least.
func (c *Clerk) Remember(n int) { c.digests.size = n }

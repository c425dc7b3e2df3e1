package guard

import "time"

// HeaderTime is how long a header may take with these options.
func HeaderTime(o Options) time.Duration {
	g, err := New(o)
	if err != nil {
		return -1
	}
	return g.opt.Header
}

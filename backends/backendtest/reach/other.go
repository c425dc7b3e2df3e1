//go:build !linux

package reach

// Main handles nothing: attempts are made in a box, which is a place of Linux.
func Main([]string) (code int, handled bool) { return 0, false }

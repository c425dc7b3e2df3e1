//go:build !linux

package station

import "io"

// Main handles nothing: a station needs Linux.
func Main([]string, io.Reader, io.Writer, io.Writer) (code int, handled bool) { return 0, false }

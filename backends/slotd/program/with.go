//go:build slotd

package program

import _ "embed" // the program itself

//go:embed slotd.zst
var text []byte

// packed is the program, compressed with zstd.
func packed() []byte { return text }

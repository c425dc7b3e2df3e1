//go:build slotd

package program

import _ "embed" // the program itself

//go:embed slotd
var text []byte

func bytes() []byte { return text }

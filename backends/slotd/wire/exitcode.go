package wire

import (
	"golang.org/x/sys/unix"
)

// EndedByCommands says that the commands of a container brought about the end of its first process,
// slotd. It is given the exit code that an engine reports; a signal counts from 128.
//
// Nothing in a box can send that process a KILL (137). slotd ends with 0 when hermes is gone, and
// with 143 where it is asked to. 125 to 127 and 255 are an engine's: it did not start the
// container, or lost it. A Go program that breaks ends with 2, a slotd that cannot go on with 1.
// Any other signal is one of a fault.
func EndedByCommands(code int) bool {
	switch code {
	case 0, 125, 126, 127, 128 + int(unix.SIGKILL), 128 + int(unix.SIGTERM), 255:
		return false
	}
	return code > 0
}

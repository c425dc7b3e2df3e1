package filter

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	x32Bit    = 0 // no second numbering
)

// refusedHere are refused calls that only this architecture has.
var refusedHere = []uint32{}

// chowns are the calls that change owners, with the place of their first id.
var chowns = map[uint32]int{unix.SYS_FCHOWN: 1, unix.SYS_FCHOWNAT: 2}

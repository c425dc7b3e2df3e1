package filter

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	x32Bit    = 0x40000000 // set in the numbers of the x32 calls
)

// refusedHere are refused calls that only this architecture has.
var refusedHere = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL, unix.SYS_MODIFY_LDT,
	unix.SYS_CREATE_MODULE, unix.SYS_QUERY_MODULE, unix.SYS_GET_KERNEL_SYMS,
}

// chowns are the calls that change owners, with the place of their first id.
var chowns = map[uint32]int{unix.SYS_CHOWN: 1, unix.SYS_LCHOWN: 1, unix.SYS_FCHOWN: 1, unix.SYS_FCHOWNAT: 2}

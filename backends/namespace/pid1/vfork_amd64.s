//go:build linux

#include "textflag.h"

// func vfork() (pid, errno uintptr)
//
// The child uses the stack of pid 1 while that waits, and so overwrites what lies below:
// the return address of this function is kept in a register meanwhile.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-16
	MOVQ	$0x4111, DI	// CLONE_VM | CLONE_VFORK | SIGCHLD
	XORQ	SI, SI
	XORQ	DX, DX
	XORQ	R10, R10
	XORQ	R8, R8
	MOVQ	$56, AX	// clone
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JCC	failed
	MOVQ	AX, pid+0(FP)
	MOVQ	$0, errno+8(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$0, pid+0(FP)
	MOVQ	AX, errno+8(FP)
	RET

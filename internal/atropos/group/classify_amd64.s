#include "textflag.h"

// MATCH sets Y1 and Y2 to where Y12 and Y13 are the character.
#define MATCH(char, off) \
	MOVQ $char, AX               \
	MOVQ AX, X0                  \
	VPBROADCASTB X0, Y0          \
	VPCMPEQB Y0, Y12, Y1         \
	VPCMPEQB Y0, Y13, Y2         \
	STORE(off)

// STORE writes the top bits of the bytes in Y1 and Y2 as a mask.
#define STORE(off) \
	VPMOVMSKB Y1, AX             \
	VPMOVMSKB Y2, BX             \
	SHLQ $32, BX                 \
	ORQ  BX, AX                  \
	MOVQ AX, off(DI)

// func classify(b *[64]byte, m *masks)
TEXT ·classify(SB), NOSPLIT, $0-16
	MOVQ b+0(FP), SI
	MOVQ m+8(FP), DI
	VMOVDQU (SI), Y12
	VMOVDQU 32(SI), Y13

	// A digit is what is at most 9 above '0', taken without a sign.
	MOVQ $0x30, AX
	MOVQ AX, X0
	VPBROADCASTB X0, Y0
	VPSUBB Y0, Y12, Y1
	VPSUBB Y0, Y13, Y2
	MOVQ $9, AX
	MOVQ AX, X0
	VPBROADCASTB X0, Y0
	VPMINUB Y0, Y1, Y3
	VPMINUB Y0, Y2, Y4
	VPCMPEQB Y3, Y1, Y1
	VPCMPEQB Y4, Y2, Y2
	STORE(0)

	MATCH(0x30, 8)
	MATCH(0x2c, 16)
	MATCH(0x20, 24)
	MATCH(0x2d, 32)
	MATCH(0x2e, 40)

	// e and E differ in one bit.
	MOVQ $0x20, AX
	MOVQ AX, X0
	VPBROADCASTB X0, Y0
	VPOR Y0, Y12, Y12
	VPOR Y0, Y13, Y13
	MATCH(0x65, 48)
	VZEROUPPER
	RET

#include "textflag.h"

// The bytes that are looked for. They are spread from memory: a MOVQ into a register of
// vectors is an instruction of SSE, and one of those between those of AVX costs about 70
// cycles on some processors (Sapphire Rapids).
DATA chars<>+0(SB)/8, $"0\x09, -.e\x00"
GLOBL chars<>(SB), RODATA|NOPTR, $8

// MATCH sets Y1 and Y2 to where Y12 and Y13 are the character, and stores them.
#define MATCH(char, off) \
	VPBROADCASTB char, Y0        \
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

#define ZERO  chars<>+0(SB)
#define NINE  chars<>+1(SB)
#define COMMA chars<>+2(SB)
#define SPACE chars<>+3(SB)
#define MINUS chars<>+4(SB)
#define POINT chars<>+5(SB)
#define EXP   chars<>+6(SB)

// func classify(b *[64]byte, m *masks)
TEXT ·classify(SB), NOSPLIT, $0-16
	MOVQ b+0(FP), SI
	MOVQ m+8(FP), DI
	VMOVDQU (SI), Y12
	VMOVDQU 32(SI), Y13

	// A digit is what is at most 9 above '0', taken without a sign.
	VPBROADCASTB ZERO, Y0
	VPSUBB Y0, Y12, Y1
	VPSUBB Y0, Y13, Y2
	VPBROADCASTB NINE, Y0
	VPMINUB Y0, Y1, Y3
	VPMINUB Y0, Y2, Y4
	VPCMPEQB Y3, Y1, Y1
	VPCMPEQB Y4, Y2, Y2
	STORE(0)

	MATCH(ZERO, 8)
	MATCH(COMMA, 16)
	MATCH(SPACE, 24)
	MATCH(MINUS, 32)
	MATCH(POINT, 40)

	// e and E differ in one bit, which is that of a space.
	VPBROADCASTB SPACE, Y0
	VPOR Y0, Y12, Y12
	VPOR Y0, Y13, Y13
	MATCH(EXP, 48)
	VZEROUPPER
	RET

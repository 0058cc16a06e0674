//go:build linux && go1.25 && !go1.28 && !race

#include "go_asm.h"
#include "textflag.h"

// OWNED goes on with the lock, by steps 1 to 4 of owner.go; to others if the goroutine does not own it; to lost without
// the lock after step 4; to busy if it is held. The Lock is in DI, g comes into DX.
#define OWNED \
	MOVQ TLS, CX                         \
	MOVQ 0(CX)(TLS*1), DX                \
	MOVQ Lock_owner(DI), CX              \
	SUBQ DX, CX                          \
	CMPQ CX, $const_maxOwners            \
	JHI  others                          \
	CMPL Lock_flags(DI)(CX*4), $0        \
	JNE  busy                            \
	MOVL $1, Lock_flags(DI)(CX*4)        \
	LEAQ (DX)(CX*1), BX                  \
	CMPQ BX, Lock_owner(DI)              \
	JNE  lost

// OTHERS goes to taken with the lock, by a locked instruction; to often, with the lock as well, when the goroutine came
// often enough to own it; to busy without the lock.
#define OTHERS \
lost:                                    \
	MOVL $0, Lock_flags(DI)(CX*4)        \
	JMP  busy                            \
others:                                  \
	CMPL Lock_late(DI), $0               \
	JNE  busy                            \
	XORL AX, AX                          \
	MOVL $1, BX                          \
	LOCK                                 \
	CMPXCHGL BX, Lock_flags(DI)          \
	JNE  busy                            \
	CMPQ DX, Lock_last(DI)               \
	JNE  new                             \
	INCL Lock_streak(DI)                 \
	CMPL Lock_streak(DI), $const_enough  \
	JCC  often                           \
	JMP  taken                           \
new:                                     \
	MOVQ DX, Lock_last(DI)               \
	MOVL $0, Lock_streak(DI)             \
	JMP  taken

// func take(l *Lock)
TEXT ·take(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ l+0(FP), DI
	OWNED
taken:
	RET
	OTHERS
often:
	JMP ·own(SB)
busy:
	JMP ·wait(SB)

// func tryTake(l *Lock) bool
TEXT ·tryTake(SB), NOSPLIT|NOFRAME, $0-9
	MOVQ l+0(FP), DI
	OWNED
taken:
	MOVB $1, ret+8(FP)
	RET
	OTHERS
often:
	JMP ·tryOwn(SB)
busy:
	JMP ·try(SB)

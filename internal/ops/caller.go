package ops

import "github.com/pureverbs/pureverbs/internal/ccall"

// Provider tells how a provider behaves beyond its function pointers.
type Provider struct {
	// Kernel is set where posting a send and arming a CQ enter the kernel, as
	// with the software devices rxe and siw. Such calls may last, so they go
	// through the scheduler's entry for system calls and not the g0 stack,
	// where they would hold up a stop-the-world.
	Kernel bool
}

func (p Provider) sendCaller(fn uintptr) caller { return caller{fn: fn, slow: p.Kernel} }

// caller is a C function of up to three arguments on the data path.
type caller struct {
	fn   uintptr
	slow bool
}

func (c caller) call(a1, a2, a3 uintptr) int32 {
	if c.slow {
		return int32(ccall.Slow(c.fn, a1, a2, a3))
	}
	return int32(ccall.Hot(c.fn, a1, a2, a3))
}

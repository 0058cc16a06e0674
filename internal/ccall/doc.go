// Package ccall makes the calls into C, except dlopen and dlsym, which loader and internal/cuda make by
// purego. No other package calls a function pointer.
//
// Control path: Ptr, Err, Minus1 and others, one for each way in which C reports failure. They lock
// the thread, clear errno before the call and read it afterwards, as cgo would. Arguments are
// words; uintptr(unsafe.Pointer(p)) in the argument list keeps *p on the heap and alive until the
// call returns.
//
// Hot path: Hot calls on the thread's g0 stack without telling the scheduler, which costs about as
// much as a call through a pointer in C. Meanwhile the goroutine cannot be preempted and a
// stop-the-world waits for it, so use it only for functions that return soon, do not block and do
// not call back. Arguments are integers and addresses of memory that Go does not manage. Slow takes
// the same arguments and calls as cgo does, for functions that may block.
//
// PUREVERBS_CCALL=fallback makes Hot call as Slow does.
package ccall

// Call is a call that is made again and again.
type Call struct {
	Fn         uintptr // a C function, not 0
	A1, A2, A3 uintptr // its arguments
}

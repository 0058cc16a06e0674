// Package ccall makes every call into C. Nobody else holds a function pointer
// to jump through.
//
// Control path: Ptr, Err, Minus1 and the others, one for each way in which C
// reports failure. The thread is locked, errno is zeroed before and read after
// on the same thread, since a Go program without cgo has nobody to do it.
// Arguments are words; uintptr(unsafe.Pointer(p)) in the argument list keeps *p
// on the heap and alive until the call returns.
//
// Hot path: Hot calls on the thread's g0 stack without telling the scheduler,
// which costs about as much as a call through a pointer in C. The goroutine
// cannot be preempted meanwhile and a stop-the-world waits for it, so it is for
// functions that return soon, do not block and do not call back. Arguments are
// integers and addresses of memory that Go does not manage. Slow takes the same
// arguments and goes the way of cgo, for functions that may block.
//
// PUREVERBS_CCALL=fallback makes Hot go the way of Slow.
package ccall

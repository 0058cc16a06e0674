package progress

import "golang.org/x/sys/unix"

// yield lets another thread have the processor, of the peer or the device perhaps. Go's scheduler has
// no part in it: runtime.Gosched wakes another thread, which looks in vain for goroutines to run.
func yield() { unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0) }

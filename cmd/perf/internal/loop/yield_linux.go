package loop

import "golang.org/x/sys/unix"

// yield lets another thread run that waits for this processor. Go's scheduler
// has no part in it.
func yield() { unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0) }

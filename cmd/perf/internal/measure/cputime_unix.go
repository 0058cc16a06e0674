//go:build unix

package measure

import (
	"syscall"
	"time"
)

// CPUTime returns the processor time of all threads of this process.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

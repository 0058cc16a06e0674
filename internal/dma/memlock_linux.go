package dma

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MemlockLimit returns how many bytes the process may lock: the soft and the hard limit. Registered
// memory counts against it, unless the process has CAP_IPC_LOCK. Unlimited is all ones.
func MemlockLimit() (cur, max uint64, err error) {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil {
		return 0, 0, fmt.Errorf("dma: getrlimit RLIMIT_MEMLOCK: %w", err)
	}
	return r.Cur, r.Max, nil
}

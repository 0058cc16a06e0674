//go:build !linux

package dma

import (
	"errors"
	"fmt"
	"runtime"
)

// MemlockLimit returns how many bytes the process may lock: the soft and the hard limit.
func MemlockLimit() (cur, max uint64, err error) {
	return 0, 0, fmt.Errorf("dma: RLIMIT_MEMLOCK on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

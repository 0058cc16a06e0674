//go:build !linux

package dma

import (
	"errors"
	"fmt"
	"runtime"
)

// MemlockLimit is how many bytes the process may lock, now and at most.
func MemlockLimit() (cur, max uint64, err error) {
	return 0, 0, fmt.Errorf("dma: RLIMIT_MEMLOCK on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

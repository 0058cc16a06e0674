//go:build unix

package mesh

import (
	"math"
	"syscall"
)

// mostFiles returns how many files this process may have open.
func mostFiles() uint64 {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return math.MaxUint64
	}
	return uint64(l.Cur)
}

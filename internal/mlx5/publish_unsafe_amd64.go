package mlx5

import (
	"sync/atomic"
	"unsafe"
)

// The poller publishes what it polled when it has read all that a poster may then overwrite. Stores are seen after the
// loads before them on amd64; an atomic store would be a locked exchange, dearer than the rest of a completion.

//go:norace
func publish64(to *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(to)) = v }

//go:norace
func publish32(to *atomic.Uint32, v uint32) { *(*uint32)(unsafe.Pointer(to)) = v }

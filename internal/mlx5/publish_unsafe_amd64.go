package mlx5

import (
	"sync/atomic"
	"unsafe"
)

// The poller publishes how far it got once it has read everything that a poster may then overwrite. On amd64 a plain
// store never passes earlier loads. An atomic store would be a locked exchange, which costs more than the rest of a
// completion.

//go:norace
func publish64(to *atomic.Uint64, v uint64) { *(*uint64)(unsafe.Pointer(to)) = v }

//go:norace
func publish32(to *atomic.Uint32, v uint32) { *(*uint32)(unsafe.Pointer(to)) = v }

// The poller reads what only it writes. A plain load can be an operand of a comparison.

//go:norace
func own64(of *atomic.Uint64) uint64 { return *(*uint64)(unsafe.Pointer(of)) }

//go:norace
func own32(of *atomic.Uint32) uint32 { return *(*uint32)(unsafe.Pointer(of)) }

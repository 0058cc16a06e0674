//go:build !amd64

package mlx5

import "sync/atomic"

// The poller publishes what it polled when it has read all that a poster may then overwrite.

func publish64(to *atomic.Uint64, v uint64) { to.Store(v) }

func publish32(to *atomic.Uint32, v uint32) { to.Store(v) }

//go:build !amd64

package mlx5

import "sync/atomic"

// The poller publishes how far it got once it has read everything that a poster may then overwrite.

func publish64(to *atomic.Uint64, v uint64) { to.Store(v) }

func publish32(to *atomic.Uint32, v uint32) { to.Store(v) }

// The poller reads what only it writes.

func own64(of *atomic.Uint64) uint64 { return of.Load() }

func own32(of *atomic.Uint32) uint32 { return of.Load() }

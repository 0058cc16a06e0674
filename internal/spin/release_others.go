//go:build !amd64 || race

package spin

import "sync/atomic"

func release(held *uint32) { atomic.StoreUint32(held, 0) }

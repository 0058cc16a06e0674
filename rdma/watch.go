package rdma

import (
	"runtime"

	"github.com/pureverbs/pureverbs/internal/leak"
)

// Objects that the program has to close or release are recorded in package leak, with the place that made them, if it
// is enabled. Messages and buffers, which are on the hot path, only with PUREVERBS_LEAKS=1.

// watch records that the program has v until r.Done, and reports it if the garbage collector finds it before.
func watch[T any](v *T, r *leak.Record) {
	if r != nil {
		runtime.AddCleanup(v, (*leak.Record).Collected, r)
	}
}

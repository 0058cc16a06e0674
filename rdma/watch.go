package rdma

import (
	"runtime"
	"runtime/debug"

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

// firstRelease is the text of a panic about the place of an earlier release, for objects that leak.Hot records.
func firstRelease(place string) string {
	if place == "" {
		return ""
	}
	return ", first at\n" + place
}

// releasedHere returns the place of a release, if leak.Hot records it.
func releasedHere() string {
	if !leak.Hot() {
		return ""
	}
	return string(debug.Stack())
}

// Package level finds the release of rdma-core by the size of struct verbs_context. It also keeps, for reports, which
// control path this process uses.
package level

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// size is that of the device that was opened last, 0 before the first.
var size atomic.Int64

// Note keeps the size in bytes of struct verbs_context of a device that was opened. It grows with the library, so it
// shows the library's age, regardless of its file name.
func Note(bytes int) { size.Store(int64(bytes)) }

// Noted returns the size that was noted last, 0 for none, and the releases that have it.
func Noted() (bytes int, releases string) {
	bytes = int(size.Load())
	return bytes, Of(bytes, runtime.GOARCH)
}

// ControlEnv is the environment variable that selects the control path.
const ControlEnv = "PUREVERBS_CONTROL"

// path is the control path.
var path atomic.Pointer[string]

// NoteControl keeps which control path this process uses, and why.
func NoteControl(s string) { path.Store(&s) }

// Control returns what was noted last, "" for nothing.
func Control() string {
	if s := path.Load(); s != nil {
		return *s
	}
	return ""
}

// levels are the sizes of struct verbs_context with a pthread_mutex_t of 40 bytes,
// and the rdma-core releases that have them.
var levels = []struct {
	size int
	span string
}{
	{424, "MLNX_OFED before 4.0, not rdma-core"},
	{432, "MLNX_OFED 4.x, not rdma-core"},
	{496, "v13 to v15"},
	{512, "v16"},
	{536, "v17"},
	{592, "v18"},
	{624, "v19"},
	{632, "v20 to v21"},
	{648, "v22 to v58"},
	{672, "v59 to v61"},
	{680, "v62 to v63"},
	{696, "v64 to v65"},
}

// sizeOn returns what a size of levels is on the architecture.
func sizeOn(goarch string, size int) int {
	if goarch == "arm64" {
		// glibc's mutex is 8 bytes longer there. (musl's is not: its sizes would be read
		// as those of an older release.)
		size += 8
	}
	return size
}

// Of returns the releases of rdma-core whose verbs_context has the size on the
// architecture.
func Of(size int, goarch string) string {
	if size == 0 {
		return ""
	}
	size -= sizeOn(goarch, 0)
	last := levels[len(levels)-1]
	if size > last.size {
		return "newer than v65"
	}
	for _, l := range levels {
		if l.size == size {
			return l.span
		}
	}
	return fmt.Sprintf("unknown (no release has %d bytes)", size)
}

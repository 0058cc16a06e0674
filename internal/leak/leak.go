// Package leak records objects that must be closed, and where they were created.
//
// It costs nothing unless it is enabled. With PUREVERBS_LEAKS=1, objects that the garbage collector
// finds unclosed are reported on standard error. A TestMain can call Enable, and fail if objects
// are open at its end.
package leak

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

var (
	enabled = os.Getenv("PUREVERBS_LEAKS") == "1"
	hot     = enabled

	mu   sync.Mutex
	live = make(map[*Record]struct{})
)

// Enable starts tracking. TestMain calls it before any object is created.
func Enable() { enabled = true }

// Enabled reports whether objects are tracked.
func Enabled() bool { return enabled }

// Hot reports whether objects of hot paths are also tracked: with PUREVERBS_LEAKS=1.
func Hot() bool { return hot }

// SetHot sets that for a test, and returns what it was.
func SetHot(on bool) (was bool) {
	was, hot = hot, on
	return was
}

// Record is an object that must be closed. A nil Record does nothing.
type Record struct {
	what  string
	stack []byte
}

// Track records an object until Done.
func Track(what string) *Record {
	if !enabled {
		return nil
	}
	r := &Record{what: what, stack: debug.Stack()}
	mu.Lock()
	live[r] = struct{}{}
	mu.Unlock()
	return r
}

// Done records that the object was closed.
func (r *Record) Done() {
	if r == nil {
		return
	}
	mu.Lock()
	delete(live, r)
	mu.Unlock()
}

// Collected reports an object that became unreachable without being closed.
func (r *Record) Collected() {
	if r == nil {
		return
	}
	mu.Lock()
	_, open := live[r]
	mu.Unlock()
	if open {
		fmt.Fprintf(os.Stderr, "pureverbs: %s was never closed; made at\n%s\n", r.what, r.stack)
	}
}

// Watch reports v if the garbage collector finds it before r.Done.
func Watch[T any](v *T, r *Record) {
	if r != nil {
		runtime.AddCleanup(v, (*Record).Collected, r)
	}
}

// Open returns the objects that are not closed, with the stacks that created them.
func Open() []string {
	mu.Lock()
	defer mu.Unlock()
	var list []string
	for r := range live {
		list = append(list, fmt.Sprintf("%s, made at\n%s", r.what, r.stack))
	}
	return list
}

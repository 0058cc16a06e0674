// Package leak remembers objects that must be closed, and where they were made.
//
// It costs nothing unless it is enabled: by PUREVERBS_LEAKS=1, then an object
// that the garbage collector finds unclosed is reported on standard error, or
// by a test's main, which fails when something is still open at its end.
package leak

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
)

var (
	enabled = os.Getenv("PUREVERBS_LEAKS") == "1"

	mu   sync.Mutex
	live = make(map[*Record]struct{})
)

// Enable starts tracking. It is called before anything is made, from TestMain.
func Enable() { enabled = true }

// Enabled tells whether objects are tracked.
func Enabled() bool { return enabled }

// Record is one object that is to be closed. A nil Record is a disabled one.
type Record struct {
	what  string
	stack []byte
}

// Track remembers an object until Done.
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

// Done says that the object was closed.
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

// Open lists what is not closed, with the stacks of their makers.
func Open() []string {
	mu.Lock()
	defer mu.Unlock()
	var list []string
	for r := range live {
		list = append(list, fmt.Sprintf("%s, made at\n%s", r.what, r.stack))
	}
	return list
}

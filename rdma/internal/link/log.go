package link

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/internal/foreign"
)

// logTime is how long the package waits for the handler of the log, which is the program's.
const logTime = 100 * time.Millisecond

var logging foreign.Calls

// Warn writes a line to a log: to l, or to the default if l is nil.
func Warn(l *slog.Logger, msg string, args ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), logTime)
	defer cancel()
	_ = logging.Wait(ctx.Done(), func() { // there is no other place to report its error
		cmp.Or(l, slog.Default()).Warn(msg, args...)
	})
}

// logInterval is the least time between two lines in the log about one thing.
const logInterval = time.Minute

// Lines decides when something that happens often is logged: the first time, and after that with all of at least a
// minute in one line.
type Lines struct {
	mu    sync.Mutex
	since uint64
	next  time.Time
}

// Due counts one more. It returns how many there were since the last line, or 0 if no line is due.
func (r *Lines) Due(now time.Time) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since++
	if now.Before(r.next) {
		return 0
	}
	n := r.since
	r.since, r.next = 0, now.Add(logInterval)
	return n
}

package rdma

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/pureverbs/pureverbs/internal/foreign"
)

// logTime is how long the package waits for the handler of the log, which is the program's.
const logTime = 100 * time.Millisecond

var logging foreign.Calls

// warn writes a line to a log: to l, or to the default if l is nil.
func warn(l *slog.Logger, msg string, args ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), logTime)
	defer cancel()
	_ = logging.Wait(ctx.Done(), func() { // there is no other place to report its error
		cmp.Or(l, slog.Default()).Warn(msg, args...)
	})
}

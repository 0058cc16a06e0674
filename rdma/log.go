package rdma

import (
	"context"
	"log/slog"
	"time"

	"github.com/pureverbs/pureverbs/internal/foreign"
)

// logTime is how long the package waits for the handler of the log, which is the program's.
const logTime = 100 * time.Millisecond

var logging foreign.Calls

// warn writes a line to the log.
func warn(msg string, args ...any) {
	ctx, cancel := context.WithTimeout(context.Background(), logTime)
	defer cancel()
	_ = logging.Wait(ctx.Done(), func() { slog.Warn(msg, args...) }) // there is no other place to report it
}

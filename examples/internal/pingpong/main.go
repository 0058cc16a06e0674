package pingpong

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a program until it ends or is interrupted. It does not return.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Close closes c and adds its error to *err. Deferred after the creation of each object, it closes
// them in reverse order, children before parents.
func Close(c io.Closer, err *error) {
	*err = errors.Join(*err, c.Close())
}

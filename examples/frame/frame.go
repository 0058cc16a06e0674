// Package frame has what most examples have around their calls: the help, the end by an interrupt, and the exit status.
// Its API is not stable.
package frame

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/rdma"
)

// Main is the main function of a program. Its flags are those of package flag, and synopsis has the forms of its
// command line, a line each. An interrupt ends the context of run. The exit status is 2 if the arguments are wrong, and
// 1 if run fails.
func Main(synopsis string, run func(ctx context.Context, out io.Writer) error) {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), synopsis)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends what does not return
	err := run(ctx, os.Stdout)
	// Close has waited for the peer's adapter. CloseIdle returns what connections share: emu --strict reports leaks.
	if err := errors.Join(err, rdma.CloseIdle()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", strings.Fields(synopsis)[0], err)
		os.Exit(1)
	}
}

// connection is an *rdma.Conn or an *rdma.Stream.
type connection[Addr any] interface {
	io.Closer
	RemoteAddr() Addr
}

// Serve serves the connections that accept returns, side by side, and closes each at its end. It prints what fails. It
// returns nil when ctx ends, which is how a server is meant to end.
func Serve[C connection[Addr], Addr any](ctx context.Context, accept func(context.Context) (C, error),
	serve func(context.Context, C) error) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		c, err := accept(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		clients.Go(func() {
			defer c.Close()
			if err := serve(ctx, c); err != nil && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "%v: %v\n", c.RemoteAddr(), err)
			}
		})
	}
}

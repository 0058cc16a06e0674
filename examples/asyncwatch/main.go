// Asyncwatch prints the asynchronous events of RDMA devices and ports, such as a link that goes
// down or a GID that changes, and their consequences, until it is interrupted.
//
//	asyncwatch                   # all devices
//	asyncwatch -d mlx5_0 -n 1    # wait for the next event of one
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/ibv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type options struct {
	devices []string
	events  int
	timeout time.Duration
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var opt options
	f := pflag.NewFlagSet("asyncwatch", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringSliceVarP(&opt.devices, "ib-dev", "d", nil, "`devices` to watch (default all)")
	f.IntVarP(&opt.events, "events", "n", 0, "end after this `number` of events (default: never)")
	f.DurationVarP(&opt.timeout, "timeout", "t", 0, "end after this `time`; with -n, too few events by then are a "+
		"failure")
	err := f.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, "asyncwatch [options]\n\n%s", f.FlagUsages())
		return 0
	case err == nil && f.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: name devices with -d", f.Arg(0))
	case err == nil && (opt.events < 0 || opt.timeout < 0):
		err = errors.New("-n and -t: want 0 or more")
	}
	if err != nil {
		fmt.Fprintf(stderr, "asyncwatch: %v\nasyncwatch -h lists the options\n", err)
		return 2
	}
	if err := watch(ctx, opt, stdout); err != nil {
		fmt.Fprintln(stderr, "asyncwatch:", err)
		return 1
	}
	return 0
}

// occurrence is an event, or the end, of one watcher.
type occurrence struct {
	device string
	event  ibv.AsyncEvent
	err    error
}

func watch(ctx context.Context, opt options, out io.Writer) (err error) {
	names := opt.devices
	if len(names) == 0 {
		devices, err := ibv.Devices()
		if err != nil {
			return err
		}
		for _, d := range devices {
			names = append(names, d.Name)
		}
		if len(names) == 0 {
			return ibv.ErrNoDevice
		}
	}
	if opt.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opt.timeout)
		defer cancel()
	}

	happened := make(chan occurrence)
	stop := make(chan struct{})
	defer close(stop)
	for _, name := range names {
		dev, openErr := ibv.Open(name)
		if openErr != nil {
			return openErr
		}
		// Close wakes the goroutine below from AsyncEvent.
		defer func() { err = errors.Join(err, dev.Close()) }()
		go func() {
			for {
				ev, err := dev.AsyncEvent(ctx)
				select {
				case happened <- occurrence{dev.Name(), ev, err}:
				case <-stop:
					return
				}
				if err != nil {
					return
				}
			}
		}()
		fmt.Fprintf(out, "watching %s\n", dev.Name())
	}

	for seen := 0; opt.events == 0 || seen < opt.events; seen++ {
		o := <-happened
		switch {
		case o.err != nil && ctx.Err() == nil:
			return o.err
		case o.err != nil && opt.events > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return fmt.Errorf("%d of %d events in %v", seen, opt.events, opt.timeout)
		case o.err != nil:
			return nil // interrupted, or time is up
		}
		fmt.Fprintf(out, "%s %v\n", time.Now().Format("15:04:05.000"), o.event)
		if o.event.Type == ibv.EventDeviceFatal {
			return fmt.Errorf("%s is gone", o.device)
		}
	}
	return nil
}

package layer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/rdma"
)

// serve is the server of one client: it takes part in the runs that the client asks for.
func serve(ctx context.Context, o *Options, opt *rdma.Options, hooks Hooks, res *Result) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(o.Bind, strconv.Itoa(o.Port)))
	if err != nil {
		return wire.ListenHint(err, "another server")
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	if hooks.Waiting != nil {
		hooks.Waiting(o.Port)
	}
	c, err := l.Accept()
	stop()
	l.Close()
	if err != nil {
		return cause(ctx, err)
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	res.Peer = c.RemoteAddr().String()
	ctl := newControl(c)
	for {
		var what order
		c.SetReadDeadline(time.Now().Add(o.Timeout)) // a connection without a request is not a client
		err := ctl.receive(&what)
		switch {
		case err == io.EOF && len(res.Runs) > 0:
			return nil
		case err == io.EOF:
			err = errors.New("the client sent no request; it is another program, or was stopped")
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = fmt.Errorf("no request from the client for %v; check that it runs the same test", o.Timeout)
		}
		if err != nil {
			return cause(ctx, err)
		}
		c.SetReadDeadline(time.Time{})
		run, err := o.serveRun(ctx, ctl, what, opt, res)
		if err != nil {
			err = cause(ctx, err)
			if err == io.EOF || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
				err = fmt.Errorf("the client closed the connection: %w", err)
			}
			_ = ctl.send(answer{Error: err.Error()}) // the client may be gone
			return err
		}
		res.Runs = append(res.Runs, run)
		if hooks.Run != nil {
			hooks.Run(run)
		}
	}
}

// serveRun takes part in a run.
func (o *Options) serveRun(ctx context.Context, ctl *control, what order, opt *rdma.Options, res *Result) (Run, error) {
	if err := what.check(); err != nil {
		return Run{}, err
	}
	if what.Carrier.raw() {
		return o.serveRaw(ctx, ctl, what)
	}
	w, ctx, done := newWork(ctx, what, o.Timeout)
	defer done()
	defer w.close()
	fail := func(err error) (Run, error) { return Run{}, cause(ctx, err) }
	host, _, err := net.SplitHostPort(ctl.conn.LocalAddr().String())
	if err != nil {
		return fail(err)
	}
	if o.Address != "" && what.Carrier != TCP {
		host = o.Address
	}
	l, err := listen(ctx, what.Carrier, host, opt)
	if err != nil {
		return fail(err)
	}
	defer l.close()
	if err := ctl.send(answer{Address: l.addr}); err != nil {
		return fail(err)
	}
	grown, err := w.connect(res, func() (pipe, error) { return l.accept(ctx) })
	if err != nil {
		return fail(err)
	}
	run := w.run()
	run.ServerMemory = grown()
	if err := ctl.send(answer{}); err != nil {
		return fail(err)
	}
	w.buffers()
	loop := w.loop(w.pong, w.receiveCopy, w.receive)
	if err := w.each(ctx, what.Warm, loop); err != nil {
		return fail(err)
	}
	before, start := now(w.engine()), time.Now()
	if err := ctl.send(answer{}); err != nil {
		return fail(err)
	}
	if err := w.each(ctx, what.Messages, loop); err != nil {
		return fail(err)
	}
	run = run.over(time.Since(start).Seconds())
	run.Server = w.used(before)
	return run, ctl.send(answer{Seconds: run.Seconds, Usage: run.Server, Memory: run.ServerMemory})
}

// serveRaw is the server of rdmaperf send.
func (o *Options) serveRaw(ctx context.Context, ctl *control, what order) (Run, error) {
	var told error
	run, err := raw(ctx, o, what, func(int) { told = ctl.send(answer{}) })
	if err = errors.Join(err, told); err != nil {
		return Run{}, err
	}
	run.Server, run.Client = run.Client, nil
	return run, ctl.send(answer{Usage: run.Server})
}

// cause returns why ctx has ended, if it has, or err.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

package layer

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma"
)

// Hooks let the caller follow a test; each may be nil.
type Hooks struct {
	Waiting func(port int) // a server listens
	Run     func(Run)      // one run is done
}

// Measure runs one test, as client or server, to its end. The Result is there even with an error, with what was
// measured before.
func Measure(ctx context.Context, o Options, hooks Hooks) (*Result, error) {
	res := &Result{Started: time.Now()}
	defer func() { res.Elapsed = time.Since(res.Started) }()
	opt := &rdma.Options{}
	if o.Device != "" || o.Spin != 0 || o.Block != 0 {
		e, err := rdma.NewEngine(o.Device, &rdma.EngineOptions{Spin: o.Spin, Block: o.Block})
		if err != nil {
			return res, err
		}
		defer e.Close()
		opt.Engine = e
	}
	defer rdma.CloseIdle()
	if !o.Client() {
		if opt.Engine == nil {
			if err := anyDevice(); err != nil { // the client's address shows which it is
				return res, err
			}
		}
		return res, serve(ctx, &o, opt, hooks, res)
	}
	return res, request(ctx, &o, opt, hooks, res)
}

// anyDevice returns why a server need not wait for a client.
func anyDevice() error {
	list, err := ibv.Devices()
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("no device on this host (rdmaperf doctor shows why): %w", ibv.ErrNoDevice)
	}
	return err
}

// request is the client: it has the server take part in each run.
func request(ctx context.Context, o *Options, opt *rdma.Options, hooks Hooks, res *Result) error {
	c, err := wire.DialTCP(ctx, wire.TCP, "", o.Host, o.Port, o.Timeout, o.Patience,
		fmt.Sprintf("no rdmaperf %s is waiting there for a client", o.Carrier))
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	res.Peer = c.RemoteAddr().String()
	ctl := newControl(c)
	for _, size := range o.sizes() {
		for round := range o.Rounds {
			carriers := append([]Carrier{o.Carrier}, o.Compare...)
			for i := range carriers {
				// The order alternates, so that none always finds the warmer machine.
				carrier := carriers[i]
				if round%2 == 1 {
					carrier = carriers[len(carriers)-1-i]
				}
				run, err := o.run(ctx, ctl, o.order(carrier, size), opt, res)
				if err != nil {
					return fmt.Errorf("%s, %d bytes: %w", carrier, size, cause(ctx, err))
				}
				run.Round = round
				res.Runs = append(res.Runs, run)
				if hooks.Run != nil {
					hooks.Run(run)
				}
			}
		}
	}
	return nil
}

// run runs an order.
func (o *Options) run(ctx context.Context, ctl *control, what order, opt *rdma.Options, res *Result) (Run, error) {
	if what.Carrier.raw() {
		return o.runRaw(ctx, ctl, what)
	}
	w, ctx, done := newWork(ctx, what, o.Timeout)
	defer done()
	defer w.close()
	// The end of the run also ends the wait for the server.
	defer context.AfterFunc(ctx, func() { ctl.conn.SetDeadline(time.Now()) })()
	fail := func(err error) (Run, error) { return Run{}, cause(ctx, err) }
	if err := ctl.send(what); err != nil {
		return fail(err)
	}
	at, err := ctl.answered()
	if err != nil {
		return fail(err)
	}
	if _, err := netip.ParseAddrPort(at.Address); err != nil {
		return fail(fmt.Errorf("the server's address: %w", err))
	}
	grown, err := w.connect(res, func() (pipe, error) { return dial(ctx, what.Carrier, at.Address, opt) })
	if err != nil {
		return fail(err)
	}
	if _, err = ctl.answered(); err != nil { // all are there
		return fail(err)
	}
	run := w.run()
	run.ClientMemory = grown()
	w.buffers()
	loop := w.loop(w.ping, w.sendCopy, w.send)
	if err := w.each(ctx, what.Warm, loop); err != nil {
		return fail(err)
	}
	if _, err = ctl.answered(); err != nil { // it is warm
		return fail(err)
	}
	before := now(w.engine())
	if err := w.each(ctx, what.Messages, loop); err != nil {
		return fail(err)
	}
	end, err := ctl.answered()
	if err != nil {
		return fail(err)
	}
	run.Client, run.Server, run.ServerMemory = w.used(before), end.Usage, end.Memory
	if what.Latency {
		s := w.lat.Summary()
		run.Lat = &s
	}
	return run.over(end.Seconds), nil
}

// runRaw runs rdmaperf send with the server.
func (o *Options) runRaw(ctx context.Context, ctl *control, what order) (Run, error) {
	if err := ctl.send(what); err != nil {
		return Run{}, err
	}
	if _, err := ctl.answered(); err != nil { // it listens
		return Run{}, err
	}
	run, err := raw(ctx, o, what, nil)
	if err != nil {
		return Run{}, err
	}
	end, err := ctl.answered()
	run.Server = end.Usage
	return run, err
}

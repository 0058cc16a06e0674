package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/deadline"
	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/ending"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// EngineOptions are those of package rdma, with its defaults, except that a Block of 0 is the default or more.
type EngineOptions struct {
	Block                  int
	Memory                 int64
	Spin                   time.Duration
	MaxConns, Pollers      int
	DataPath               ibv.DataPath
	MemOptions             ibv.MemOptions
	NoWindows, MustWindows bool // what leases are made of
	PD                     *ibv.PD
	OnEvent                func(ibv.AsyncEvent)
	Logger                 *slog.Logger
	Manual                 bool
}

// Engine has the objects that the connections of a device share.
type Engine struct {
	Owner     any // the program's
	Options   EngineOptions
	Device    *ibv.Device
	Attr      *ibv.DeviceAttr
	Sizes     ibv.QPOptions // of a connection's queue pair
	longest   int           // bytes of a message that the ports send
	PD        *ibv.PD
	NIC       nic.Adapter // nil before its PD
	Probe     nic.Memory  // see openProbe, or nil
	Budget    *blocks.Budget
	Messages  *blocks.Messages // that are being copied together
	Pool      *pool.Pool
	own       sync.Map // what the shards have that events name
	Windows   *windows // nil: each lease has its own MR
	scratches scratches
	Shards    []*Shard      // of EngineOptions.Pollers, then those of large blocks
	short     chan struct{} // has a token when some connection begins to wait for a block

	Allowance ending.Allowance    // of Close
	Foreign   foreign.Calls       // of functions of the program
	events    chan ibv.AsyncEvent // that wait for EngineOptions.OnEvent, which may not return; nil without
	crowded   Lines               // in the log, about connections that are compact

	Gone ending.Latch // the device is gone

	ctx    context.Context // ends with the engine
	stop   context.CancelFunc
	done   sync.WaitGroup // pollers, watcher, ticker
	Opened *leak.Record
}

// OpenEngine makes an engine on a device: see NewEngine of package rdma.
func OpenEngine(device string, o EngineOptions) (*Engine, error) {
	dev, err := o.device(device)
	if err != nil {
		return nil, err
	}
	e := &Engine{Device: dev}
	if err := e.begin(o); err != nil {
		return nil, &ibv.OpError{Op: "new engine", Object: device, Err: err}
	}
	e.done.Go(func() { e.watch(e.ctx) })
	return e, nil
}

// OpenMemory makes an engine without a device. Engines with the same adapter can be connected.
func OpenMemory(mem *inmem.Adapter, o EngineOptions) (*Engine, error) {
	e := &Engine{NIC: nic.InMemory(mem), Attr: &ibv.DeviceAttr{MaxSRQ: 1, MaxSRQWR: 1 << 15, MaxQPWR: 1 << 15,
		MaxCQE: 1 << 22, AtomicCap: ibv.AtomicHCA}}
	if mem.Transport() == ibv.TransportIWARP {
		e.Attr.MaxSRQ, e.Attr.AtomicCap = 0, ibv.AtomicNone
	}
	return e, e.begin(o)
}

// Name returns the name of the engine's device, for errors.
func (e *Engine) Name() string {
	if e.Device == nil {
		return nic.PipeName
	}
	return e.Device.Name()
}

// begin makes the parts of an engine, and starts its goroutines, except for the one that reads a device's events.
func (e *Engine) begin(o EngineOptions) error {
	e.Options = o
	if err := e.readDevice(&o); err != nil {
		return errors.Join(err, e.release())
	}
	large := o.hasLarge() && e.longest > LargeBlock+wire.HeaderLen
	o.Block = cmp.Or(o.Block, DefaultBlock)
	e.Options, e.Budget = o, blocks.NewBudget(o.Memory, SlabSize)
	e.short = make(chan struct{}, 1)
	e.Pool = pool.New(e, pool.Options{Memory: o.Memory, Slab: SlabSize, Budget: e.Budget,
		Huge: o.MemOptions.HugePages != ibv.HugeNone})
	e.Messages = blocks.NewMessages(e.Budget, e.trimNow)
	if err := e.openShards(large); err != nil {
		return errors.Join(err, e.release())
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	if !o.Manual {
		for _, s := range e.Shards {
			s.start = func() { e.done.Go(func() { s.Progress.Run(e.ctx) }) }
		}
		for _, s := range e.Shards[:o.Pollers] {
			s.start()
		}
	}
	e.done.Go(func() { e.tick(e.ctx) })
	e.Opened = leak.Track("engine of " + e.Name())
	return nil
}

// release closes the engine's objects.
func (e *Engine) release() error {
	errs := []error{e.Windows.release(), e.scratches.release()}
	if e.Pool != nil {
		errs = append(errs, e.Pool.Release())
	}
	for _, s := range e.Shards {
		errs = append(errs, s.closeShard())
	}
	if e.Probe != nil {
		errs = append(errs, e.Probe.Close())
	}
	if e.Options.PD != nil {
		sharedDevices.Delete(e.Device)
		return errors.Join(errs...)
	}
	if e.PD != nil {
		errs = append(errs, e.PD.Close())
	}
	if e.Device != nil {
		errs = append(errs, e.Device.Close())
	}
	return errors.Join(errs...)
}

// sharedDevices are those of engines with EngineOptions.PD.
var sharedDevices sync.Map // *ibv.Device

// device opens the device, or returns that of the PD.
func (o *EngineOptions) device(name string) (*ibv.Device, error) {
	if o.PD == nil {
		return ibv.Open(name)
	}
	dev := o.PD.Device()
	fail := func(err error) (*ibv.Device, error) {
		return nil, &ibv.OpError{Op: "new engine", Object: dev.Name(), Err: err}
	}
	if name != "" && name != dev.Name() {
		return fail(&ibv.ArgError{Arg: "device", Got: name, Want: dev.Name() + ", the device of EngineOptions.PD"})
	}
	if _, used := sharedDevices.LoadOrStore(dev, true); used {
		return fail(&ibv.ArgError{Arg: "PD", Got: "one of a Device that another engine shares",
			Want: "that engine, or a PD of another Device of ibv.Open"})
	}
	return dev, nil
}

// Close closes the engine, unless something is in use. It waits for connections that were closed.
func (e *Engine) Close() error {
	lingering, closed, err := e.end()
	for ; len(lingering) > 0; lingering, closed, err = e.end() {
		for _, l := range lingering {
			<-l.End.Gone()
		}
	}
	if closed || err != nil {
		return err
	}
	e.stop()
	e.done.Wait()
	for _, s := range e.Shards {
		s.Progress.Stop()
	}
	e.Opened.Done()
	return e.release()
}

// end lets no more connections begin, unless something is in use. It reports whether that was so before. If some were
// closed and have not ended, it returns these: the caller waits for them, without a lock, and tries again.
func (e *Engine) end() (lingering []*Link, closed bool, err error) {
	busy := func(n int, what string) ([]*Link, bool, error) {
		return nil, false, &ibv.OpError{Op: "close", Object: "engine of " + e.Name(),
			Err: &ibv.BusyError{Children: []string{fmt.Sprintf("%d %s", n, what)}}}
	}
	open, packets, held := 0, 0, 0
	for _, s := range e.Shards {
		s.cqMu.Lock() // no connection begins meanwhile
		defer s.cqMu.Unlock()
		conns, sockets, closed := s.Members.open()
		open, packets, lingering = open+conns, packets+sockets, append(lingering, closed...)
	}
	switch {
	case open > 0:
		return busy(open, "connections")
	case packets > 0:
		return busy(packets, "sockets for datagrams")
	case len(lingering) > 0:
		return lingering, false, nil
	}
	for _, s := range e.Shards {
		held += s.Blocks.Counts().Held
	}
	if held > 0 {
		return busy(held, "blocks of messages that were not released")
	}
	if n := e.Pool.Close(); n > 0 {
		return busy(n, "buffers that were not released")
	}
	for _, s := range e.Shards {
		closed = s.Members.closed.Swap(true)
	}
	return nil, closed, nil
}

// ErrGone means that the device, or the engine's CQ on it, is unusable.
var ErrGone = errors.New("the engine's device or CQ has failed: close its connections and the engine, and make a " +
	"new one")

// Broken reports whether the device, or a CQ on it, has failed.
func (e *Engine) Broken() bool { return deadline.IsClosed(e.Gone.Done()) }

// Closed reports whether the engine was closed.
func (e *Engine) Closed() bool { return e.Shards[0].Members.closed.Load() }

// trimNow is trim for a caller that may have locks: what is locked at the moment is left.
func (e *Engine) trimNow() bool { return e.Trim(false) }

// Trim frees memory that nobody uses, of buffers and of blocks, and reports whether there was some. With wait it also
// frees what is locked at the moment, and returns after others that trim.
func (e *Engine) Trim(wait bool) bool {
	freed := e.Pool.Trim(wait)
	for _, s := range e.Shards {
		freed = s.trim(wait) || freed
	}
	return freed
}

// all returns the connections.
func (e *Engine) all() []*Link {
	var list []*Link
	for _, s := range e.Shards {
		list = s.Members.Append(list)
	}
	return list
}

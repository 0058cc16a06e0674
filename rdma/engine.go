package rdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/foreign"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/ending"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// EngineOptions configure NewEngine. The zero value selects the defaults.
type EngineOptions struct {
	// Block is the most payload of a frame, 1 KiB to 1 MiB, in bytes, a multiple of 64. With larger ones writes of that
	// size take less processor time; a connection begins with two, and a message takes at least one. 0 means 32 KiB,
	// and 256 KiB for streams while half of Memory has room for them (61 by default), unless Manual is set.
	Block int

	// Memory is the most bytes of blocks, buffers, and long messages while they arrive. One such message may exceed it.
	// Memory is registered as needed. 0 means 256 MiB; the least is 4 MiB for each poller. A connection has 2 KiB more
	// for atomics, and on devices that take no inline data.
	Memory int64

	Spin       time.Duration  // how long a caller polls for a reply before it sleeps; 0 means 100 µs, None never
	MaxConns   int            // most connections; a PacketConn counts as 5; 0 means 4096
	Pollers    int            // up to 64, each with its CQ, SRQ, part of the blocks, and connections; 0 means 1
	DataPath   ibv.DataPath   // of its CQ
	MemOptions ibv.MemOptions // memory of blocks and buffers; blocks have huge pages if they can
	LeaseKeys  LeaseKeys      // what leases are made of; 0 means windows where that is safe

	// Mem is MemOptions.
	//
	// Deprecated: Use MemOptions.
	Mem ibv.MemOptions

	// PD is a protection domain of the program, whose own memory regions and queue pairs share it with the engine. nil
	// means a new one, on a Device that the engine opens. The program closes the PD and its Device after the engine.
	//
	// The engine reads the asynchronous events of the Device, so the program must not call Device.AsyncEvent. OnEvent,
	// if it is not nil, gets the events of the program's objects, of ports and of the device, in their order and one at
	// a time, on a goroutine of its own. While it does not return, up to 1,024 events wait for it; later ones are
	// dropped. Close does not wait for it. Only one engine at a time shares a Device.
	PD      *ibv.PD
	OnEvent func(ibv.AsyncEvent)

	// Logger gets the lines about the engine. nil means slog.Default.
	Logger *slog.Logger

	// Manual engines have no poller: for programs with a loop of their own, which calls Engine.Poll.
	// A method that waits also polls, and after Spin without a completion every 100 µs. While no goroutine polls,
	// nothing arrives and nothing is acknowledged.
	Manual bool
}

const (
	defaultBlock    = 32 << 10
	defaultSpin     = 100 * time.Microsecond
	defaultMemory   = 256 << 20
	defaultMaxConns = 4096
	maxPollers      = 64
)

func (o EngineOptions) withDefaults() EngineOptions {
	o.Block = cmp.Or(o.Block, defaultBlock)
	o.Memory = cmp.Or(o.Memory, defaultMemory)
	o.MaxConns = cmp.Or(o.MaxConns, defaultMaxConns)
	o.Pollers = cmp.Or(o.Pollers, 1)
	o.Spin = cmp.Or(o.Spin, defaultSpin)
	o.MemOptions = cmp.Or(o.MemOptions, o.Mem)
	return o
}

func (o *EngineOptions) check() error {
	var errs []error
	bad := func(arg string, got any, want string) {
		errs = append(errs, &ibv.ArgError{Arg: arg, Got: fmt.Sprint(got), Want: want})
	}
	if o.Block < wire.MinBlock || o.Block > wire.MaxBlock || o.Block%64 != 0 {
		bad("Block", o.Block, fmt.Sprintf("%d to %d, a multiple of 64", wire.MinBlock, wire.MaxBlock))
	}
	if least := int64(max(o.Pollers, 1)) * int64(o.slabs(1+startWindow)) * slabSize; o.Memory < least {
		bad("Memory", o.Memory, fmt.Sprintf("%d or more", least))
	}
	errs = append(errs, positive("Spin", o.Spin), renamed("Mem", o.Mem, "MemOptions", o.MemOptions))
	if o.MaxConns < 1 || o.MaxConns > 1<<20 {
		bad("MaxConns", o.MaxConns, fmt.Sprintf("1 to %d", 1<<20))
	}
	if o.Pollers < 1 || o.Pollers > maxPollers {
		bad("Pollers", o.Pollers, fmt.Sprintf("1 to %d", maxPollers))
	}
	if o.LeaseKeys > KeysWindow {
		bad("LeaseKeys", o.LeaseKeys, "KeysAuto, KeysMR or KeysWindow")
	}
	if o.Manual && o.Pollers > 1 {
		bad("Pollers", o.Pollers, "1 with Manual")
	}
	return errors.Join(errs...)
}

// slabs is how many slabs have blocks to post n of them.
func (o *EngineOptions) slabs(n int) int {
	k := 1
	for perSlab := max(slabSize/(o.Block+headroom), 1); blocks.ForReceives(k*perSlab) < n; k++ {
	}
	return k
}

// Engine has the objects that the connections of a device share: a PD, an SRQ of blocks, a CQ, and a poller goroutine,
// which takes over when no waiting caller is polling. No connection can be stalled by another's goroutines.
//
// It belongs to the caller and is safe for concurrent use. Connections without an engine share one
// for each device, which is made at first use and closed by CloseIdle.
type Engine struct {
	opt       EngineOptions
	dev       *ibv.Device
	attr      *ibv.DeviceAttr
	sizes     ibv.QPOptions // of a connection's queue pair
	longest   int           // bytes of a message that the ports send
	pd        *ibv.PD
	nic       nic.Adapter // nil before its PD
	probe     nic.Memory  // see openProbe, or nil
	budget    *blocks.Budget
	messages  *blocks.Messages // that are being copied together
	pool      *pool.Pool
	view      Pool     // of pool
	own       sync.Map // what the shards have that events name
	windows   *windows // nil: each lease has its own MR
	scratches scratches
	shards    []*shard      // of EngineOptions.Pollers, then those of large blocks
	short     chan struct{} // has a token when some connection begins to wait for a block

	allowance ending.Allowance // of Close
	foreign   foreign.Calls    // of functions of the program
	events    eventQueue       // for EngineOptions.OnEvent
	crowded   lines            // in the log, about connections that are compact

	mu     sync.Mutex
	gone   chan struct{} // closed when the device is gone
	isGone bool

	ctx    context.Context // ends with the engine
	stop   context.CancelFunc
	done   sync.WaitGroup // pollers, watcher, ticker
	opened *leak.Record
}

// NewEngine makes an engine on a device; an empty name means the one of EngineOptions.PD, or the first one with an
// active port. opt may be nil.
func NewEngine(device string, opt *EngineOptions) (*Engine, error) {
	var o EngineOptions
	if opt != nil {
		o = *opt
	}
	full := o.withDefaults()
	if err := full.check(); err != nil {
		return nil, &ibv.OpError{Op: "new engine", Object: device, Err: err}
	}
	dev, err := o.device(device)
	if err != nil {
		return nil, err
	}
	e := &Engine{dev: dev}
	if err := e.begin(o); err != nil {
		return nil, &ibv.OpError{Op: "new engine", Object: device, Err: err}
	}
	e.done.Go(func() { e.watch(e.ctx) })
	return e, nil
}

// name returns the name of the engine's device, for errors.
func (e *Engine) name() string {
	if e.dev == nil {
		return nic.PipeName
	}
	return e.dev.Name()
}

// begin makes the parts of an engine, and starts its goroutines, except for the one that reads a device's events.
func (e *Engine) begin(o EngineOptions) error {
	e.opt = o
	if err := e.readDevice(&o); err != nil {
		return errors.Join(err, e.release())
	}
	large := o.hasLarge() && e.longest > largeBlock+wire.HeaderLen
	o = o.withDefaults()
	e.opt, e.budget = o, blocks.NewBudget(o.Memory, slabSize)
	e.short, e.gone = make(chan struct{}, 1), make(chan struct{})
	e.pool = newPool(e)
	e.view = Pool{e.pool}
	e.messages = blocks.NewMessages(e.budget, e.trimNow)
	if err := e.openShards(large); err != nil {
		return errors.Join(err, e.release())
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	if !o.Manual {
		for _, s := range e.shards {
			s.start = func() { e.done.Go(func() { s.progress.Run(e.ctx) }) }
		}
		for _, s := range e.shards[:o.Pollers] {
			s.start()
		}
	}
	e.done.Go(func() { e.tick(e.ctx) })
	e.opened = leak.Track("engine of " + e.name())
	return nil
}

// release closes the engine's objects.
func (e *Engine) release() error {
	errs := []error{e.windows.release(), e.scratches.release()}
	if e.pool != nil {
		errs = append(errs, e.pool.Release())
	}
	for _, s := range e.shards {
		errs = append(errs, s.closeShard())
	}
	if e.probe != nil {
		errs = append(errs, e.probe.Close())
	}
	if e.opt.PD != nil {
		sharedDevices.Delete(e.dev)
		return errors.Join(errs...)
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Close())
	}
	if e.dev != nil {
		errs = append(errs, e.dev.Close())
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

// Device returns the device of the engine, or nil for that of a [Pipe].
func (e *Engine) Device() *ibv.Device { return e.dev }

// Close closes the engine. While connections are open, or messages or buffers are not released, it fails
// with an *ibv.BusyError. It waits for connections that were closed and still have something to send.
func (e *Engine) Close() error {
	busy := func(n int, what string) error {
		return &ibv.OpError{Op: "close", Object: "engine of " + e.name(),
			Err: &ibv.BusyError{Children: []string{fmt.Sprintf("%d %s", n, what)}}}
	}
	closed, err := e.end(busy)
	if closed || err != nil {
		return err
	}
	e.stop()
	e.done.Wait()
	for _, s := range e.shards {
		s.progress.Stop()
	}
	e.opened.Done()
	return e.release()
}

// end lets no more connections begin, unless something is in use. It reports whether that was so before. It waits for
// connections that were closed, and holds no lock meanwhile.
func (e *Engine) end(busy func(n int, what string) error) (closed bool, err error) {
	for {
		lingering, closed, err := e.tryEnd(busy)
		if len(lingering) == 0 {
			return closed, err
		}
		for _, l := range lingering {
			<-l.end.Gone()
		}
	}
}

// tryEnd is end, but returns the connections that were closed and have not ended, instead of waiting for them.
func (e *Engine) tryEnd(busy func(n int, what string) error) (lingering []*link, closed bool, err error) {
	open, packets, held := 0, 0, 0
	for _, s := range e.shards {
		s.cqMu.Lock() // no connection begins meanwhile
		defer s.cqMu.Unlock()
		conns, sockets, closed := s.members.open()
		open, packets, lingering = open+conns, packets+sockets, append(lingering, closed...)
	}
	switch {
	case open > 0:
		return nil, false, busy(open, "connections")
	case packets > 0:
		return nil, false, busy(packets, "sockets for datagrams")
	case len(lingering) > 0:
		return lingering, false, nil
	}
	for _, s := range e.shards {
		held += s.blocks.Counts().Held
	}
	if held > 0 {
		return nil, false, busy(held, "blocks of messages that were not released")
	}
	if n := e.pool.Close(); n > 0 {
		return nil, false, busy(n, "buffers that were not released")
	}
	for _, s := range e.shards {
		closed = s.members.close()
	}
	return nil, closed, nil
}

// errGone means that the device, or the engine's CQ on it, is unusable.
var errGone = errors.New("the engine's device or CQ has failed: close its connections and the engine, and make a " +
	"new one")

func (e *Engine) broken() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.isGone
}

func (e *Engine) closed() bool { return e.shards[0].members.isClosed() }

// trimNow is trim for a caller that may have locks: what is locked at the moment is left.
func (e *Engine) trimNow() bool { return e.trim(false) }

// trim frees memory that nobody uses, of buffers and of blocks, and reports whether there was some. With wait it also
// frees what is locked at the moment, and returns after others that trim.
func (e *Engine) trim(wait bool) bool {
	freed := e.pool.Trim(wait)
	for _, s := range e.shards {
		freed = s.trim(wait) || freed
	}
	return freed
}

// all returns the connections.
func (e *Engine) all() []*link {
	var list []*link
	for _, s := range e.shards {
		list = s.members.append(list)
	}
	return list
}

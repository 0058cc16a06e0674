package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
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
	defaultSpin     = 100 * time.Microsecond
	defaultMemory   = 256 << 20
	defaultMaxConns = 4096
	maxPollers      = 64
)

func (o EngineOptions) withDefaults() EngineOptions {
	o.Block = cmp.Or(o.Block, link.DefaultBlock)
	o.Memory = cmp.Or(o.Memory, defaultMemory)
	o.MaxConns = cmp.Or(o.MaxConns, defaultMaxConns)
	o.Pollers = cmp.Or(o.Pollers, 1)
	o.Spin = cmp.Or(o.Spin, defaultSpin)
	return o
}

// inner returns the options of an engine, or what is wrong with o, which may be nil.
func (o *EngineOptions) inner() (link.EngineOptions, error) {
	o = cmp.Or(o, &EngineOptions{})
	full := o.withDefaults()
	return link.EngineOptions{Block: o.Block, Memory: full.Memory, Spin: full.Spin, MaxConns: full.MaxConns,
		Pollers: full.Pollers, DataPath: o.DataPath, MemOptions: full.MemOptions, NoWindows: o.LeaseKeys == KeysMR,
		MustWindows: o.LeaseKeys == KeysWindow, PD: o.PD, OnEvent: o.OnEvent, Logger: o.Logger, Manual: o.Manual,
	}, full.check()
}

func (o *EngineOptions) check() error {
	least := link.LeastMemory(max(o.Block, 1), max(o.Pollers, 1))
	return errors.Join(
		refuse(o.Block < wire.MinBlock || o.Block > wire.MaxBlock || o.Block%64 != 0, "Block", o.Block,
			fmt.Sprintf("%d to %d, a multiple of 64", wire.MinBlock, wire.MaxBlock)),
		refuse(o.Memory < least, "Memory", o.Memory, fmt.Sprintf("%d or more", least)),
		positive("Spin", o.Spin),
		refuse(o.MaxConns < 1 || o.MaxConns > 1<<20, "MaxConns", o.MaxConns, fmt.Sprintf("1 to %d", 1<<20)),
		refuse(o.Pollers < 1 || o.Pollers > maxPollers, "Pollers", o.Pollers, fmt.Sprintf("1 to %d", maxPollers)),
		refuse(o.LeaseKeys > KeysWindow, "LeaseKeys", o.LeaseKeys, "KeysAuto, KeysMR or KeysWindow"),
		refuse(o.Manual && o.Pollers > 1, "Pollers", o.Pollers, "1 with Manual"))
}

// Engine has the objects that the connections of a device share: a PD, an SRQ of blocks, a CQ, and a poller goroutine,
// which takes over when no waiting caller is polling. No connection can be stalled by another's goroutines.
//
// It belongs to the caller and is safe for concurrent use. Connections without an engine share one
// for each device, which is made at first use and closed by CloseIdle.
type Engine struct {
	e    *link.Engine
	view Pool // of its buffers
}

// NewEngine makes an engine on a device; an empty name means the one of EngineOptions.PD, or the first one with an
// active port. opt may be nil.
func NewEngine(device string, opt *EngineOptions) (*Engine, error) {
	o, err := opt.inner()
	if err != nil {
		return nil, &ibv.OpError{Op: "new engine", Object: device, Err: err}
	}
	e, err := link.OpenEngine(device, o)
	if err != nil {
		return nil, err
	}
	return engineOf(e), nil
}

// engineOf makes the Engine of the program.
func engineOf(in *link.Engine) *Engine {
	e := &Engine{in, Pool{in.Pool}}
	in.Owner = e
	return e
}

// Device returns the device of the engine, or nil for that of a [Pipe].
func (e *Engine) Device() *ibv.Device { return e.e.Device }

// Close closes the engine. While connections are open, or messages or buffers are not released, it fails
// with an *ibv.BusyError. It waits for connections that were closed and still have something to send.
func (e *Engine) Close() error { return e.e.Close() }

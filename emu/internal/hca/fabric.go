//go:build linux

package hca

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/config"
)

// Fabric is all emulated devices and the wire between them. Its lock guards everything reachable from it; methods of
// this package want it held.
type Fabric struct {
	sync.Mutex
	Config   *config.Config
	Devices  []*Device
	Engine   Engine
	Watch    Watcher
	xrcds    map[xrcdKey]*XRCD
	nextCtx  int
	nextXRCD uint32
	pinned   map[int]uint64 // bytes registered, by process
}

// Engine executes work requests. The device model calls it, lock held, for each change that matters to it.
type Engine interface {
	UARAdded(*UAR)
	UARRemoved(*UAR)
	QPCreated(*QP)
	// QPLeaves comes before a QP is reset or destroyed: doorbells that were rung before the command arrive before it.
	QPLeaves(*QP)
	// QPModified comes after qp.State and qp.Attr hold the new values. To ERR: flush; to RESET: forget all; to RTR,
	// RTS: look for work.
	QPModified(qp *QP, from, to QPState)
	// QPDestroyed comes when no new work may start; nothing of the QP may be touched afterwards.
	QPDestroyed(*QP)
	// StreamReset takes a stream of a DCI out of its error.
	StreamReset(qp *QP, stream uint16)
	CQCreated(*CQ)
	CQDestroyed(*CQ)
	// CQUnpolled returns how many completions the program has not polled.
	CQUnpolled(*CQ) uint32
	// CQResized comes when cq.Buf, cq.Entries and cq.CQESize are new ones and the RESIZE_CQ completion is to be written
	// into the OLD ring.
	CQResized(cq *CQ, oldBuf uint64, oldEntries, oldSize uint32)
	SRQCreated(*SRQ)
	SRQDestroyed(*SRQ)
	SRQLimitArmed(*SRQ)
	KeyRevoked(*MKey)
	PortChanged(*Port)
}

// Watcher gets, lock held, what strict mode, the trace and fault injection want to know. All methods may be called with
// nil-valued fields.
type Watcher interface {
	// Command comes before a verb is executed; an errno other than 0 is the injected answer, a Reply how it is spoiled.
	Command(c *Context, name string) (unix.Errno, Reply)
	// Violation reports what hardware would punish, or a latent bug of the program.
	Violation(pid int, rule, detail string)
	// Event is one asynchronous event that was put on a context's event file.
	Event(c *Context, typ EventType, element uint64)
}

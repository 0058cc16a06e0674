//go:build linux

package hca

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/config"
	"github.com/pureverbs/pureverbs/internal/emu/guest"
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
	CQCreated(*CQ)
	CQDestroyed(*CQ)
	// CQUnpolled is how many completions the program has not polled.
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
	// Command comes before a verb is executed; an errno other than 0 is the injected answer.
	Command(c *Context, name string) unix.Errno
	// Violation reports what hardware would punish, or a latent bug of the program.
	Violation(pid int, rule, detail string)
	// Event is one asynchronous event that was put on a context's event file.
	Event(c *Context, typ EventType, element uint64)
}

// Device is one emulated adapter.
type Device struct {
	Fabric   *Fabric
	Config   *config.Device
	Index    int // N of uverbsN
	Ports    []*Port
	Contexts map[int]*Context
	Gone     bool // removed: commands answer EIO

	qps    []*QP   // by QPN - FirstQPN
	keys   []*MKey // by key >> 8
	cqs    []*CQ   // by CQN
	srqs   []*SRQ  // by SRQN
	groups map[[16]byte][]*QP

	nextQP, nextKey, nextCQ, nextSRQ, pds                 int   // where to look for a free number
	variant                                               uint8 // low byte of the next key
	liveQPs, liveCQs, liveSRQs, liveMRs, liveMWs, livePDs int
}

// Port is one port of a device. Number counts from 1.
type Port struct {
	Device *Device
	Number int
	Config *config.Port
	Active bool
	Count  [Counters]uint64
}

// Context is one open device file, from open to release.
type Context struct {
	Device *Device
	ID     int
	PID    int       // thread group that opened it
	Mem    guest.Mem // its address space
	File   *guest.File
	Async  *guest.Pipe
	UARs   []*UAR // index = page index handed to the program; nil = free
	Ready  bool   // GET_CONTEXT was answered
	Ends   bool   // its process ends by itself, not by a signal

	Registers  *Registers // nil for a library that allocates UARs
	CQEVersion uint8      // 0: a CQE says nothing of the user index, but has the SRQN of a receive

	objects  map[uint32]any // by handle
	channels map[string]*CompChannel
	next     uint32
	Dead     bool
}

// UAR is one page of doorbell registers, shared with the program.
type UAR struct {
	Context *Context
	Handle  uint32
	Index   int
	Page    []byte // 4096 bytes, mapped shared
	Kind    uint32 // 0 BlueFlame, 1 non-cached
	QPs     []*QP
	Run     UARRun

	at     int64 // page of the file
	mapped bool  // of a register's page: the program has mapped it there
}

// CompChannel is the event file that completions are announced on.
type CompChannel struct {
	Context *Context
	Pipe    *guest.Pipe
	refs    int
}

// PD is a protection domain. C: struct ib_pd.
type PD struct {
	Context *Context
	Handle  uint32
	Num     uint32 // PDN
	refs    int
}

// XRCD is an XRC domain; contexts that open the same file share it.
type XRCD struct {
	Device *Device
	Num    uint32
	key    xrcdKey
	named  bool
	refs   int // handles
	users  int // QPs and SRQs
}

type xrcdKey struct {
	device   int
	dev, ino uint64
}

// AH is an address handle.
type AH struct {
	PD     *PD
	Handle uint32
	Attr   AHAttr
}

package session

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/memory"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/place"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
	"github.com/pureverbs/pureverbs/ibv"
)

// Session holds all that a test has open.
type Session struct {
	plan    plan.Plan
	ctx     context.Context
	alone   uint64 // bytes of memory that the plan takes before a peer asks for more
	shelf   *Shelf // nil: the device and memory are this session's alone
	way     way
	strange func(addr string, why error)
	setup   Setup // Setup.Local.Inline and Setup.OutReads are the values that the session uses

	place place.Place
	unpin func()

	dev  *ibv.Device
	attr *ibv.DeviceAttr
	port *ibv.PortAttr
	mtu  ibv.MTU

	*wire.Conn // the exchange with the peer; nil: there is none
	terms      wire.Agreed

	pd             *ibv.PD
	mrs            []*memory.Memory // one, or one for each queue pair
	slot           uint64           // bytes of one send or receive area
	credits        *ibv.MR          // of all queue pairs; nil: messages need none
	cqs            []queues         // of each thread
	qps            []*ibv.QP
	ahs            []*ibv.AH // UD, DC
	xrcd           *ibv.XRCD // XRC
	srq            *ibv.SRQ  // of receives that are shared
	srqn           uint32    // its number, XRC
	own            []wire.Dest
	group, unicast ibv.GID // of a member of a group
	peer           []wire.Dest
}

// queues are the CQs of one thread, which no other thread polls. Both are one where nothing is received.
type queues struct{ send, recv *ibv.CQ }

// Side describes one end of a test.
type Side struct {
	Device    string // empty for the peer, and before the queue pairs are connected
	Firmware  string
	Port      uint8
	LinkLayer string
	RateGbps  float64 // 0: not known
	DataPath  string
	Native    bool // the control path uses no C library
	LID       uint16
	GIDIndex  int // -1: none
	GID       string
	MTU       int    // bytes, of the path
	ActiveMTU int    // of the port
	Inline    int    // bytes; plan.Auto before the queue pairs are made
	Software  string // the note about a device that is none, "" for a NIC
	IWARP     bool
}

// Setup has the values that the two ends and their devices agreed on.
type Setup struct {
	Local       Side
	Place       place.Place
	OutReads    int // outstanding reads
	PeerAddress string
	PeerVersion string
	PeerOurs    bool
	PeerGID     string
	PeerLID     uint16
	UsesGID     bool        // the ends address each other by GIDs
	Own, Theirs []wire.Dest // the queue pairs of this end and of the peer
	RDMACM      bool
	QPs         int  // as this end's plan has them, or as its peer asked
	Infinite    bool // the same
}

// Shelf keeps a device and ordinary memory open between the sessions of one process, which is for many short tests. One
// session at a time may have it; others open their own.
type Shelf struct {
	mu    sync.Mutex
	used  bool
	name  string // of the device, as it was asked for
	dev   *ibv.Device
	tried map[trial]bool
	gids  map[uint8]int // the best one of each port
	pd    *ibv.PD
	mem   map[room]*memory.Memory
}

// room is memory that serves one session as well as another one.
type room struct {
	size   uint64
	access ibv.AccessFlags
	node   ibv.NUMA
}

// trial is a kind of queue pair that the device has made.
type trial struct {
	qps, depth, receives, inline int
	verb                         any
	transport                    any
}

// way is how the two ends meet and connect: by sockets, or by rdma_cm.
type way interface {
	// meet meets the peer, sets conn, and opens the device. waiting gets the port on which a server listens.
	meet(waiting func(port int)) error
	// makeQPs makes the queue pairs, and what the peer has to know of them.
	makeQPs(ibv.QPOptions) error
	// bringUp connects them to those that the peer has announced.
	bringUp() error
	// toward returns the destination of the datagrams of a queue pair, nil if the keys have it.
	toward(i int) *reach
	// describe adds what it knows to the setup.
	describe()
	// lost returns why the connection of a queue pair is gone, with its number, or nil.
	lost() (pair int, why error)
	// closeQPs closes the queue pairs.
	closeQPs() error
	// closeListener ends the refusal of further clients.
	closeListener() error
}

// reach is where the datagrams of a queue pair go.
type reach struct {
	ah        *ibv.AH
	qpn, qkey uint32
}

// inOrder takes steps until one fails.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// closeEach closes those that are there.
func closeEach[T interface {
	comparable
	io.Closer
}](list ...T) error {
	var none T
	var errs []error
	for _, c := range list {
		if c != none {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// Package nic has what connections need of an adapter: registered memory, completion queues and the queue pairs of
// connections. There are two adapters: a device, and for pipes the memory of this process.
package nic

import (
	"context"
	"net/netip"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/inmem"
	"github.com/pureverbs/pureverbs/rdma/internal/progress"
)

// Memory is registered memory.
type Memory interface {
	blocks.Memory
	Len() int
	Remote() ibv.RemoteMemory
}

// Adapter registers memory and makes completion queues.
type Adapter interface {
	// Alloc registers n bytes of its own.
	Alloc(n int, access ibv.AccessFlags, opt *ibv.MemOptions) (Memory, error)
	// Register registers memory of the caller.
	Register(p []byte, access ibv.AccessFlags) (Memory, error)
	// Again registers memory at addr once more, with addresses that begin with iova if the library can.
	Again(p []byte, addr, iova uint64, access ibv.AccessFlags) (Memory, error)
	// NewCQ returns a CQ without completions until Open. handle gets those that Poll takes.
	NewCQ(handle func([]ibv.WC)) CQ
	Transport() ibv.TransportType
}

// CQOptions are those of a CQ.
type CQOptions struct {
	DataPath ibv.DataPath
	Vector   int
	Manual   bool // its events are read by WaitEvent only
}

// CQ is a completion queue, and makes the queue of receives that goes with it.
type CQ interface {
	progress.Source
	// Open makes room for n completions.
	Open(n int, o CQOptions) error
	Resize(n int) error
	// OpenReceives makes a queue of receives for several connections.
	OpenReceives(depth int) (*Receives, error)
	// Close closes the CQ, if it is open.
	Close() error
	// Device returns the CQ of a device, or nil.
	Device() *ibv.CQ
	// Carrier describes what carries the data, such as "rdma mlx5_0 Direct".
	Carrier() string
}

// ReadsMost is how many reads and atomics are under way.
const ReadsMost = 16

// Conn is a connection's queue pair and the way to its end.
type Conn interface {
	Num() uint32
	Cap() ibv.QPCap
	// Queue returns what posts to the queue pair.
	Queue() Queue
	// Allow sets what the peer may do with memory.
	Allow(access ibv.AccessFlags) error
	// Reads returns how many reads and atomics may be under way.
	Reads() int
	// Unused reports whether the queue pair has not come beyond INIT, where it takes no receives and sends nothing.
	// Then there is nothing to drain, and libmlx5 takes no marker.
	Unused() bool
	// Rest has everything that is posted complete, and waits for the device's last event, if it has such events.
	Rest(ctx context.Context) error
	// Mark posts a work request whose completion follows all others, unless they have completed: then needless is true.
	Mark(ctx context.Context, id uint64) (needless bool, err error)
	// Close ends the connection, and destroys the queue pair.
	Close() error
	// OnDone has f called once the peer has ended the connection.
	OnDone(f func(error))
	// Addrs returns the addresses of this side and of the peer.
	Addrs() (local, remote netip.AddrPort)
}

// Queue posts work requests to a queue pair. It is not an interface, because posting is frequent.
type Queue struct {
	qp  *ibv.QP
	mem *inmem.QP // in its place
}

// PostSend posts work requests.
func (q *Queue) PostSend(wrs []ibv.SendWR) (int, error) {
	if q.qp == nil {
		return q.mem.PostSend(wrs)
	}
	return q.qp.PostSend(wrs)
}

// PostRecv posts receives to a queue of the connection's own.
func (q *Queue) PostRecv(wrs []ibv.RecvWR) (int, error) {
	if q.qp == nil {
		return q.mem.PostRecv(wrs)
	}
	return q.qp.PostRecv(wrs)
}

// Receives is a queue of receives that connections share. It is no interface either.
type Receives struct {
	srq *ibv.SRQ
	rq  *inmem.RQ // in its place
}

// PostRecv posts receives.
func (r *Receives) PostRecv(wrs []ibv.RecvWR) (int, error) {
	if r.srq == nil {
		return r.rq.PostRecv(wrs)
	}
	return r.srq.PostRecv(wrs)
}

// Device returns the SRQ of a device, or nil.
func (r *Receives) Device() *ibv.SRQ { return r.srq }

// Close closes the queue of a device.
func (r *Receives) Close() error {
	if r.srq == nil {
		return nil
	}
	return r.srq.Close()
}

// pollMost is how many completions are taken at a time.
const pollMost = 64

// polled are completions, for the goroutine that polls.
type polled struct {
	handle func([]ibv.WC)
	wcs    [pollMost]ibv.WC
}

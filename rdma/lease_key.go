package rdma

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
)

// longestWindow is how long a window may be: mlx5 has 31 bits for it.
const longestWindow = 1 << 31

// leaseKey gives the peer access: an MR of the lease's own, or a memory window.
type leaseKey struct {
	own io.Closer // the MR or the window; nil before
	mw  *ibv.MW   // nil: an MR

	remote ibv.RemoteMemory
	bind   ibv.BindMW
	bound  work      // its work request; under link.Mu
	queued bool      // it is, or was; under link.Mu
	freed  chan bool // gets what became of the invalidation
}

// makeKey makes the key of a lease. A window's bind is not posted yet.
func (s *Lease) makeKey() error {
	e, b := s.l.Shard.Engine, s.mem
	if e.Windows != nil && s.n <= longestWindow && (s.access&MayAtomic == 0 || b.Addr%8 == 0) {
		if mw, err := e.Windows.Get(); err == nil { // else the device has no more
			s.key.own, s.key.mw, s.key.freed = mw, mw, make(chan bool, 1)
			s.key.bind = ibv.BindMW{MW: mw, RKey: ibv.NextRKey(mw.RKey()), MR: b.MR.(*ibv.MR), Addr: b.Addr,
				Length: uint64(s.n), Access: s.access.qp() | ibv.ZeroBased}
			s.key.remote = s.key.bind.Remote()
			return nil
		}
	}
	mr, err := register(e, b, s.access.mr())
	if err != nil {
		return err
	}
	s.key.own, s.key.remote = mr, mr.Remote()
	return nil
}

// register makes the MR of a lease. Its addresses are not those of the process, but random above bit 30: its key is
// also valid for other connections with leases, but their peers would have to guess both, and lose the connection by
// the first wrong guess.
func register(e *link.Engine, b *pool.Buf, access ibv.AccessFlags) (nic.Memory, error) {
	var r [8]byte
	_, _ = rand.Read(r[:]) // never fails
	const low = 1<<30 - 1  // the device may map huge pages only where these bits are those of the address
	iova := binary.NativeEndian.Uint64(r[:])>>2&^low | b.Addr&low
	return e.NIC.Again(b.Bytes(), b.Addr, iova, access)
}

// grant lets the peer use the key. A bind comes before the frame that informs the peer.
// Preconditions: link.Mu is held.
func (s *Lease) grant() {
	if s.key.mw != nil {
		s.key.queued = true
		s.key.bound = work{Steps: []sendq.Step{{Opcode: ibv.OpBindMW, Bind: &s.key.bind}}, Quiet: true}
		s.l.Queue.Submit(sendq.Window, &s.key.bound)
	}
}

// hangs reports that the device does not release memory.
var errHangs = errors.New("the device does not take back the memory of a lease")

// takeKey takes the memory from the peer, and reports whether it could. If the device does not let go of it, the
// connection has to go.
func (s *Lease) takeKey() bool {
	if s.key.own == nil {
		return true
	}
	if s.key.mw != nil && s.invalidate() {
		s.l.Shard.Engine.Windows.Put(s.key.mw)
		return true
	}
	hung := time.AfterFunc(link.DrainTime, func() { s.sever(errHangs) })
	err := s.key.own.Close()
	hung.Stop()
	if err != nil {
		s.sever(fmt.Errorf("%w: %w", errHangs, err))
		err = s.key.own.Close() // without the QP it may work
	}
	if s.key.mw != nil {
		s.l.Shard.Engine.Windows.Lost(s.key.mw, err == nil)
	}
	return err == nil
}

// invalidateTime is how long an invalidation may wait behind what was posted before, which ends when RC gives up.
const invalidateTime = 4 * link.DrainTime

// invalidate has the queue pair take the window from the peer, and reports whether it has. It has not if the
// connection has ended. It is not asked if the peer did not return the memory in time: earlier work requests, which may
// wait for the peer, would come first, while destroying the window needs no queue pair.
func (s *Lease) invalidate() bool {
	l := s.l
	l.Mu.Lock()
	if !s.key.queued {
		l.Mu.Unlock()
		return true
	}
	if l.End.Ending || s.term.Forced && s.key.bound.Begun() {
		l.Mu.Unlock()
		return false
	}
	free := &op{freed: s.key.freed}
	free.Owner = free
	free.Steps = []sendq.Step{{Opcode: ibv.OpLocalInv, Remote: ibv.RemoteAddr{RKey: s.key.remote.RKey}}}
	l.Queue.Submit(sendq.Window, &free.work)
	l.Pump()
	l.Mu.Unlock()
	defer l.Shard.Progress.Meanwhile()()
	timer := time.NewTimer(invalidateTime)
	defer timer.Stop()
	select {
	case done := <-s.key.freed:
		return done
	case <-l.End.Done():
	case <-timer.C:
		l.Fail(&link.DeviceFault{Err: errHangs})
	}
	return false
}

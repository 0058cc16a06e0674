package rdma

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/lease"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Lease is memory of this side that the peer may access, until it returns it, or until the lease ends.
//
// Its methods are safe for concurrent use. It keeps the buffer: a Release of it takes effect when the lease has ended.
// Until then this side may also read and write the bytes. Nothing orders that with the peer's access but messages and
// atomics, so either side may see a part of what the other one is writing.
type Lease struct {
	l      *link.Link
	number uint32
	buf    *Buffer // as it was lent
	mem    *pool.Buf
	n      int64
	access Access
	key    leaseKey

	// Under link.Mu.
	term  lease.Term
	timer *time.Timer

	done   chan struct{} // closed when the peer has no access any more
	opened *leak.Record
	once   sync.Once
	failed error // why it may still have; before done
}

// Lend lets the peer access the bytes of b, with the rights a, for the duration d; a d of 0 means
// LeaseOptions.MaxDuration. The peer's Borrow returns the region. If the limits of LeaseOptions are reached only
// because memory that the peer has returned is still being taken from it, Lend waits until it has been.
func (c *Conn) Lend(ctx context.Context, b *Buffer, a Access, d time.Duration) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := beginLease(c.l, turn.Bound{Ctx: ctx}, b, a, d, nil)
	return s, c.fail("lend", err)
}

// beginLease makes a lease, as the reply to a request if r is not nil.
func beginLease(l *link.Link, w turn.Bound, b *Buffer, a Access, d time.Duration, r *LeaseRequest) (*Lease, error) {
	m, err := leasesOf(l)
	if err != nil {
		return nil, err
	}
	d, err = m.opt.duration(d)
	if err := cmp.Or(a.check(), err, checkLocal(l, b.get(), 0, -1)); err != nil {
		return nil, err
	}
	if a&MayAtomic != 0 && l.Shard.Engine.Attr.AtomicCap == ibv.AtomicNone {
		return nil, &ibv.UnsupportedError{Feature: "a lease with " + MayAtomic.String(), Need: "a device with atomics",
			Have: l.Shard.Engine.Name()}
	}
	s := &Lease{l: l, buf: b, mem: b.get(), n: int64(b.get().Len()), access: a, done: make(chan struct{})}
	s.mem.Pin()
	if err := leasingOf(l).waitLease(w, s); err != nil {
		s.mem.Unpin()
		return nil, err
	}
	if err = s.makeKey(); err == nil {
		err = leasingOf(l).setAccess()
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err == nil {
		err = l.LeaseError()
	}
	if err != nil { // the lease has not begun
		s.term.State = lease.Ending
		s.toEnd()
		return nil, err
	}
	s.number = m.lends.next
	m.lends.next++
	m.lends.known[s.number] = s
	s.opened = leak.Track("lease to " + l.Remote.String())
	s.term.Begin(time.Now().Add(d))
	s.timer = time.AfterFunc(d, s.expire)
	s.grant()
	f := wire.LendFrame{Addr: s.key.remote.Addr, Length: uint64(s.n), RKey: s.key.remote.RKey,
		Milliseconds: milliseconds(d), Access: uint8(a)}
	if r != nil {
		f.Request = r.number
		m.reply(r)
	}
	leasingOf(l).tell(f.Encode(s.number))
	return s, nil
}

// waitLease counts a lease, unless it is one too many. It waits for leases that end if they are the reason.
func (m *leasing) waitLease(w turn.Bound, s *Lease) error {
	l := m.l
	for {
		l.Mu.Lock()
		err := m.addLease(s)
		var soon <-chan struct{}
		if err != nil && l.LeaseError() == nil {
			soon = m.lends.ledger.Soon(s.n)
		}
		l.Mu.Unlock()
		if soon == nil {
			return err
		}
		if err := l.Shard.Progress.Wait(w, soon); err != nil {
			return err
		}
	}
}

// addLease counts a lease, unless it is one too many.
// Preconditions: l.Mu is held.
func (m *leasing) addLease(s *Lease) error {
	l := m.l
	if err := l.LeaseError(); err != nil {
		return err
	}
	if l.Queue.Told() >= controlQueue/2 { // leases that were forced to end, while the peer takes nothing in
		return &ibv.LimitError{What: "frames about leases that the peer has not taken in", Asked: controlQueue/2 + 1,
			Limit: controlQueue / 2, Where: "a connection: the peer is stopped, or its host does not respond"}
	}
	lends := &m.lends
	opt := &m.opt
	switch lends.ledger.Add(s.n) {
	case lease.Bytes:
		return &ibv.LimitError{What: "bytes lent to the peer", Asked: uint64(lends.ledger.Open.Bytes + s.n),
			Limit: uint64(max(opt.MaxBytes, 0)), Where: "LeaseOptions.MaxBytes of this end"}
	case lease.Count:
		return &ibv.LimitError{What: "leases of the peer", Asked: uint64(opt.MaxLeases + 1),
			Limit: uint64(opt.MaxLeases),
			Where: "LeaseOptions.MaxLeases of this end"}
	}
	lends.open[s] = struct{}{}
	lends.gone.Add(1)
	l.Shard.Stat.Leases.Add(1)
	return nil
}

// setAccess gives the QP the rights of all leases together, so that without any it refuses all access.
func (m *leasing) setAccess() error {
	l := m.l
	lends := &m.lends
	lends.accessMu.Lock()
	defer lends.accessMu.Unlock()
	l.Mu.Lock()
	var all Access
	for s := range lends.open {
		if s.term.State < lease.Ending {
			all |= s.access
		}
	}
	ended := l.End.Ending
	l.Mu.Unlock()
	want := all.qp()
	if want == lends.access || ended {
		return nil
	}
	if err := l.Port.Allow(want | link.LeastAccess(l.Shard.Family())&^ibv.AccessNone); err != nil {
		return err
	}
	lends.access = want
	return nil
}

// expire revokes the lease at its end.
func (s *Lease) expire() {
	s.l.Mu.Lock()
	defer s.l.Mu.Unlock()
	if s.term.Expired(time.Now()) { // else it was extended
		s.revoke(ErrExpired)
	}
}

// revoke asks the peer to stop, and ends the lease by force if the peer does not reply in time.
// Preconditions: link.Mu is held.
func (s *Lease) revoke(cause error) {
	if !s.term.Revoke(cause) {
		return
	}
	s.timer.Stop()
	s.timer = time.AfterFunc(leasingOf(s.l).opt.Grace, s.force)
	leasingOf(s.l).tell(wire.NumberFrame(wire.Revoke, s.number, reasonOf(cause)))
}

func (s *Lease) force() {
	s.l.Mu.Lock()
	defer s.l.Mu.Unlock()
	s.term.Forced = true
	s.beginEnd()
}

// beginEnd ends a lease that has begun.
// Preconditions: link.Mu is held.
func (s *Lease) beginEnd() {
	if !s.term.End() {
		return
	}
	s.timer.Stop()
	delete(leasingOf(s.l).lends.known, s.number)
	s.toEnd()
}

// toEnd takes the memory from the peer in the background: the lease is Ending.
// Preconditions: link.Mu is held.
func (s *Lease) toEnd() {
	leasingOf(s.l).lends.ledger.End(s.n)
	go s.close()
}

// reasonOf returns the reason in a REVOKE and a RETURN.
func reasonOf(cause error) uint32 {
	switch cause {
	case ErrRevoked:
		return wire.EndedRevoked
	case ErrExpired:
		return wire.EndedExpired
	}
	return wire.EndedByHolder
}

// returned handles the peer's RETURN: it has no operation under way.
// Preconditions: link.Mu is held.
func (s *Lease) returned(reason uint32) {
	switch reason {
	case wire.EndedRevoked:
	case wire.EndedExpired:
		s.term.Cause = ErrExpired
	default:
		s.term.Cause = nil
	}
	s.beginEnd()
}

// close takes the memory from the peer.
func (s *Lease) close() {
	l := s.l
	defer leasingOf(l).lends.gone.Done()
	taken := s.takeKey()
	if taken {
		_ = leasingOf(l).setAccess() // fails when the connection ends
	}
	l.Mu.Lock()
	leasingOf(l).forget(s) // before Wait returns: another may be lent then
	l.Mu.Unlock()
	if taken { // else the buffer stays pinned
		s.finish(nil)
		s.mem.Unpin()
	}
}

// forget takes the lease out of the count.
// Preconditions: link.Mu is held.
func (m *leasing) forget(s *Lease) {
	s.term.State = lease.Ended
	delete(m.lends.open, s)
	m.lends.ledger.Ended(s.n)
	s.opened.Done()
	m.l.Shard.Stat.Leases.Add(-1)
}

// sever ends the connection; the lease ends when nothing can arrive through it any more.
func (s *Lease) sever(err error) {
	s.l.Fail(err)
	<-s.l.End.Done()
	s.l.Mu.Lock()
	if s.term.Cause == nil {
		s.term.Cause = err
	}
	closing := s.l.End.CloseErr
	s.l.Mu.Unlock()
	if closing != nil {
		closing = fmt.Errorf("the peer may still have access: %w: %w", closing, err)
	}
	s.finish(closing)
}

// finish ends the lease.
func (s *Lease) finish(failed error) {
	s.once.Do(func() {
		s.failed = failed
		close(s.done)
	})
}

// Ended ends all leases of a connection whose QP is gone, and waits for it.
func (m *leasing) Ended() {
	l := m.l
	l.Mu.Lock()
	for s := range m.lends.open {
		if s.term.State == lease.Live {
			s.term.Cause = l.Reason()
		}
		s.beginEnd()
	}
	for _, r := range m.borrows.regions {
		r.end(l.Reason())
	}
	m.borrows.asks.Clear(func(a *asking) { a.answer(nil, l.Reason()) })
	l.Mu.Unlock()
	m.lends.gone.Wait()
}

// Wait waits until the peer has no access any more, and returns the buffer, with what the peer wrote.
// The error is nil if the peer returned it unasked; it matches ErrRevoked or ErrExpired if the lease ended otherwise,
// and ErrPeerGone or the like if the connection did: data that was being written then may have arrived in part. Without
// the buffer, the error is ctx's, or the device failed and the peer may still have access.
func (s *Lease) Wait(ctx context.Context) (*Buffer, error) {
	if err := s.l.Shard.Progress.Wait(turn.Bound{Ctx: ctx}, s.done); err != nil {
		return nil, err
	}
	if s.failed != nil {
		return nil, fault(s.l, "wait for lease", s.failed)
	}
	s.l.Mu.Lock()
	defer s.l.Mu.Unlock()
	return s.buf, fault(s.l, "wait for lease", s.term.Cause)
}

// Window reports whether the peer's access is by a memory window of the buffer's MR, not by an MR of the lease's own.
func (s *Lease) Window() bool { return s.key.mw != nil }

// Done returns a channel that is closed when Wait does not wait any more.
func (s *Lease) Done() <-chan struct{} { return s.done }

// Revoke ends the lease. When it returns nil, not one byte is read or written by the peer any more. It
// asks the peer to return the memory; if that takes longer than LeaseOptions.Grace, the access ends by
// force. If ctx ends first, the revocation goes on without it.
func (s *Lease) Revoke(ctx context.Context) error {
	s.l.Mu.Lock()
	s.revoke(ErrRevoked)
	s.l.Mu.Unlock()
	if err := s.l.Shard.Progress.Wait(turn.Bound{Ctx: ctx}, s.done); err != nil {
		return err
	}
	return fault(s.l, "revoke", s.failed)
}

// Extend makes the lease end after d from now, which must not be earlier than it would. 0 means
// LeaseOptions.MaxDuration.
func (s *Lease) Extend(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return fault(s.l, "extend lease", s.extend(d))
}

func (s *Lease) extend(d time.Duration) error {
	d, err := leasingOf(s.l).opt.duration(d)
	if err != nil {
		return err
	}
	s.l.Mu.Lock()
	defer s.l.Mu.Unlock()
	if s.term.State != lease.Live {
		if s.term.Cause == nil {
			return ErrReturned
		}
		return s.term.Cause
	}
	now := time.Now()
	if left := s.term.Ends.Sub(now); d < left {
		return &ibv.ArgError{Arg: "duration", Got: d.String(), Want: fmt.Sprintf("%v or more, which are left: Revoke "+
			"ends a lease early", left.Round(time.Millisecond))}
	}
	s.timer.Reset(d)
	if s.term.Extend(now.Add(d)) {
		leasingOf(s.l).tell(wire.NumberFrame(wire.Extend, s.number, milliseconds(d)))
	}
	return nil
}

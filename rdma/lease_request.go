package rdma

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/turn"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// LeaseRequest describes a peer's Request.
type LeaseRequest struct {
	Peer     netip.AddrPort
	Conn     *Conn // that Dial or Accept returns
	Bytes    uint64
	Access   Access
	Duration time.Duration // 0: the peer leaves it to this side

	l      *link.Link
	number uint16

	// Under link.Mu.
	lending bool // Lend is at work
	over    bool // OnRequest has returned: it is refused, unless Lend is at work
	replied bool
}

// Lend lends b to the peer, as the reply to its request. Its length, rights and duration may be less than asked for; a
// duration of 0 is the one asked for, or else the longest. If the limits are reached only because memory that the peer
// has returned is still being taken from it, Lend waits until it has been, or until ctx ends. A Lend that fails has not
// replied: OnRequest may call it again.
func (r *LeaseRequest) Lend(ctx context.Context, b *Buffer, a Access, d time.Duration) (*Lease, error) {
	l := r.l
	if l == nil {
		return nil, &ibv.ArgError{Arg: "request", Got: "one that the program made", Want: "one of OnRequest"}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d == 0 && leasingOf(l) != nil {
		d = min(r.Duration, leasingOf(l).opt.MaxDuration)
	}
	l.Mu.Lock()
	first := !r.replied && !r.lending
	if first {
		r.lending = true
	}
	l.Mu.Unlock()
	if !first {
		return nil, fault(l, "lend", &ibv.ArgError{Arg: "request", Got: "one that was answered",
			Want: "one answer"})
	}
	s, err := beginLease(l, turn.Bound{Ctx: ctx}, b, a, d, r)
	l.Mu.Lock()
	r.lending = false
	if err != nil && r.over {
		leasingOf(l).refuse(r, refuseReason(err))
	}
	l.Mu.Unlock()
	return s, fault(l, "lend", err)
}

// beginDecide starts a goroutine for the requests that wait, once the connection is there.
// Preconditions: l.Mu is held.
func (m *leasing) beginDecide() {
	if m.l.Started && m.lends.desk.Start() {
		go m.decide()
	}
}

// decide replies to requests until there is none.
func (m *leasing) decide() {
	for {
		r := m.nextRequest()
		if r == nil {
			return
		}
		reason := m.onRequest(r)
		m.l.Mu.Lock()
		r.over = true
		if !r.lending {
			m.refuse(r, reason)
		}
		m.l.Mu.Unlock()
	}
}

// onRequest has OnRequest decide about a request, and returns why it is refused unless that has lent memory. It does
// not wait for OnRequest once nothing can be lent any more. Its context ends when onRequest returns.
func (m *leasing) onRequest(r *LeaseRequest) RefuseReason {
	decide := m.opt.OnRequest
	if decide == nil {
		return RefusedNoHandler
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var reason RefuseReason
	err := m.l.Shard.Engine.Foreign.Wait(m.l.Stopped.Done(), func() {
		_, err := decide(ctx, r)
		reason = refuseReason(err)
	})
	if err != nil {
		return RefusedByHandler
	}
	return reason
}

// nextRequest returns a request for OnRequest, or nil if there is none, or the connection has ended.
func (m *leasing) nextRequest() *LeaseRequest {
	l := m.l
	l.Mu.Lock()
	defer l.Mu.Unlock()
	r, ok := m.lends.desk.Next(l.LeaseError() == nil)
	if !ok {
		return nil
	}
	r.Peer, r.Conn = l.Remote, connOf(l)
	return r
}

// reply ends a request, whose place is free before the reply is sent.
// Preconditions: link.Mu is held.
func (m *leasing) reply(r *LeaseRequest) {
	r.replied = true
	m.lends.desk.Reply()
}

// refuse refuses a request that has no reply.
// Preconditions: l.Mu is held.
func (m *leasing) refuse(r *LeaseRequest, reason RefuseReason) {
	if r.replied {
		return
	}
	m.reply(r)
	m.tell(wire.NumberFrame(wire.Refuse, uint32(r.number), uint32(reason)))
}

// refuseReason is why a request is refused whose handler has returned err.
func refuseReason(err error) RefuseReason {
	var limit *ibv.LimitError
	if errors.As(err, &limit) {
		return RefusedLimit
	}
	return RefusedByHandler
}

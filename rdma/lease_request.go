package rdma

import (
	"errors"
	"net/netip"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// LeaseRequest describes a peer's Request.
type LeaseRequest struct {
	Peer     netip.AddrPort
	Conn     *Conn // that Dial or Accept returns
	Bytes    uint64
	Access   Access
	Duration time.Duration // 0: the peer leaves it to this side

	l      *link
	number uint16

	// Under link.mu.
	lending bool // Lend is at work
	over    bool // OnRequest has returned: it is refused, unless Lend is at work
	replied bool
}

// Lend lends b to the peer, as the reply to its request. Its length, rights and duration may be less than asked for; a
// duration of 0 is the one asked for, or else the longest. If the limits are reached only because memory that the peer
// has returned is still being taken from it, Lend waits until it has been.
func (r *LeaseRequest) Lend(b *Buffer, a Access, d time.Duration) (*Lease, error) {
	l := r.l
	if l == nil {
		return nil, &ibv.ArgError{Arg: "request", Got: "one that the program made", Want: "one of OnRequest"}
	}
	if d == 0 && l.leasing != nil {
		d = min(r.Duration, l.leasing.opt.MaxDuration)
	}
	l.mu.Lock()
	first := !r.replied && !r.lending
	if first {
		r.lending = true
	}
	l.mu.Unlock()
	if !first {
		return nil, l.fault("lend", &ibv.ArgError{Arg: "request", Got: "one that was answered",
			Want: "one answer"})
	}
	s, err := l.lend(bound{}, b, a, d, r)
	l.mu.Lock()
	r.lending = false
	if err != nil && r.over {
		l.refuse(r, refuseReason(err))
	}
	l.mu.Unlock()
	return s, l.fault("lend", err)
}

// beginDecide starts a goroutine for the requests that wait, once the connection is there.
// Preconditions: l.mu is held.
func (l *link) beginDecide() {
	if l.started && l.leasing.lends.desk.Start() {
		go l.decide()
	}
}

// decide replies to requests until there is none.
func (l *link) decide() {
	for {
		r := l.nextRequest()
		if r == nil {
			return
		}
		reason := l.onRequest(r)
		l.mu.Lock()
		r.over = true
		if !r.lending {
			l.refuse(r, reason)
		}
		l.mu.Unlock()
	}
}

// onRequest has OnRequest decide about a request, and returns why it is refused unless that has lent memory. It does
// not wait for OnRequest once the connection has ended.
func (l *link) onRequest(r *LeaseRequest) RefuseReason {
	decide := l.leasing.opt.OnRequest
	if decide == nil {
		return RefusedNoHandler
	}
	var reason RefuseReason
	err := l.e.eng.foreign.Wait(l.stopped.Done(), func() {
		_, err := decide(r)
		reason = refuseReason(err)
	})
	if err != nil {
		return RefusedByHandler
	}
	return reason
}

// nextRequest returns a request for OnRequest, or nil if there is none, or the connection has ended.
func (l *link) nextRequest() *LeaseRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.leasing.lends.desk.Next(l.leaseError() == nil)
	if !ok {
		return nil
	}
	r.Peer, r.Conn = l.remote, l.connOf()
	return r
}

// reply ends a request, whose place is free before the reply is sent.
// Preconditions: link.mu is held.
func (m *leasing) reply(r *LeaseRequest) {
	r.replied = true
	m.lends.desk.Reply()
}

// refuse refuses a request that has no reply.
// Preconditions: l.mu is held.
func (l *link) refuse(r *LeaseRequest, reason RefuseReason) {
	if r.replied {
		return
	}
	l.leasing.reply(r)
	l.tell(wire.NumberFrame(wire.Refuse, uint32(r.number), uint32(reason)))
}

// refuseReason is why a request is refused whose handler has returned err.
func refuseReason(err error) RefuseReason {
	var limit *ibv.LimitError
	if errors.As(err, &limit) {
		return RefusedLimit
	}
	return RefusedByHandler
}

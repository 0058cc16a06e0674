package rdma

import (
	"fmt"
	"math"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/lease"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Frames about leases have credits of their own: see package wire.
const (
	controlQueue = 4096 // most that wait here for the peer to take others in
)

// tell queues a frame about leases for the peer.
// Preconditions: l.Mu is held, the connection has leases.
func (m *leasing) tell(c wire.Control) {
	l := m.l
	if l.End.Ending || l.End.Closed() {
		return
	}
	if l.Queue.Told() == controlQueue {
		l.Protocol("LIMIT", fmt.Sprintf("none for %d answers", controlQueue), "the frames about leases to be taken in")
		return
	}
	l.Queue.Tell(c)
	l.Pump()
}

// Receive handles a frame about leases.
// Preconditions: l.Mu is held.
func (m *leasing) Receive(h wire.Header, p []byte) {
	m.Recv.Came()
	m.Recv.Took(1, 0) // its window is fixed
	bad := func(got, want string) { m.l.Protocol(h.Kind.String(), got, want) }
	has := func(next uint32) bool { // reports whether a lease of this number has been
		if !wire.Before(h.Aux, next) {
			bad(fmt.Sprintf("lease %d", h.Aux), fmt.Sprintf("a number below %d", next))
			return false
		}
		return true
	}
	switch h.Kind {
	case wire.Lend:
		m.receiveLend(h.Aux, p, bad)
	case wire.Extend:
		ms := wire.ParseNumber(p)
		if ms == 0 {
			bad("0 ms", "1 or more")
		} else if r := m.borrows.regions[h.Aux]; has(m.borrows.next) && r != nil {
			r.extend(time.Duration(ms) * time.Millisecond)
		}
	case wire.Revoke:
		if r := m.borrows.regions[h.Aux]; has(m.borrows.next) && r != nil {
			cause := ErrRevoked
			if wire.ParseNumber(p) == wire.EndedExpired {
				cause = ErrExpired
			}
			r.end(cause)
		}
	case wire.Return:
		if s := m.lends.known[h.Aux]; has(m.lends.next) && s != nil {
			s.returned(wire.ParseNumber(p))
		}
	case wire.Request:
		m.receiveRequest(h.Aux, p, bad)
	case wire.Refuse:
		if !m.borrows.asks.Has(h.Aux) {
			bad(fmt.Sprintf("an answer to request %d", h.Aux), "a request that waits")
			return
		}
		m.borrows.asks.Take(uint16(h.Aux)).answer(nil, &RefusedError{Reason: RefuseReason(wire.ParseNumber(p))})
	}
}

// receiveLend handles a LEND. bad reports what is wrong with it.
// Preconditions: l.Mu is held.
func (m *leasing) receiveLend(number uint32, p []byte, bad func(got, want string)) {
	f := wire.ParseLend(p)
	switch {
	case number != m.borrows.next:
		bad(fmt.Sprintf("lease %d", number), fmt.Sprint(m.borrows.next))
	case len(m.borrows.regions) == leasesMost:
		bad("another lease", fmt.Sprintf("at most %d at a time", leasesMost))
	case f.Length == 0 || f.Length > math.MaxInt64 || f.Addr+f.Length < f.Addr:
		bad(fmt.Sprintf("%d bytes at %#x", f.Length, f.Addr), "a range of memory")
	case Access(f.Access).check() != nil:
		bad(Access(f.Access).String(), "rights that are known")
	case f.Flags != 0:
		bad(fmt.Sprintf("flags %#x", f.Flags), "0")
	case f.Milliseconds == 0:
		bad("0 ms", "1 or more")
	case f.Request != 0 && !m.borrows.asks.Has(uint32(f.Request)):
		bad(fmt.Sprintf("an answer to request %d", f.Request), "a request that waits")
	default:
		m.borrowed(number, &f)
	}
}

// receiveRequest handles a REQUEST. bad reports what is wrong with it.
// Preconditions: l.Mu is held.
func (m *leasing) receiveRequest(number uint32, p []byte, bad func(got, want string)) {
	f := wire.ParseRequest(p)
	r := &LeaseRequest{Bytes: f.Bytes, Access: Access(f.Access), l: m.l, number: uint16(number),
		Duration: time.Duration(f.Milliseconds) * time.Millisecond}
	switch {
	case number == 0 || number > math.MaxUint16:
		bad(fmt.Sprintf("number %d", number), "1 to 65535")
	case r.Access.check() != nil:
		bad(r.Access.String(), "rights that are known")
	case !m.lends.desk.Come(r):
		bad("another request", fmt.Sprintf("at most %d at a time", lease.RequestsMost))
	default:
		m.beginDecide()
	}
}

// Freshen brings the first frame about leases up to date, which is about to be sent.
// Preconditions: l.Mu is held.
func (m *leasing) Freshen() {
	c := m.l.Queue.FirstTold()
	if s := m.lends.known[c.Aux]; c.Kind == wire.Extend && s != nil {
		*c = wire.NumberFrame(wire.Extend, c.Aux, milliseconds(s.term.Told(time.Now())))
	}
}

// Start runs when the peer's hello is known.
// Preconditions: l.Mu is held.
func (m *leasing) Start() {
	m.depth = min(m.l.Port.Reads(), nic.ReadsMost)
	m.l.Queue.MayRead(m.depth)
	m.beginDecide() // requests may have come first
}

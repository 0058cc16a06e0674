package rdma

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// Frames about leases take no credit of data frames, so that a peer whose messages are not read can still be asked to
// stop. They have credits of their own, which LIMIT frames give.
const (
	controlWindow = 4    // most frames about leases that the peer has not taken in
	controlQueue  = 4096 // most that wait here for the peer to take others in
	requestsMost  = 16   // most pending requests of a side
)

// control is a frame about leases. Its payload fits into the work request.
type control struct {
	kind    frameKind
	n       uint8
	aux     uint32
	payload [maxInline - headerLen]byte
}

// Lengths of the payloads.
var controlLen = map[frameKind]uint32{kindLend: 28, kindExtend: 4, kindRevoke: 4, kindReturn: 4, kindRequest: 16,
	kindRefuse: 4}

// lendFrame is the payload of LEND: the frame's aux is the number of the lease.
type lendFrame struct {
	addr, length uint64
	rkey         uint32
	milliseconds uint32
	access       Access
	flags        uint8  // lendWindow
	request      uint16 // that it replies to, or 0
}

// encode returns the LEND of a lease.
func (f *lendFrame) encode(number uint32) control {
	c := control{kind: kindLend, n: 28, aux: number}
	p := c.payload[:]
	binary.LittleEndian.PutUint64(p, f.addr)
	binary.LittleEndian.PutUint64(p[8:], f.length)
	binary.LittleEndian.PutUint32(p[16:], f.rkey)
	binary.LittleEndian.PutUint32(p[20:], f.milliseconds)
	p[24], p[25] = byte(f.access), f.flags
	binary.LittleEndian.PutUint16(p[26:], f.request)
	return c
}

func parseLend(p []byte) lendFrame {
	return lendFrame{
		addr: binary.LittleEndian.Uint64(p), length: binary.LittleEndian.Uint64(p[8:]),
		rkey: binary.LittleEndian.Uint32(p[16:]), milliseconds: binary.LittleEndian.Uint32(p[20:]),
		access: Access(p[24]), flags: p[25], request: binary.LittleEndian.Uint16(p[26:]),
	}
}

// numberFrame returns a frame whose payload is one number, or nothing.
func numberFrame(kind frameKind, aux, number uint32) control {
	c := control{kind: kind, n: uint8(controlLen[kind]), aux: aux}
	binary.LittleEndian.PutUint32(c.payload[:], number)
	return c
}

func requestFrame(number uint16, n uint64, a Access, ms uint32) control {
	c := control{kind: kindRequest, n: 16, aux: uint32(number)}
	binary.LittleEndian.PutUint64(c.payload[:], n)
	binary.LittleEndian.PutUint32(c.payload[8:], ms)
	c.payload[12] = byte(a)
	return c
}

// tell queues a frame about leases for the peer.
// Preconditions: l.mu is held, the connection has leases.
func (l *link) tell(c control) {
	m := l.leasing
	if l.ending || l.closed {
		return
	}
	if len(m.controls) == controlQueue {
		l.protocol("LIMIT", fmt.Sprintf("none for %d answers", controlQueue), "the frames about leases to be taken in")
		return
	}
	m.controls = append(m.controls, c)
	l.pump()
}

// checkControl reports what is wrong with a frame about leases.
// Preconditions: l.mu is held.
func (l *link) checkControl(h *header) error {
	m := l.leasing
	want := controlLen[h.kind]
	switch {
	case h.length != want:
		return &ProtocolError{"length of " + h.kind.String(), fmt.Sprint(h.length), fmt.Sprint(want)}
	case !before(m.received, m.told):
		return &ProtocolError{h.kind.String(), fmt.Sprintf("frame %d about leases", m.received),
			fmt.Sprintf("a number below %d", m.told)}
	}
	return nil
}

// limitControls handles the limit of frames about leases in a LIMIT.
// Preconditions: l.mu is held.
func (l *link) limitControls(limit uint32) {
	m := l.leasing
	if before(limit, m.limit) || before(m.sent+controlWindow, limit) {
		l.protocol("limit of frames about leases", fmt.Sprint(limit), fmt.Sprintf("%d to %d", m.limit,
			m.sent+controlWindow))
		return
	}
	m.limit = limit
}

// receiveControl handles a frame about leases.
// Preconditions: l.mu is held.
func (l *link) receiveControl(h *header, p []byte) {
	m := l.leasing
	m.received++
	if m.received+controlWindow-m.told >= controlWindow/2 {
		m.owed = true
	}
	bad := func(got, want string) { l.protocol(h.kind.String(), got, want) }
	lease := func(next uint32) bool { // reports whether a lease of this number has been
		if !before(h.aux, next) {
			bad(fmt.Sprintf("lease %d", h.aux), fmt.Sprintf("a number below %d", next))
			return false
		}
		return true
	}
	switch h.kind {
	case kindLend:
		f := parseLend(p)
		switch {
		case h.aux != m.nextRegion:
			bad(fmt.Sprintf("lease %d", h.aux), fmt.Sprint(m.nextRegion))
		case len(m.regions) == leasesMost:
			bad("another lease", fmt.Sprintf("at most %d at a time", leasesMost))
		case f.length == 0 || f.length > math.MaxInt64 || f.addr+f.length < f.addr:
			bad(fmt.Sprintf("%d bytes at %#x", f.length, f.addr), "a range of memory")
		case f.access.check() != nil:
			bad(f.access.String(), "rights that are known")
		case f.flags != 0:
			bad(fmt.Sprintf("flags %#x", f.flags), "0")
		case f.milliseconds == 0:
			bad("0 ms", "1 or more")
		case f.request != 0 && m.asked[f.request] == nil:
			bad(fmt.Sprintf("an answer to request %d", f.request), "a request that waits")
		default:
			l.borrowed(h.aux, &f)
		}
	case kindExtend:
		ms := binary.LittleEndian.Uint32(p)
		if ms == 0 {
			bad("0 ms", "1 or more")
		} else if r := m.regions[h.aux]; lease(m.nextRegion) && r != nil {
			r.extend(time.Duration(ms) * time.Millisecond)
		}
	case kindRevoke:
		if r := m.regions[h.aux]; lease(m.nextRegion) && r != nil {
			cause := ErrRevoked
			if binary.LittleEndian.Uint32(p) == reasonExpired {
				cause = ErrExpired
			}
			r.end(cause)
		}
	case kindReturn:
		if s := m.lent[h.aux]; lease(m.nextLease) && s != nil {
			s.returned(binary.LittleEndian.Uint32(p))
		}
	case kindRequest:
		r := &LeaseRequest{Peer: l.remote, Conn: &Conn{l}, Bytes: binary.LittleEndian.Uint64(p),
			Access: Access(p[12]), number: uint16(h.aux),
			Duration: time.Duration(binary.LittleEndian.Uint32(p[8:])) * time.Millisecond}
		switch {
		case h.aux == 0 || h.aux > math.MaxUint16:
			bad(fmt.Sprintf("number %d", h.aux), "1 to 65535")
		case r.Access.check() != nil:
			bad(r.Access.String(), "rights that are known")
		case m.requests == requestsMost:
			bad("another request", fmt.Sprintf("at most %d at a time", requestsMost))
		default:
			l.requested(r)
		}
	case kindRefuse:
		a := m.asked[uint16(h.aux)]
		if h.aux > math.MaxUint16 || a == nil {
			bad(fmt.Sprintf("an answer to request %d", h.aux), "a request that waits")
			return
		}
		delete(m.asked, uint16(h.aux))
		a.answer(nil, &RefusedError{Reason: RefuseReason(binary.LittleEndian.Uint32(p))})
	}
}

// knows reports whether a kind of frame is part of what both sides speak.
func (l *link) knows(k frameKind) bool { return k < kindLend || k < kindCount && l.leasing != nil }

// controlReady reports whether a frame about leases may be sent.
// Preconditions: l.mu is held.
func (l *link) controlReady() bool {
	m := l.leasing
	return m != nil && len(m.controls) > 0 && before(m.sent, m.limit)
}

// nextControl takes the next frame about leases, and returns its payload.
// Preconditions: l.mu is held, controlReady.
func (l *link) nextControl(h *header) []byte {
	m := l.leasing
	c := m.controls[0]
	m.controls = m.controls[1:]
	m.sent++
	h.kind, h.aux, h.length = c.kind, c.aux, uint32(c.n)
	return c.payload[:c.n]
}

// limitLeases completes a LIMIT: aux is the limit of frames about leases.
// Preconditions: l.mu is held.
func (l *link) limitLeases(h *header) {
	if m := l.leasing; m != nil {
		m.told, m.owed = m.received+controlWindow, false
		h.aux = m.told
	}
}

// startLeases runs when the peer's hello is known.
// Preconditions: l.mu is held.
func (l *link) startLeases() {
	if l.leasing == nil || l.peer.flags&helloLeases == 0 {
		l.leasing = nil
		return
	}
	if attr, err := l.qp.Query(ibv.MaskMaxQPRdAtomic); err == nil {
		l.leasing.depth = min(int(attr.MaxRdAtomic), readsMost)
	}
}

package rdma

import (
	"cmp"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/rdma/internal/link"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// RejectReason is why a listener refused a connection.
type RejectReason uint8

// A peer with a later version of this package may have other reasons.
const (
	RejectedMaxConns    = RejectReason(wire.RejectMaxConns)   // it has as many connections as EngineOptions.MaxConns
	RejectedQueuePairs  = RejectReason(wire.RejectQueuePairs) // its adapter has no more queue pairs, or memory for them
	RejectedMemory      = RejectReason(wire.RejectMemory)     // EngineOptions.Memory or locked memory is spent
	RejectedBusy        = RejectReason(wire.RejectBusy)       // too many wait there to be connected or accepted
	RejectedByAuthorize = RejectReason(wire.RejectAuthorize)  // its Options.Authorize returned an error
	RejectedLate        = RejectReason(wire.RejectLate)       // the handshake took longer than its Options.Timeout
	RejectedClosed      = RejectReason(wire.RejectClosed)     // it or its engine is closed or has failed
	// RejectedUnfinished: it had accepted, and gave the handshake up before this side had finished it, because that
	// took longer than its Options.Timeout, other peers waited, or it was closed or failed. It does not have the cause.
	RejectedUnfinished = RejectReason(wire.RejectUnfinished)
)

var rejectTexts = map[RejectReason]string{
	RejectedMaxConns:    "it has as many connections as its EngineOptions.MaxConns permits",
	RejectedQueuePairs:  "its adapter is out of queue pairs, or of memory for them",
	RejectedMemory:      "it is out of memory for the adapter (EngineOptions.Memory or memlock)",
	RejectedBusy:        "too many connections wait there to be made or accepted",
	RejectedByAuthorize: "its Options.Authorize refused",
	RejectedLate:        "the handshake took too long",
	RejectedClosed:      "the listener or its engine is closed or has failed",
	RejectedUnfinished: "it had accepted, and gave the handshake up before this side had finished it (it took too " +
		"long, other peers waited, or the listener was closed or failed)",
}

// String describes the reason. It returns the number of a reason of later versions.
func (r RejectReason) String() string {
	return cmp.Or(rejectTexts[r], fmt.Sprintf("reason %d", uint8(r)))
}

// RejectError is returned by Dial and DialStream if the listener refused the connection and said why. It matches
// syscall.ECONNREFUSED.
type RejectError struct {
	Reason RejectReason
	Err    error // of package rdmacm, with the reject
}

func (e *RejectError) Error() string { return "the peer refused the connection: " + e.Reason.String() }

// Unwrap returns Err.
func (e *RejectError) Unwrap() error { return e.Err }

// rejection is the private data of a refusal.
func rejection(why wire.RejectReason) []byte {
	return wire.Rejection{Min: wire.MinVersion, Max: wire.MaxVersion, Reason: why}.Encode()
}

// tally counts the peers that a listener has refused. They count in Stats of the engine of its last connection, and
// those before the first connection in the first engine's.
type tally struct {
	all, early atomic.Uint64
	engine     atomic.Pointer[link.Engine]
}

// add counts a peer.
func (t *tally) add() {
	t.all.Add(1)
	if e := t.engine.Load(); e != nil {
		e.Shards[0].Stat.Refused.Add(1)
	} else {
		t.early.Add(1)
	}
}

// use makes e the engine.
func (t *tally) use(e *link.Engine) {
	t.engine.Store(e)
	e.Shards[0].Stat.Refused.Add(t.early.Swap(0))
}

// note takes note that a peer was refused. It logs what the listener lacks.
func (l *listener) note(from netip.AddrPort, why wire.RejectReason, err error) {
	l.refused.add()
	switch why {
	case wire.RejectMaxConns, wire.RejectQueuePairs, wire.RejectMemory, wire.RejectBusy:
	case wire.RejectClosed:
		if l.ctx.Err() != nil { // by this program
			return
		}
	default:
		return
	}
	if n := l.log.Due(time.Now()); n > 0 {
		link.Warn(l.opt.Logger,
			"rdma: a listener refuses connections; the next line about it comes in a minute or later",
			"address", l.addr(), "refused", n, "peer", from, "why", err)
	}
}

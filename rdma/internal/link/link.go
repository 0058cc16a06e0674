// Package link has connections that carry messages or bytes: their credits, frames and ends. It also has the engine
// that the connections of a device share: its CQs, receives, blocks and timers. Package rdma dials, listens and lends
// memory on top of it.
package link

import (
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/leak"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/credit"
	"github.com/pureverbs/pureverbs/rdma/internal/ending"
	"github.com/pureverbs/pureverbs/rdma/internal/nic"
	"github.com/pureverbs/pureverbs/rdma/internal/pace"
	"github.com/pureverbs/pureverbs/rdma/internal/pool"
	"github.com/pureverbs/pureverbs/rdma/internal/sendq"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

// Link is a connection: credits, frames, and the state of its end. Messages and streams are views
// of it.
type Link struct {
	View   any          // of a link that carries messages: see connOf
	Opened *leak.Record // of the program's Conn or Stream
	Log    *slog.Logger
	Shard  *Shard
	Kind   wire.ConnKind
	Calls  atomic.Int32 // the number of Serves at work, or -1: a Caller has the connection
	Port   port         // its owner is teardown
	QPN    uint32
	Peer   wire.Hello

	Remote, Local netip.AddrPort
	MaxMessage    int

	Mu        sync.Mutex // guards the next ones
	Inbox     inbox
	Started   bool // the peer's hello is known, and the QP is ready
	mute      bool // nothing may be sent before a frame has come
	Send      credit.Sender
	Queue     sendq.Queue[Held, Owner]
	Alive     pace.Liveness
	End       ending.State
	Stopped   ending.Latch // this side can send nothing, and the peer reads nothing, any more
	Linger    lingering
	resetting *sendq.Wait // for a RESET

	Window  window   // guarded by Mu
	Control *Control // nil: no remote memory
	Reader  reader
	Writer  writing
}

// Options are those of a connection.
type Options struct {
	Log        *slog.Logger
	MaxMessage int
	KeepAlive  uint32        // ticks
	Linger     time.Duration // see lingering
}

// port is a connection's queue pair, with what posts to it.
type port struct {
	nic.Conn
	nic.Queue
}

// Held is the memory of a frame to be sent.
type Held struct {
	b   *Block
	buf *pool.Buf
}

// New makes a connection without a queue pair. ctl is nil for one without leases.
func New(e *Shard, kind wire.ConnKind, o Options, ctl *Control) *Link {
	q := sendq.Options{Stage: e.Most.stage, Signal: e.Most.signal, Posts: postMost,
		Probe: !e.Family().SendsAcked()}
	if ctl != nil {
		q.Posts = opPosts
	}
	l := &Link{
		Control: ctl, Log: o.Log, Shard: e, Kind: kind, MaxMessage: o.MaxMessage,
		Window: window{Recv: credit.NewReceiver(StartWindow)}, Send: credit.NewSender(0, wire.MaxWindow),
		Queue: sendq.New[Held, Owner](q),
		Alive: pace.Liveness{Every: o.KeepAlive}, Linger: lingering{Most: o.Linger},
	}
	l.Reader.l, l.Writer.l, l.Window.l = l, l, l
	l.Reader.Turn.Init(1)
	l.Writer.Turn.Init(1)
	l.Reader.Wake.Init(e.Progress)
	l.Writer.Wake.Init(e.Progress)
	l.Writer.sender.Wake = l.WakeWriter
	l.End.Init()
	return l
}

// BaseBlocks is how many blocks a connection is given without asking.
func BaseBlocks(leases bool) int {
	if leases {
		return StartWindow + wire.ControlWindow
	}
	return StartWindow
}

func (l *Link) wakeReader() {
	l.Reader.Wake.Wake()
}

// WakeWriter wakes the goroutine that waits to write.
func (l *Link) WakeWriter() {
	l.Writer.Wake.Wake()
}

// limitDue reports whether a LIMIT is due.
// Preconditions: l.Mu is held.
func (l *Link) limitDue() bool {
	return l.Window.Recv.Due() && !l.End.PeerFIN || l.Control != nil && l.Control.Recv.Due()
}

// Pump posts what is due and may be sent.
// Preconditions: l.Mu is held.
func (l *Link) Pump() {
	if !l.Started || l.mute || l.End.Ending {
		return
	}
	l.post()
	if l.Writer.ahead > 0 || l.Writer.Parched {
		l.Writer.caughtUp()
	}
}

// post is the only code that posts, but for the marker.
// Preconditions: l.Mu is held, the connection is started and not ending.
func (l *Link) post() {
	l.Queue.SetDue(sendq.Lower, l.Window.Recv.MustLower())
	l.Queue.SetDue(sendq.Answer, l.Send.Answer)
	l.Queue.SetDue(sendq.Limit, l.limitDue())
	for !l.Queue.Idle() {
		g := sendq.Gates{Data: l.Send.Left(), Scarce: l.Shard.Blocks.Scarce.Load(),
			Wanted: l.Shard.Engine.Pool.Wanted()}
		if c := l.Control; c != nil {
			g.Control = c.send.Left()
		}
		l.Queue.Begin(g)
		for what := l.Queue.Pick(); what != sendq.None; what = l.Queue.Pick() {
			l.Queue.Add(what, l.header(what))
		}
		wrs := l.Queue.Doorbell()
		if len(wrs) == 0 {
			return
		}
		_, err := l.Port.PostSend(wrs)
		l.Shard.Stat.Doorbells.Add(1)
		for _, h := range l.Queue.Inlined() {
			l.GiveUp(h)
		}
		if l.Queue.Roomy() {
			l.WakeWriter()
		}
		if err != nil {
			l.failLocked(postError(err))
			return
		}
	}
}

// header returns the numbers and limits of a frame that is about to be sent.
// Preconditions: l.Mu is held.
func (l *Link) header(what sendq.What) (h wire.Header) {
	switch what {
	case sendq.Window, sendq.Op: // not a frame
		return h
	case sendq.Lower:
		l.Window.Recv.Lower()
		l.Control.fill(&h)
	case sendq.Answer:
		l.Send.Answered()
		l.Control.fill(&h)
	case sendq.Limit:
		l.Control.fill(&h)
	case sendq.Control:
		l.Control.send.Next()
		l.Control.Tenant.Freshen()
	case sendq.Ping:
		h.Aux = l.End.FINAux()
	}
	h.Limit = l.Window.Recv.Tell()
	l.Queue.SetDue(sendq.Limit, l.limitDue())
	if what == sendq.Data {
		h.Seq = uint16(l.Send.Next())
	} else {
		h.Seq = uint16(l.Send.Sent)
	}
	return h
}

// complete handles a completion of a work request.
// Preconditions: l.Mu is held.
func (l *Link) complete(wc *ibv.WC) {
	upTo, err := uint32(wc.ID)+1, completionError(wc)
	switch {
	case l.End.IsMarker(uint32(wc.ID)):
		upTo, err = l.Queue.Posted, nil // those that have failed came before
	case wire.Before(l.Queue.Posted, upTo):
		return
	}
	intact := !l.Queue.Failed
	if err != nil {
		l.failLocked(err)
		upTo--
	}
	l.Release(upTo, upTo) // those without a completion of their own have succeeded
	if intact {
		if l.Queue.Confirm() {
			l.Alive.Confirmed(l.Shard.Ticks.Load(), !l.Starved())
		}
		if l.Queue.Confirmed(sendq.FIN) {
			l.do(l.End.FINArrived(ibv.ErrClosed))
		}
	}
	if err != nil {
		l.Release(upTo+1, upTo)
	}
	l.Pump()
}

// Release returns the memory of the work requests before upTo. Those from okUpTo on have failed.
// Preconditions: l.Mu is held; l.End.Ending, if some have failed.
func (l *Link) Release(upTo, okUpTo uint32) {
	var sent [sendq.Depth]*Block
	n := 0
	for h, ok := l.Queue.Release(upTo, okUpTo); ok; h, ok = l.Queue.Release(upTo, okUpTo) {
		if h.b != nil {
			sent[n] = h.b
			n++
		}
		if h.buf != nil {
			h.buf.Unpin()
		}
	}
	if n > 0 {
		l.Shard.Blocks.GiveAll(sent[:n])
	}
	l.finishOps()
}

// GiveUp returns the memory of a frame that no longer needs it.
func (l *Link) GiveUp(h Held) {
	if h.b != nil {
		l.Shard.Blocks.Give(h.b)
	}
	if h.buf != nil {
		h.buf.Unpin()
	}
}

// receive handles a frame. It takes the block over.
// Preconditions: l.Mu is held.
func (l *Link) receive(b *Block, byteLen uint32) {
	l.Alive.Frame, l.mute = l.Shard.Ticks.Load(), false
	h := wire.ParseHeader(b.Header())
	ignore, err := h.Check(byteLen, l.Kind, l.Control != nil)
	if err == nil && !ignore {
		err = l.checkFrame(&h)
	}
	if err != nil || ignore {
		l.Shard.Blocks.Consumed(b)
		if err != nil {
			l.broken(err)
		}
		return
	}
	if l.Send.Raise(h.Limit) {
		l.Alive.Took = l.Alive.Frame
	}
	switch h.Kind {
	case wire.Data:
		l.Alive.Data = l.Alive.Frame
		l.Window.Recv.Came()
		if l.End.ReadShut {
			l.Shard.Blocks.Consumed(b)
			l.Window.took(1)
			break
		}
		if l.Window.Kind == blocks.Compact {
			b = l.Shard.Blocks.Copy(b, int(h.Length))
		}
		l.Inbox.Push(frame{b: b, n: int32(h.Length), aux: h.Aux, flags: h.Flags})
	case wire.FIN:
		l.Shard.Blocks.Consumed(b)
		l.Inbox.readable = true
		l.do(l.End.PeerFINCame(h.Aux))
	case wire.Reset:
		l.Shard.Blocks.Consumed(b)
		l.failLocked(ResetError(h.Aux))
	case wire.Lend, wire.Extend, wire.Revoke, wire.Return, wire.Request, wire.Refuse:
		l.Control.Tenant.Receive(h, b.Payload())
		l.Shard.Blocks.Consumed(b)
	case wire.Ping:
		l.Shard.Blocks.Consumed(b)
		l.do(l.End.PeerPinged(h.Aux))
	default: // LIMIT
		l.Shard.Blocks.Consumed(b)
		if h.Flags&wire.FlagLower != 0 {
			l.Send.Lower(h.Limit)
		}
		if h.Flags&wire.FlagLowered != 0 {
			l.Window.ungrant(l.Window.Recv.Lowered())
		}
		if l.Control != nil {
			if want := l.Control.limit(h.Aux); want != "" {
				l.Protocol("limit of frames about leases", fmt.Sprint(h.Aux), want)
			}
		}
	}
	l.Pump()
}

// checkFrame reports what is wrong with a frame that its header alone does not show.
// Preconditions: l.Mu is held.
func (l *Link) checkFrame(h *wire.Header) error {
	bad := func(frame, got, format string, want ...any) error {
		return breach(frame, got, fmt.Sprintf(format, want...))
	}
	switch c := l.Control; {
	case h.Seq != uint16(l.Window.Recv.Received):
		return bad("number of "+h.Kind.String(), fmt.Sprint(h.Seq), "%d: a frame was lost",
			uint16(l.Window.Recv.Received))
	case h.Flags&wire.FlagLowered != 0 && !l.Window.Recv.Lowering:
		return bad("LIMIT", "an answer to a lower limit", "none: there was no such limit")
	case h.Kind == wire.Data && !l.Window.Recv.MayCome():
		return bad("DATA", fmt.Sprintf("frame %d", l.Window.Recv.Received), "a number below %d", l.Window.Recv.Told)
	case int(h.Length) > l.Shard.FrameMost(l.Window.Kind):
		return bad("length of "+h.Kind.String(), fmt.Sprint(h.Length), "at most %d", l.Shard.FrameMost(l.Window.Kind))
	case h.Kind == wire.Data && l.End.PeerFIN, h.Kind == wire.FIN && !l.End.MayFIN(h.Aux):
		return bad(h.Kind.String(), "one after FIN", "none")
	case h.Kind >= wire.Lend && !c.Recv.MayCome():
		return bad(h.Kind.String(), fmt.Sprintf("frame %d about leases", c.Recv.Received), "a number below %d",
			c.Recv.Told)
	}
	if want := l.Send.Check(h.Limit, h.Flags&wire.FlagLower != 0); want != "" {
		return bad("limit of "+h.Kind.String(), fmt.Sprint(h.Limit), "%s", want)
	}
	return nil
}

// Starved reports whether what is to be sent waits for credits, and so for the peer's program.
// Preconditions: l.Mu is held.
func (l *Link) Starved() bool {
	return l.Send.Left() == 0 && (l.Queue.Staged() > 0 || l.Writer.Parched)
}

// finishOps finishes the operations that have completed.
// Preconditions: l.Mu is held; l.End.Ending, if some have failed.
func (l *Link) finishOps() {
	for w := l.Queue.Finished(); w != nil; w = l.Queue.Finished() {
		if w.Owner != nil { // else a bind, which nobody waits for
			w.Owner.Completed(w.Failed)
		}
	}
}

package rdma

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

const (
	startWindow = wire.MinLimit // data frames that a peer may be ahead of the reader, at first
	stageMost   = 4             // frames that a stream keeps while it may not send

	// Work requests that are posted with one doorbell.
	postMost = 4  // before the program has used a Batch
	opPosts  = 24 // of connections with leases
)

// link is a connection: credits, frames, and the state of its end. Messages and streams are views
// of it.
type link struct {
	view   any          // of a link that carries messages: see connOf
	opened *leak.Record // of the program's Conn or Stream
	log    *slog.Logger
	e      *shard
	kind   wire.ConnKind
	calls  atomic.Int32 // the number of Serves at work, or -1: a Caller has the connection
	port   port         // its owner is teardown
	qpn    uint32
	peer   wire.Hello

	remote, local netip.AddrPort
	maxMessage    int

	mu        sync.Mutex // guards the next ones
	in        inbox
	started   bool // the peer's hello is known, and the QP is ready
	mute      bool // nothing may be sent before a frame has come
	send      credit.Sender
	q         sendq.Queue[held, owner]
	alive     pace.Liveness
	end       ending.State
	stopped   ending.Latch // this side can send nothing, and the peer reads nothing, any more
	linger    lingering
	resetting *sendq.Wait // for a RESET

	win window   // guarded by mu
	ctl *control // nil: no remote memory
	rd  reader
	wr  writing
}

// linkOptions are those of a connection.
type linkOptions struct {
	log        *slog.Logger
	maxMessage int
	keepAlive  uint32        // ticks
	linger     time.Duration // see lingering
}

// port is a connection's queue pair, with what posts to it.
type port struct {
	nic.Conn
	nic.Queue
}

// held is the memory of a frame to be sent.
type held struct {
	b   *block
	buf *pool.Buf
}

func newLink(e *shard, kind wire.ConnKind, o linkOptions, ctl *control) *link {
	q := sendq.Options{Stage: e.most.stage, Signal: e.most.signal, Posts: postMost,
		Probe: !e.family().SendsAcked()}
	if ctl != nil {
		q.Posts = opPosts
	}
	l := &link{
		ctl: ctl, log: o.log, e: e, kind: kind, maxMessage: o.maxMessage,
		win: window{recv: credit.NewReceiver(startWindow)}, send: credit.NewSender(0, wire.MaxWindow),
		q:     sendq.New[held, owner](q),
		alive: pace.Liveness{Every: o.keepAlive}, linger: lingering{most: o.linger},
	}
	l.own()
	l.rd.turn.Init(1)
	l.wr.turn.Init(1)
	l.rd.wake.Init(e.progress)
	l.wr.wake.Init(e.progress)
	l.wr.sender.Wake = l.wakeWriter
	l.end.Init()
	return l
}

// own has the parts of l know it.
func (l *link) own() {
	l.rd.l, l.wr.l, l.win.l = l, l, l
}

// baseBlocks is how many blocks a connection is given without asking.
func baseBlocks(leases bool) int {
	if leases {
		return startWindow + wire.ControlWindow
	}
	return startWindow
}

func (l *link) wakeReader() {
	l.rd.wake.Wake()
}

func (l *link) wakeWriter() {
	l.wr.wake.Wake()
}

// prepare runs when the QP is there, before the peer can send.
func (l *link) prepare(p nic.Conn) error {
	l.port, l.qpn = port{p, p.Queue()}, p.Num()
	g := p.Cap()
	l.wr.oneSGE = g.MaxSendSGE < 2
	needsScratch := l.q.Limit(sendq.Limits{Depth: g.MaxSendWR, Inline: g.MaxInline, Piece: l.e.eng.longest})
	l.alive.Begin(l.e.ticks.Load())
	l.e.add(l)
	switch {
	case g.MaxSendWR < sendq.LeastDepth:
		return tooFew("max_send_wr", sendq.LeastDepth, g.MaxSendWR, l.e.eng.name())
	case needsScratch:
		return l.wr.needScratch()
	}
	return nil
}

// first has the side that dials send a frame as soon as it may, and the other side send nothing before one has come.
// That side has receives from now on: there is no step in which it learns that the peer may send.
// Preconditions: the peer cannot send yet.
func (l *link) first(dials bool) error {
	t := l.e.family()
	if t.DialerFirst() {
		l.mu.Lock()
		l.mute = !dials
		l.q.SetDue(sendq.Ping, dials)
		l.mu.Unlock()
	}
	if t.RNR() || dials {
		return nil
	}
	return l.e.recvs.promise(l)
}

// start begins sending: the connection is there. It has blocks only now, because a stranger that does not finish its
// handshake must cost none. What a peer sends before takes those of others, or is sent again by its adapter: see first.
func (l *link) start(peer wire.Hello) error {
	local, remote := l.port.Addrs()
	l.mu.Lock() // the peer's frames come since prepare
	l.peer, l.local, l.remote = peer, local, remote
	l.mu.Unlock()
	err := l.e.recvs.promise(l)
	if err == nil {
		err = l.probe(&peer)
	}
	if err != nil {
		l.abandon(err)
		return err
	}
	l.mu.Lock()
	l.started = true
	l.alive.Begin(l.e.ticks.Load())
	if peer.Flags&wire.HelloLeases == 0 {
		l.ctl = nil
	}
	if l.ctl != nil {
		l.ctl.tenant.start()
	}
	l.send.Raise(peer.Limit)
	l.pump()
	l.mu.Unlock()
	l.port.OnDone(l.disconnected)
	if l.e.eng.broken() {
		l.fail(errGone) // failAll, which is called once, may not have known it yet
	}
	return nil
}

// limitDue reports whether a LIMIT is due.
// Preconditions: l.mu is held.
func (l *link) limitDue() bool {
	return l.win.recv.Due() && !l.end.PeerFIN() || l.ctl != nil && l.ctl.recv.Due()
}

// pump posts what is due and may be sent.
// Preconditions: l.mu is held.
func (l *link) pump() {
	if !l.started || l.mute || l.end.Ending() {
		return
	}
	l.post()
	if l.wr.ahead > 0 || l.wr.parched {
		l.wr.caughtUp()
	}
}

// post is the only code that posts, but for the marker.
// Preconditions: l.mu is held, the connection is started and not ending.
func (l *link) post() {
	l.q.SetDue(sendq.Lower, l.win.recv.MustLower())
	l.q.SetDue(sendq.Answer, l.send.MustAnswer())
	l.q.SetDue(sendq.Limit, l.limitDue())
	for !l.q.Idle() {
		g := sendq.Gates{Data: l.send.Left(), Scarce: l.e.blocks.Scarce(), Wanted: l.e.eng.pool.Wanted()}
		if c := l.ctl; c != nil {
			g.Control = c.send.Left()
		}
		l.q.Begin(g)
		for what := l.q.Pick(); what != sendq.None; what = l.q.Pick() {
			l.q.Add(what, l.header(what))
		}
		wrs := l.q.Doorbell()
		if len(wrs) == 0 {
			return
		}
		_, err := l.port.PostSend(wrs)
		l.e.stat.doorbells.Add(1)
		for _, h := range l.q.Inlined() {
			l.giveUp(h)
		}
		if l.q.Roomy() {
			l.wakeWriter()
		}
		if err != nil {
			l.failLocked(postError(err))
			return
		}
	}
}

// header returns the numbers and limits of a frame that is about to be sent.
// Preconditions: l.mu is held.
func (l *link) header(what sendq.What) (h wire.Header) {
	switch what {
	case sendq.Window, sendq.Op: // not a frame
		return h
	case sendq.Lower:
		l.win.recv.Lower()
		l.ctl.fill(&h)
	case sendq.Answer:
		l.send.Answered()
		l.ctl.fill(&h)
	case sendq.Limit:
		l.ctl.fill(&h)
	case sendq.Control:
		l.ctl.send.Next()
		l.ctl.tenant.freshen()
	case sendq.Ping:
		h.Aux = l.end.FINAux()
	}
	h.Limit = l.win.recv.Tell()
	l.q.SetDue(sendq.Limit, l.limitDue())
	if what == sendq.Data {
		h.Seq = uint16(l.send.Next())
	} else {
		h.Seq = uint16(l.send.Sent())
	}
	return h
}

// complete handles a completion of a work request.
// Preconditions: l.mu is held.
func (l *link) complete(wc *ibv.WC) {
	upTo, err := uint32(wc.ID)+1, completionError(wc)
	switch {
	case l.end.IsMarker(uint32(wc.ID)):
		upTo, err = l.q.Posted(), nil // those that have failed came before
	case wire.Before(l.q.Posted(), upTo):
		return
	}
	intact := l.q.Intact()
	if err != nil {
		l.failLocked(err)
		upTo--
	}
	l.release(upTo, upTo) // those without a completion of their own have succeeded
	if intact {
		if l.q.Confirm() {
			l.alive.Confirmed(l.e.ticks.Load(), !l.starved())
		}
		if l.q.Confirmed(sendq.FIN) {
			l.do(l.end.FINArrived(ErrClosed))
		}
	}
	if err != nil {
		l.release(upTo+1, upTo)
	}
	l.pump()
}

// release returns the memory of the work requests before upTo. Those from okUpTo on have failed.
// Preconditions: l.mu is held; l.end.Ending(), if some have failed.
func (l *link) release(upTo, okUpTo uint32) {
	var sent [sendq.Depth]*block
	n := 0
	for h, ok := l.q.Release(upTo, okUpTo); ok; h, ok = l.q.Release(upTo, okUpTo) {
		if h.b != nil {
			sent[n] = h.b
			n++
		}
		if h.buf != nil {
			h.buf.Unpin()
		}
	}
	if n > 0 {
		l.e.blocks.GiveAll(sent[:n])
	}
	l.finishOps()
}

// giveUp returns the memory of a frame that no longer needs it.
func (l *link) giveUp(h held) {
	if h.b != nil {
		l.e.put(h.b)
	}
	if h.buf != nil {
		h.buf.Unpin()
	}
}

// receive handles a frame. It takes the block over.
// Preconditions: l.mu is held.
func (l *link) receive(b *block, byteLen uint32) {
	l.alive.Frame, l.mute = l.e.ticks.Load(), false
	h := wire.ParseHeader(b.Header())
	ignore, err := h.Check(byteLen, l.kind, l.ctl != nil)
	if err == nil && !ignore {
		err = l.checkFrame(&h)
	}
	if err != nil || ignore {
		l.e.consumed(b)
		if err != nil {
			l.broken(public(err))
		}
		return
	}
	if l.send.Raise(h.Limit) {
		l.alive.Took = l.alive.Frame
	}
	switch h.Kind {
	case wire.Data:
		l.alive.Data = l.alive.Frame
		l.win.recv.Came()
		if l.end.ReadShut() {
			l.e.consumed(b)
			l.win.took(1)
			break
		}
		if l.win.kind == blocks.Compact {
			b = l.e.blocks.Copy(b, int(h.Length))
		}
		l.in.Push(frame{b: b, n: int32(h.Length), aux: h.Aux, flags: h.Flags})
	case wire.FIN:
		l.e.consumed(b)
		l.in.readable = true
		l.do(l.end.PeerFINCame(h.Aux))
	case wire.Reset:
		l.e.consumed(b)
		l.failLocked(resetError(h.Aux))
	case wire.Lend, wire.Extend, wire.Revoke, wire.Return, wire.Request, wire.Refuse:
		l.ctl.tenant.receive(h, b.Payload())
		l.e.consumed(b)
	case wire.Ping:
		l.e.consumed(b)
		l.do(l.end.PeerPinged(h.Aux))
	default: // LIMIT
		l.e.consumed(b)
		if h.Flags&wire.FlagLower != 0 {
			l.send.Lower(h.Limit)
		}
		if h.Flags&wire.FlagLowered != 0 {
			l.win.ungrant(l.win.recv.Lowered())
		}
		if l.ctl != nil {
			if want := l.ctl.limit(h.Aux); want != "" {
				l.protocol("limit of frames about leases", fmt.Sprint(h.Aux), want)
			}
		}
	}
	l.pump()
}

// checkFrame reports what is wrong with a frame that its header alone does not show.
// Preconditions: l.mu is held.
func (l *link) checkFrame(h *wire.Header) error {
	bad := func(frame, got, format string, want ...any) error {
		return &ProtocolError{frame, got, fmt.Sprintf(format, want...)}
	}
	switch c := l.ctl; {
	case h.Seq != uint16(l.win.recv.Received()):
		return bad("number of "+h.Kind.String(), fmt.Sprint(h.Seq), "%d: a frame was lost",
			uint16(l.win.recv.Received()))
	case h.Flags&wire.FlagLowered != 0 && !l.win.recv.Lowering():
		return bad("LIMIT", "an answer to a lower limit", "none: there was no such limit")
	case h.Kind == wire.Data && !l.win.recv.MayCome():
		return bad("DATA", fmt.Sprintf("frame %d", l.win.recv.Received()), "a number below %d", l.win.recv.Told())
	case int(h.Length) > l.e.frameMost(l.win.kind):
		return bad("length of "+h.Kind.String(), fmt.Sprint(h.Length), "at most %d", l.e.frameMost(l.win.kind))
	case h.Kind == wire.Data && l.end.PeerFIN(), h.Kind == wire.FIN && !l.end.MayFIN(h.Aux):
		return bad(h.Kind.String(), "one after FIN", "none")
	case h.Kind >= wire.Lend && !c.recv.MayCome():
		return bad(h.Kind.String(), fmt.Sprintf("frame %d about leases", c.recv.Received()), "a number below %d",
			c.recv.Told())
	}
	if want := l.send.Check(h.Limit, h.Flags&wire.FlagLower != 0); want != "" {
		return bad("limit of "+h.Kind.String(), fmt.Sprint(h.Limit), "%s", want)
	}
	return nil
}

// starved reports whether what is to be sent waits for credits, and so for the peer's program.
// Preconditions: l.mu is held.
func (l *link) starved() bool { return l.send.Left() == 0 && (l.q.Staged() > 0 || l.wr.parched) }

// finishOps finishes the operations that have completed.
// Preconditions: l.mu is held; l.end.Ending(), if some have failed.
func (l *link) finishOps() {
	for w := l.q.Finished(); w != nil; w = l.q.Finished() {
		if w.Owner != nil { // else a bind, which nobody waits for
			w.Owner.completed(w.Failed)
		}
	}
}

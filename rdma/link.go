package rdma

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/blocks"
	"github.com/pureverbs/pureverbs/rdma/internal/credit"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
	"github.com/pureverbs/pureverbs/rdmacm"
)

const (
	sqDepth     = 32                                // work requests of a connection that are under way
	sqData      = sqDepth - 4                       // of them data frames, so that a control frame always finds room
	sqSignal    = sqDepth / 4                       // every so many work requests one is signaled; see most
	sqScarce    = 2                                 // the same, while there are not enough blocks
	startWindow = wire.MinLimit                     // data frames that a peer may be ahead of the reader, at first
	maxInline   = wire.HeaderLen + wire.ControlMost // fits into one basic block of a WQE
	headroom    = blocks.Headroom
	headerAt    = headroom - wire.HeaderLen
	stageMost   = 4 // frames that a stream keeps while it may not send
	lingerTime  = 5 * time.Second
	drainTime   = time.Second // most that a device may need to report that a QP has come to rest
)

// frame is a data frame that was received, or is to be sent.
type frame struct {
	b     *block
	buf   *Buffer // to be sent: has the payload, and b only the header
	off   int32   // of what is left of the payload; of a frame to be sent, where it begins
	n     int32   // bytes left from off; of a frame to be sent, its payload
	aux   uint32
	flags uint8
	alone bool // to be sent: a whole message in a block, to which others may be added
}

// bytes is the rest of the payload of a frame that was received.
func (f *frame) bytes() []byte { return f.b.Payload()[f.off : f.off+f.n : f.off+f.n] }

// link is a connection: credits, frames, and the state of its end. Messages and streams are views
// of it.
type link struct {
	e    *shard
	kind wire.ConnKind
	cm   *rdmacm.Conn // its owner is teardown
	qp   *ibv.QP
	qpn  uint32
	peer wire.Hello

	remote, local netip.AddrPort
	maxMessage    int
	keepAlive     uint32 // ticks

	mu sync.Mutex

	// Receiving. Data frames are numbered from 0.
	in       queue[frame]
	recv     credit.Receiver
	finIn    bool // the peer's FIN has come
	readable bool // the reader is to be woken when the poller is done with what has come
	peerDone bool // and it reads no more
	shutRead bool // this side reads no more: later data is dropped

	dataTick   uint32 // tick of the last data frame
	assembling bool   // a message is begun whose frames stay in their blocks

	// Sending.
	started   bool // the peer's hello is known, and the QP is ready
	send      credit.Sender
	out       queue[frame] // staged
	posted    uint32       // work requests
	doneWR    uint32       // of them completed
	ackedWR   uint32       // of them completed with success
	signaled  uint32       // posted when the last signaled one was posted
	data      uint32       // data frames under way
	buffers   uint32       // of them from buffers
	slots     [sqDepth]slot
	ping      bool   // a PING is due
	pinging   bool   // by keep, and has not completed
	pingWR    uint32 // the last PING's work request
	pingTick  uint32 // when pinging began
	finWant   bool
	finSent   bool
	finWR     uint32 // its work request
	finAux    uint32
	resetAux  uint32 // the reason of a RESET that is due
	resetSent chan struct{}
	flushes   []flushWait
	touched   uint32 // tick of the last frame

	// The end.
	ending     bool
	drained    bool  // nothing will come any more
	closeErr   error // of the QP
	cause      error
	closed     bool          // by this side
	shut       atomic.Bool   // the same, for readers that do not hold mu
	marker     chan struct{} // closed when the marker has completed
	markerWR   uint32
	markerSent bool
	finAcked   chan struct{}
	done       chan struct{}
	gone       chan struct{} // closed when the engine has forgotten it
	open       atomic.Int32  // ends of its life that are to come: teardown, and Close

	sender  blocks.Sender  // of blocks to send from
	account blocks.Account // of blocks that the peer may fill

	leasing *leasing // nil: no remote memory
	leases0 int      // blocks for frames about leases
	staging bool     // a message is staged in part

	partial             *message      // a message that has begun; with readTurn
	partialLen          int           // its announced length
	current             frame         // what a reader has begun; with readTurn
	readTurn, writeTurn chan struct{} // one goroutine at a time reads, and one writes
	readWake, writeWake chan struct{}
	reading             patience // with readTurn
	sentBefore          uint32   // sent, when reading waited last

	post posting
	held bool // staged frames wait for more

	calls atomic.Int32 // the number of Serves at work, or -1: a Caller has the connection
}

// slot is a work request under way.
type slot struct {
	b    *block
	buf  *Buffer
	op   *op
	data bool
	read bool // a read or atomic
}

// flushWait is a goroutine in Flush.
type flushWait struct {
	upTo uint32 // work requests
	ch   chan struct{}
}

func newLink(e *shard, kind wire.ConnKind, o *Options, leases *leasing) *link {
	posts := postMost
	if leases != nil {
		posts = opPosts
	}
	l := &link{
		leasing: leases, e: e, kind: kind, maxMessage: o.maxMessage(), keepAlive: o.keepAliveTicks(),
		recv: credit.NewReceiver(startWindow), send: credit.NewSender(0, wire.MaxWindow),
		marker: make(chan struct{}), finAcked: make(chan struct{}),
		done: make(chan struct{}), gone: make(chan struct{}),
		post:     newPosting(posts),
		readTurn: make(chan struct{}, 1), writeTurn: make(chan struct{}, 1),
		readWake: make(chan struct{}, 1), writeWake: make(chan struct{}, 1),
	}
	if leases != nil {
		l.leases0 = wire.ControlWindow
	}
	l.open.Store(2)
	l.sender.Wake = l.wakeWriter
	return l
}

// base is how many blocks a connection is given without asking.
func (l *link) base() int { return startWindow + l.leases0 }

func (l *link) wakeReader() {
	wake(l.readWake)
	l.e.kick(&l.readWake)
}

func (l *link) wakeWriter() {
	wake(l.writeWake)
	l.e.kick(&l.writeWake)
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// prepare runs when the QP is there, before the peer can send.
func (l *link) prepare(c *rdmacm.Conn) error {
	l.cm, l.qp, l.qpn = c, c.QP(), c.QP().Num()
	l.touched = l.e.ticks.Load()
	l.dataTick = l.touched
	l.e.add(l)
	return nil
}

// start begins sending: the connection is there.
func (l *link) start(peer wire.Hello) {
	l.peer = peer
	l.remote, l.local = l.cm.RemoteAddr(), l.cm.LocalAddr()
	l.mu.Lock()
	l.startLeases()
	l.started = true
	l.send.Raise(peer.Limit)
	l.pump()
	l.mu.Unlock()
	l.cm.OnDone(l.disconnected)
}

// abandon undoes prepare: there is no connection. The QP is closed.
func (l *link) abandon() {
	l.mu.Lock()
	l.ending = true
	l.dropInput()
	l.mu.Unlock()
	l.e.links.clear(l)
	l.e.remove(l)
}

// room reports whether a data frame may be posted.
// Preconditions: l.mu is held.
func (l *link) room() bool {
	return l.send.Room() && l.data < sqData && l.posted-l.doneWR < sqData
}

// pump posts what is due and may be sent: the only code that posts, but for the marker.
// Preconditions: l.mu is held.
func (l *link) pump() {
	if !l.started || l.ending {
		return
	}
	for {
		n := 0
		for n < len(l.post.wrs) && l.next(n) {
			n++
		}
		if n == 0 {
			return
		}
		_, err := l.qp.PostSend(l.post.wrs[:n])
		l.e.stat.doorbells.Add(1)
		for i, s := range l.post.inlined[:n] {
			if s.b != nil {
				l.e.put(s.b)
				l.post.inlined[i] = slot{}
			}
			if s.buf != nil {
				s.buf.unpin()
				l.post.inlined[i] = slot{}
			}
		}
		if err != nil {
			l.failLocked(err)
			return
		}
	}
}

// next prepares work request n of a doorbell, and reports whether there is something to send.
// Preconditions: l.mu is held.
func (l *link) next(n int) bool {
	if l.posted-l.doneWR == sqDepth {
		return false
	}
	var (
		h            wire.Header
		f            frame
		data, forced bool // forced: signaled
	)
	switch {
	case l.resetAux != 0:
		h.Kind, h.Aux, forced = wire.Reset, l.resetAux, true
		l.resetAux = 0
	case l.recv.MustLower():
		h.Kind, h.Flags = wire.Limit, wire.FlagLower
		l.recv.Lower()
		l.limitLeases(&h)
	case l.send.MustAnswer():
		h.Kind, h.Flags = wire.Limit, wire.FlagLowered
		l.send.Answered()
		l.limitLeases(&h)
	case l.leasing != nil && len(l.leasing.windows) > 0:
		l.nextWindow(n)
		return true
	case l.out.len() > 0 && l.room() && !l.opFirst():
		f = l.out.pop()
		h.Seq = uint16(l.send.Next())
		h.Kind, h.Flags, h.Length, h.Aux = wire.Data, f.flags, uint32(f.n), f.aux
		data, forced = true, l.wantBack(&f)
		if n := l.out.len(); n == 0 || n == l.stageRoom()/2 {
			l.wakeWriter() // for several at a time
		}
	case l.controlReady():
		l.nextControl(&h, l.post.controls[n][wire.HeaderLen:])
	case l.recv.Due() && !l.finIn, l.leasing != nil && l.leasing.recv.Due():
		h.Kind = wire.Limit
		l.limitLeases(&h)
	case l.finWant && !l.finSent && l.out.len() == 0:
		h.Kind, h.Aux, forced = wire.FIN, l.finAux, true
		l.finSent, l.finWR = true, l.posted
	case l.ping:
		h.Kind, h.Flags, forced = wire.Ping, wire.FlagIgnore, true
		l.ping, l.pingWR = false, l.posted
	case l.opReady():
		l.nextOp(n)
		return true
	default:
		return false
	}
	h.Limit = l.recv.Tell()
	if !data {
		h.Seq = uint16(l.send.Sent())
	}

	l.post.wrs[n] = ibv.SendWR{ID: uint64(l.posted), Opcode: ibv.OpSend}
	wr := &l.post.wrs[n]
	at := &l.slots[l.posted%sqDepth]
	*at = slot{data: data}
	size := wire.HeaderLen + int(h.Length)
	switch b := f.b; {
	case f.buf != nil:
		l.fromBuffer(n, &h, &f)
	case b == nil:
		h.Put(l.post.controls[n][:])
		wr.Inline = l.post.controls[n][:size]
	default:
		from := headerAt + int(f.off)
		h.Put(b.Mem[from:])
		if size <= maxInline {
			wr.Inline = b.Mem[from : from+size]
			l.post.inlined[n].b = b
		} else {
			at.b = b
			l.post.sges[2*n] = ibv.SGE{Addr: b.Addr + uint64(from), Length: uint32(size), LKey: b.LKey}
			wr.SGEs = l.post.sges[2*n : 2*n+1 : 2*n+1]
		}
	}
	if data {
		l.data++
		l.dataPosted()
	}
	l.posted++
	since := l.posted - l.signaled
	if forced || since >= l.e.most.signal || data && since >= sqScarce && l.e.blocks.Scarce() {
		wr.Flags |= ibv.Signaled
		l.signaled = l.posted
	}
	return true
}

// complete handles a completion of a work request.
// Preconditions: l.mu is held.
func (l *link) complete(wc *ibv.WC) {
	if l.ending && uint32(wc.ID) == l.markerWR && l.markerSent {
		select {
		case <-l.marker:
		default:
			close(l.marker)
		}
	}
	upTo := uint32(wc.ID) + 1
	okUpTo := upTo
	if err := wc.Err(); err != nil {
		l.failLocked(err)
		okUpTo--
	}
	if wire.Before(l.posted, upTo) {
		return // the marker
	}
	l.release(upTo, okUpTo)
	if wc.Status == ibv.WCSuccess {
		l.ackedWR = l.doneWR
		if l.pinging && !l.ping && wire.Before(l.pingWR, l.doneWR) {
			l.pinging = false
		}
	}
	if l.finSent && wire.Before(l.finWR, l.doneWR) && wc.Status == ibv.WCSuccess {
		select {
		case <-l.finAcked:
		default:
			close(l.finAcked)
		}
	}
	if len(l.flushes) > 0 && wc.Status == ibv.WCSuccess {
		l.flushes = slices.DeleteFunc(l.flushes, func(w flushWait) bool {
			if wire.Before(l.doneWR, w.upTo) {
				return false
			}
			close(w.ch)
			return true
		})
	}
	l.pump()
}

// release frees what work requests before upTo have sent. Those from okUpTo on have failed.
// Preconditions: l.mu is held; l.ending, if some have failed.
func (l *link) release(upTo, okUpTo uint32) {
	var sent [sqDepth]*block
	n := 0
	for ; wire.Before(l.doneWR, upTo); l.doneWR++ {
		s := &l.slots[l.doneWR%sqDepth]
		if s.b != nil {
			sent[n] = s.b
			n++
		}
		if s.buf != nil {
			s.buf.unpin()
			l.buffers--
		}
		if s.data {
			l.data--
		}
		if s.op != nil {
			l.opDone(s, !wire.Before(l.doneWR, okUpTo))
		}
		*s = slot{}
	}
	if n > 0 {
		l.e.blocks.GiveAll(sent[:n])
	}
	l.finishOps()
}

// receive handles a frame. It takes the block over.
// Preconditions: l.mu is held.
func (l *link) receive(b *block, byteLen uint32) {
	l.touched = l.e.ticks.Load()
	h := wire.ParseHeader(b.Header())
	ignore, err := h.Check(byteLen, l.kind, l.leasing != nil)
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
	l.send.Raise(h.Limit)
	switch h.Kind {
	case wire.Data:
		l.dataTick = l.touched
		l.recv.Came()
		if l.shutRead {
			l.e.consumed(b)
			l.took(1)
			break
		}
		l.in.push(frame{b: b, n: int32(h.Length), aux: h.Aux, flags: h.Flags})
		l.readable = true
	case wire.FIN:
		l.e.consumed(b)
		l.finIn, l.readable = true, true
		if h.Aux&wire.FINClosed != 0 {
			l.peerDone = true
			l.dropStaged()
			l.stopOps()
			l.wakeWriter()
		}
	case wire.Reset:
		l.e.consumed(b)
		l.failLocked(resetError(h.Aux))
	case wire.Lend, wire.Extend, wire.Revoke, wire.Return, wire.Request, wire.Refuse:
		l.receiveControl(&h, b.Payload())
		l.e.consumed(b)
	default: // LIMIT and PING
		l.e.consumed(b)
		if h.Kind == wire.Limit && h.Flags&wire.FlagLower != 0 {
			l.send.Lower(h.Limit)
		}
		if h.Kind == wire.Limit && h.Flags&wire.FlagLowered != 0 {
			l.ungrant(l.recv.Lowered())
		}
		if h.Kind == wire.Limit && l.leasing != nil {
			l.limitControls(h.Aux)
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
	switch m := l.leasing; {
	case h.Seq != uint16(l.recv.Received()):
		return bad("number of "+h.Kind.String(), fmt.Sprint(h.Seq), "%d: a frame was lost", uint16(l.recv.Received()))
	case h.Flags&wire.FlagLowered != 0 && !l.recv.Lowering():
		return bad("LIMIT", "an answer to a lower limit", "none: there was no such limit")
	case h.Kind == wire.Data && !l.recv.MayCome():
		return bad("DATA", fmt.Sprintf("frame %d", l.recv.Received()), "a number below %d", l.recv.Told())
	case l.finIn && (h.Kind == wire.Data || h.Kind == wire.FIN && (l.peerDone || h.Aux&wire.FINClosed == 0)):
		return bad(h.Kind.String(), "one after FIN", "none")
	case h.Kind >= wire.Lend && !m.recv.MayCome():
		return bad(h.Kind.String(), fmt.Sprintf("frame %d about leases", m.recv.Received()), "a number below %d",
			m.recv.Told())
	}
	if want := l.send.Check(h.Limit, h.Flags&wire.FlagLower != 0); want != "" {
		return bad("limit of "+h.Kind.String(), fmt.Sprint(h.Limit), "%s", want)
	}
	return nil
}

// dropInput drops what was received and not read.
// Preconditions: l.mu is held.
func (l *link) dropInput() {
	for l.in.len() > 0 {
		l.e.consumed(l.in.pop().b)
		l.took(1)
	}
}

// dropStaged drops what was staged and not posted.
// Preconditions: l.mu is held.
func (l *link) dropStaged() {
	for l.out.len() > 0 {
		l.dropFrame(l.out.pop())
	}
	l.dropNotes()
}

package rdma

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdmacm"
)

const (
	sqDepth     = 32          // work requests of a connection that are under way
	sqData      = sqDepth - 4 // of them data frames, so that a control frame always finds room
	sqSignal    = sqDepth / 4 // every so many work requests one is signaled; see most
	sqScarce    = 2           // the same, while there are not enough blocks
	maxWindow   = 64          // most data frames that a peer may send ahead of the application; see most
	startWindow = minLimit    // at first
	maxInline   = 44          // header and payload that fit into one basic block of a WQE
	stageMost   = 4           // frames that a stream keeps while it may not send
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
func (f *frame) bytes() []byte { return f.b.payload()[f.off : f.off+f.n : f.off+f.n] }

// link is a connection: credits, frames, and the state of its end. Messages and streams are views
// of it.
type link struct {
	e    *Engine
	kind connKind
	cm   *rdmacm.Conn // its owner is teardown
	qp   *ibv.QP
	qpn  uint32
	peer hello

	remote, local netip.AddrPort
	maxMessage    int
	keepAlive     uint32 // ticks

	mu sync.Mutex

	// Receiving. Data frames are numbered from 0.
	in       queue[frame]
	received uint32 // number of the next data frame
	consumed uint32 // data frames that the application has taken
	told     uint32 // limit that the peer knows of
	window   uint32
	target   uint32 // what the window is to be: less than window while it shrinks
	granted  int    // blocks of the engine beyond base
	grow     bool   // the peer has used its window up
	finIn    bool   // the peer's FIN has come
	readable bool   // the reader is to be woken when the poller is done with what has come
	peerDone bool   // and it reads no more
	shutRead bool   // this side reads no more: later data is dropped

	dataTick   uint32 // tick of the last data frame
	lower      bool   // a LIMIT that is lower is due
	lowering   bool   // it was sent, and has no reply yet
	toldBefore uint32 // the limit before that
	assembling bool   // a message is begun whose frames stay in their blocks

	// Sending.
	started   bool         // the peer's hello is known, and the QP is ready
	limit     uint32       // data frames with a number below it may be sent
	sent      uint32       // number of the next data frame
	out       queue[frame] // staged
	posted    uint32       // work requests
	doneWR    uint32       // of them completed
	ackedWR   uint32       // of them completed with success
	signaled  uint32       // posted when the last signaled one was posted
	data      uint32       // data frames under way
	buffers   uint32       // of them from buffers
	slots     [sqDepth]slot
	owed      bool   // a LIMIT is due
	answer    bool   // a reply to a lower LIMIT is due
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

	starving bool // waits for a block; under the engine's mu

	leasing *leasing // nil: no remote memory
	leases0 int      // blocks for frames about leases
	staging bool     // a message is staged in part

	partial             *Message      // a message that has begun; with readTurn
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

func newLink(e *Engine, kind connKind, o *Options, leases *leasing) *link {
	posts := postMost
	if leases != nil {
		posts = opPosts
	}
	l := &link{
		leasing: leases, e: e, kind: kind, maxMessage: o.maxMessage(), window: startWindow, target: startWindow,
		told:      startWindow,
		keepAlive: o.keepAliveTicks(),
		marker:    make(chan struct{}), finAcked: make(chan struct{}),
		done: make(chan struct{}), gone: make(chan struct{}),
		post:     newPosting(posts),
		readTurn: make(chan struct{}, 1), writeTurn: make(chan struct{}, 1),
		readWake: make(chan struct{}, 1), writeWake: make(chan struct{}, 1),
	}
	if leases != nil {
		l.leases0 = controlWindow
	}
	l.open.Store(2)
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
func (l *link) start(peer hello) {
	l.peer = peer
	l.remote, l.local = l.cm.RemoteAddr(), l.cm.LocalAddr()
	l.mu.Lock()
	l.startLeases()
	l.started = true
	if before(l.limit, peer.limit) {
		l.limit = peer.limit
	}
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
	return before(l.sent, l.limit) && l.data < sqData && l.posted-l.doneWR < sqData
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
		h            header
		f            frame
		data, forced bool // forced: signaled
		about        []byte
	)
	switch {
	case l.resetAux != 0:
		h.kind, h.aux, forced = kindReset, l.resetAux, true
		l.resetAux = 0
	case l.lower:
		h.kind, h.flags = kindLimit, flagLower
		l.lower, l.lowering, l.toldBefore = false, true, l.told
		l.told = l.consumed + l.target
		l.limitLeases(&h)
	case l.answer:
		h.kind, h.flags = kindLimit, flagLowered
		l.answer = false
		l.limitLeases(&h)
	case l.leasing != nil && len(l.leasing.windows) > 0:
		l.nextWindow(n)
		return true
	case l.out.len() > 0 && l.room() && !l.opFirst():
		f = l.out.pop()
		h.seq = uint16(l.sent)
		h.kind, h.flags, h.length, h.aux = kindData, f.flags, uint32(f.n), f.aux
		data, forced = true, l.wantBack(&f)
		l.sent++
		if n := l.out.len(); n == 0 || n == l.stageRoom()/2 {
			l.wakeWriter() // for several at a time
		}
	case l.controlReady():
		about = l.nextControl(&h)
	case l.owed, l.leasing != nil && l.leasing.owed:
		h.kind = kindLimit
		l.limitLeases(&h)
	case l.finWant && !l.finSent && l.out.len() == 0:
		h.kind, h.aux, forced = kindFIN, l.finAux, true
		l.finSent, l.finWR = true, l.posted
	case l.ping:
		h.kind, h.flags, forced = kindPing, flagIgnore, true
		l.ping, l.pingWR = false, l.posted
	case l.opReady():
		l.nextOp(n)
		return true
	default:
		return false
	}
	h.limit = l.newLimit()
	l.told, l.owed = h.limit, false
	if !data {
		h.seq = uint16(l.sent)
	}

	l.post.wrs[n] = ibv.SendWR{ID: uint64(l.posted), Opcode: ibv.OpSend}
	wr := &l.post.wrs[n]
	at := &l.slots[l.posted%sqDepth]
	*at = slot{data: data}
	size := headerLen + int(h.length)
	switch b := f.b; {
	case f.buf != nil:
		l.fromBuffer(n, &h, &f)
	case b == nil:
		h.put(l.post.controls[n][:])
		copy(l.post.controls[n][headerLen:], about)
		wr.Inline = l.post.controls[n][:size]
	default:
		from := headerAt + int(f.off)
		h.put(b.mem[from:])
		if size <= maxInline {
			wr.Inline = b.mem[from : from+size]
			l.post.inlined[n].b = b
		} else {
			at.b = b
			l.post.sges[2*n] = ibv.SGE{Addr: b.sge.Addr + uint64(f.off), Length: uint32(size), LKey: b.sge.LKey}
			wr.SGEs = l.post.sges[2*n : 2*n+1 : 2*n+1]
		}
	}
	if data {
		l.data++
		l.dataPosted()
	}
	l.posted++
	since := l.posted - l.signaled
	if forced || since >= l.e.most.signal || data && since >= sqScarce && l.e.scarce.Load() {
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
	if before(l.posted, upTo) {
		return // the marker
	}
	l.release(upTo, okUpTo)
	if wc.Status == ibv.WCSuccess {
		l.ackedWR = l.doneWR
		if l.pinging && !l.ping && before(l.pingWR, l.doneWR) {
			l.pinging = false
		}
	}
	if l.finSent && before(l.finWR, l.doneWR) && wc.Status == ibv.WCSuccess {
		select {
		case <-l.finAcked:
		default:
			close(l.finAcked)
		}
	}
	if len(l.flushes) > 0 && wc.Status == ibv.WCSuccess {
		l.flushes = slices.DeleteFunc(l.flushes, func(w flushWait) bool {
			if before(l.doneWR, w.upTo) {
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
	e := l.e
	e.mu.Lock()
	for ; before(l.doneWR, upTo); l.doneWR++ {
		s := &l.slots[l.doneWR%sqDepth]
		if s.b != nil {
			e.give(s.b)
		}
		if s.buf != nil {
			s.buf.unpin()
			l.buffers--
		}
		if s.data {
			l.data--
		}
		if s.op != nil {
			l.opDone(s, !before(l.doneWR, okUpTo))
		}
		*s = slot{}
	}
	e.mu.Unlock()
	l.finishOps()
}

// receive handles a frame. It takes the block over.
// Preconditions: l.mu is held.
func (l *link) receive(b *block, byteLen uint32) {
	l.touched = l.e.ticks.Load()
	if byteLen < headerLen {
		l.e.consumed(b)
		l.protocol("frame", fmt.Sprintf("%d bytes", byteLen), "a header of 16")
		return
	}
	h := parseHeader(b.header())
	if err := l.checkFrame(&h, byteLen); err != nil {
		l.e.consumed(b)
		l.broken(err)
		return
	}
	if before(l.limit, h.limit) {
		l.limit = h.limit
	}
	switch h.kind {
	case kindData:
		l.dataTick = l.touched
		l.received++
		if l.received == l.told {
			l.grow = true
		}
		if l.shutRead {
			l.e.consumed(b)
			l.took(1)
			break
		}
		l.in.push(frame{b: b, n: int32(h.length), aux: h.aux, flags: h.flags})
		l.readable = true
	case kindFIN:
		l.e.consumed(b)
		l.finIn, l.readable = true, true
		if h.aux&finClosed != 0 {
			l.peerDone = true
			l.dropStaged()
			l.stopOps()
			l.wakeWriter()
		}
	case kindReset:
		l.e.consumed(b)
		l.failLocked(resetError(h.aux))
	case kindLend, kindExtend, kindRevoke, kindReturn, kindRequest, kindRefuse:
		if l.leasing != nil {
			l.receiveControl(&h, b.payload())
		}
		l.e.consumed(b)
	default: // LIMIT, PING, and kinds to be ignored
		l.e.consumed(b)
		if h.kind == kindLimit && h.flags&flagLower != 0 {
			l.limit, l.answer = h.limit, true
		}
		if h.kind == kindLimit && h.flags&flagLowered != 0 {
			l.lowered()
		}
		if h.kind == kindLimit && l.leasing != nil {
			l.limitControls(h.aux)
		}
	}
	l.pump()
}

// checkFrame reports what is wrong with a frame.
func (l *link) checkFrame(h *header, byteLen uint32) error {
	switch {
	case !l.knows(h.kind) && h.flags&flagIgnore == 0:
		return &ProtocolError{"frame", h.kind.String(), "a kind that is known, or a flag to ignore it"}
	case !l.knows(h.kind):
		return nil
	case h.length != byteLen-headerLen:
		return &ProtocolError{"length of " + h.kind.String(), fmt.Sprint(h.length), fmt.Sprint(byteLen - headerLen)}
	case h.seq != uint16(l.received):
		return &ProtocolError{"number of " + h.kind.String(), fmt.Sprint(h.seq),
			fmt.Sprintf("%d: a frame was lost", uint16(l.received))}
	case h.flags&^knownFlags != 0:
		return &ProtocolError{"flags of " + h.kind.String(), fmt.Sprintf("%#x", h.flags), "known ones"}
	case h.flags&(flagLower|flagLowered) != 0 && h.kind != kindLimit:
		return &ProtocolError{"flags of " + h.kind.String(), fmt.Sprintf("%#x", h.flags), "none about a lower limit"}
	case h.flags&flagLowered != 0 && !l.lowering:
		return &ProtocolError{"LIMIT", "an answer to a lower limit", "none: there was no such limit"}
	case before(h.limit, l.limit) && (h.flags&flagLower == 0 || before(h.limit, l.limit-maxWindow)):
		return &ProtocolError{"limit of " + h.kind.String(), fmt.Sprint(h.limit), fmt.Sprintf("%d or more", l.limit)}
	case before(l.sent+maxWindow, h.limit):
		return &ProtocolError{"limit of " + h.kind.String(), fmt.Sprint(h.limit),
			fmt.Sprintf("at most %d", l.sent+maxWindow)}
	case h.flags&flagPacked != 0 && (h.kind != kindData || h.flags&(flagMore|flagImm|flagCancel) != 0):
		return &ProtocolError{"flags of " + h.kind.String(), fmt.Sprintf("%#x", h.flags),
			"PACKED in DATA only, and without MORE, IMM and CANCEL"}
	case h.kind == kindData && !l.mayCome():
		return &ProtocolError{"DATA", fmt.Sprintf("frame %d", l.received), fmt.Sprintf("a number below %d", l.told)}
	case h.kind == kindData && l.kind == kindStream && h.flags&^flagIgnore != 0:
		return &ProtocolError{"flags of DATA", fmt.Sprintf("%#x", h.flags), "none, in a stream"}
	case l.finIn && (h.kind == kindData || h.kind == kindFIN && (l.peerDone || h.aux&finClosed == 0)):
		return &ProtocolError{h.kind.String(), "one after FIN", "none"}
	case h.kind >= kindLend:
		return l.checkControl(h)
	}
	return nil
}

// took counts n data frames as taken by the application, and informs the peer when it is time.
// Preconditions: l.mu is held.
func (l *link) took(n uint32) {
	l.consumed += n
	if l.grow {
		l.grow = false
		l.widen()
	}
	if l.target < l.window {
		l.narrow()
	}
	if untold := l.consumed + l.target - l.told; !before(untold, max(l.target/2, 1)) && untold>>31 == 0 {
		l.owed = !l.finIn
	}
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

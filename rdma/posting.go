package rdma

import (
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/rdma/internal/wire"
)

const (
	postMost  = 4  // frames that are posted with one doorbell
	batchMost = 16 // the same, once the program has used a Batch
)

// posting is a list of work requests for one doorbell.
type posting struct {
	wrs      []ibv.SendWR
	sges     []ibv.SGE // two for each
	controls [][maxInline]byte
	inlined  []slot // free once posted
}

func newPosting(n int) posting {
	return posting{wrs: make([]ibv.SendWR, n), sges: make([]ibv.SGE, 2*n), controls: make([][maxInline]byte, n),
		inlined: make([]slot, n)}
}

// hold lets frames be staged without being posted, until there are as many as one doorbell takes.
// Preconditions: the caller has writeTurn, and calls letGo.
func (l *link) hold() {
	l.mu.Lock()
	l.held = true
	if len(l.post.wrs) < batchMost {
		l.post = newPosting(batchMost)
	}
	l.mu.Unlock()
}

// letGo posts what was held.
func (l *link) letGo() {
	l.mu.Lock()
	l.held = false
	l.pump()
	l.mu.Unlock()
}

// stageRoom is how many frames may be staged.
// Preconditions: l.mu is held.
func (l *link) stageRoom() int {
	if l.held {
		return batchMost
	}
	return l.e.most.stage
}

// fromBuffer makes work request n send a frame of a buffer: with its header in front of the buffer's
// first bytes, or in the frame's block.
// Preconditions: l.mu is held.
func (l *link) fromBuffer(n int, h *wire.Header, f *frame) {
	wr, at := &l.post.wrs[n], &l.slots[l.posted%sqDepth]
	at.b, at.buf = f.b, f.buf
	l.buffers++
	sges := l.post.sges[2*n : 2*n : 2*n+2]
	if f.b != nil {
		h.Put(f.b.Header())
		header := sgeOf(f.b)
		header.Length = wire.HeaderLen
		wr.SGEs = append(sges, header, f.buf.sge(int(f.off), int(f.n)))
		return
	}
	size := wire.HeaderLen + int(f.n)
	mem := f.buf.mem[headerAt : headerAt+size]
	h.Put(mem)
	if size <= maxInline {
		wr.Inline, l.post.inlined[n].buf, at.buf = mem, f.buf, nil
		l.buffers--
		return
	}
	wr.SGEs = append(sges, f.buf.sge(-wire.HeaderLen, size))
}

// dropFrame returns the resources of a frame that is not sent.
func (l *link) dropFrame(f frame) {
	if f.b != nil {
		l.e.put(f.b)
	}
	if f.buf != nil {
		f.buf.unpin()
	}
}

// wantBack reports whether a frame is the last of a buffer that the pool should have back soon.
func (l *link) wantBack(f *frame) bool {
	return f.buf != nil && f.off+f.n == int32(f.buf.n) && (f.buf.n >= signalBuffer || l.e.eng.pool.waiting.Load() > 0)
}

// hurry asks for the completions of all sends from buffers.
func (e *Engine) hurry() {
	for _, l := range e.all() {
		l.mu.Lock()
		l.askBack()
		l.mu.Unlock()
	}
}

// askBack asks for the completions of sends from buffers, if nothing else will.
// Preconditions: l.mu is held.
func (l *link) askBack() {
	if l.buffers > 0 && l.signaled != l.posted {
		l.ping = true // its completion confirms all before it
		l.pump()
	}
}

//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

func spans(n int) []guest.IOV { return make([]guest.IOV, 0, n) }

// scratch is memory for reading and writing that is no message.
type scratch struct {
	cbuf   []byte
	civ    []guest.IOV
	rec    []byte
	riov   []guest.IOV
	places []int // in rec, of each record
	win    [3]guest.IOV
	look   []byte // a doorbell record and the blocks behind it
	tmp    [8]byte

	notes []piece // of a copy: where the adapter may write
}

// batch is messages on their way from one process (src) to one process (dst): gathered by one call, scattered by one
// call together with the completions for dst. They are of one queue pair, or, where many are ready, of several: see
// merge.go. Nothing of it is visible to a program before commit.
type batch struct {
	src, dst guest.Mem
	buf      []byte
	n        int // bytes in buf
	giov     []guest.IOV
	gfrom    int // where in buf giov goes
	siov     []guest.IOV
	lo, hi   uint64 // what siov touches
	cqes     []pending
	flip     int   // byte to corrupt, or -1
	receive  Fault // of the receive that the message finds
	tiny     [64]byte
	single   [1]piece // of a target, for bulk
	moved    bool
	err      error // why the last commit failed

	uncounted []uncounted

	// What commit undoes when memory turns out to be bad.
	part
	before     []part // of other queue pairs
	srq        *hca.SRQ
	next, used uint32
	wqes       int
}

// part is where the queues of a queue pair and of its peer were before a batch.
type part struct {
	qp, peer   *hca.QP
	tail, psn  uint32
	signaled   uint32
	count      uint64
	reads      uint32
	asked      bool
	tries, rnr uint8
	epsn, head uint32
}

// begin starts an empty batch of qp, or goes on with one that was left open.
func (e *Engine) begin(qp *hca.QP) {
	b, r := &e.b, &qp.Run
	if b.wqes > 0 {
		b.before = append(b.before, b.part)
	} else {
		b.clear()
		b.srq, b.flip, b.receive = nil, -1, FaultNone
		e.paged = false
	}
	b.part = part{qp: qp, tail: r.Tail, psn: r.PSN, signaled: r.Signaled, count: r.Count, reads: r.Reads,
		asked: r.Asked, tries: r.Tries, rnr: r.RNRTries}
}

func (b *batch) clear() {
	b.n, b.gfrom, b.lo, b.hi, b.moved, b.wqes = 0, 0, ^uint64(0), 0, false, 0
	b.before = b.before[:0]
	b.giov, b.siov, b.cqes, b.uncounted = b.giov[:0], b.siov[:0], b.cqes[:0], b.uncounted[:0]
}

// join makes the responder part of the batch. It reports whether the batch has no other one.
func (b *batch) join(peer *hca.QP, srq *hca.SRQ) bool {
	if b.peer != nil && (b.peer != peer || srq != b.srq && srq != nil && b.srq != nil) {
		return false
	}
	if b.peer == nil {
		b.peer, b.epsn, b.head = peer, peer.Run.EPSN, peer.Run.Head
	}
	if b.srq == nil && srq != nil {
		b.srq, b.next, b.used = srq, srq.Run.Next, srq.Run.Used
	}
	return true
}

// undo puts the queues back to where the batch began.
func (e *Engine) undo() {
	b := &e.b
	b.part.undo()
	for i := len(b.before) - 1; i >= 0; i-- {
		b.before[i].undo()
	}
	if b.srq != nil {
		b.srq.Run.Next, b.srq.Run.Used, b.srq.Run.Valid = b.next, b.used, 0
	}
	e.sigErrs = e.sigErrs[:0]
	b.clear()
}

func (p *part) undo() {
	r := &p.qp.Run
	r.Tail, r.PSN, r.Signaled, r.Count, r.Reads = p.tail, p.psn, p.signaled, p.count, p.reads
	r.Asked, r.Tries, r.RNRTries = p.asked, p.tries, p.rnr
	if p.peer != nil {
		p.peer.Run.EPSN, p.peer.Run.Head = p.epsn, p.head
	}
}

// fits reports whether a message of n bytes may join: the same two processes, room, and nothing read that the batch has
// yet to write.
func (b *batch) fits(src, dst guest.Mem, from []piece, n uint64, limit int) bool {
	if b.moved && (b.src != src || b.dst != dst) {
		return false
	}
	if uint64(b.n)+n > uint64(limit) || len(b.giov)+len(from) > cap(b.giov) || len(b.siov)+128 > cap(b.siov) {
		return false
	}
	return !b.dirty(from)
}

// dirty reports whether the batch has yet to write some of what is to be read.
func (b *batch) dirty(from []piece) bool {
	if b.hi == 0 {
		return false
	}
	for i := range from {
		if p := &from[i]; p.inl == nil && p.mem == b.dst && p.va < b.hi && p.va+p.n > b.lo {
			return true
		}
	}
	return false
}

const (
	okSide = iota
	badSource
	badTarget
)

// add puts bytes [off, off+n) of a message in the batch. The target has no pieces that swallow what is written: see
// bulk.
func (b *batch) add(src, dst guest.Mem, from, to []piece, off, n uint64) int {
	b.src, b.dst, b.moved = src, dst, true
	skip, left := off, n
	for i := range from {
		p := &from[i]
		if skip >= p.n {
			skip -= p.n
			continue
		}
		k := min(p.n-skip, left)
		if p.inl == nil && !p.zero && p.mem == src {
			if len(b.giov) == 0 {
				b.gfrom = b.n
			}
			b.giov = append(b.giov, guest.IOV{Base: p.va + skip, Len: k})
		} else {
			if b.gather() != nil {
				return badSource
			}
			d := b.buf[b.n : b.n+int(k)]
			switch {
			case p.zero:
				clear(d)
			case p.inl != nil:
				copy(d, p.inl[skip:])
			default:
				if b.err = p.mem.Read(p.va+skip, d); b.err != nil {
					return badSource
				}
			}
		}
		b.n += int(k)
		skip = 0
		if left -= k; left == 0 {
			break
		}
	}
	skip, left = off, n
	for i := range to {
		p := &to[i]
		if skip >= p.n {
			skip -= p.n
			continue
		}
		k := min(p.n-skip, left)
		b.siov = append(b.siov, guest.IOV{Base: p.va + skip, Len: k})
		b.lo, b.hi = min(b.lo, p.va+skip), max(b.hi, p.va+skip+k)
		skip = 0
		if left -= k; left == 0 {
			break
		}
	}
	return okSide
}

// small reads a payload of up to 64 bytes into b.tiny at once, for a completion that carries it.
func (b *batch) small(from []piece) bool {
	k := 0
	for i := range from {
		p := &from[i]
		d := b.tiny[k : k+int(p.n)]
		switch {
		case p.inl != nil:
			copy(d, p.inl)
		case p.zero:
			clear(d)
		case p.n > 0:
			if b.err = p.mem.Read(p.va, d); b.err != nil {
				return false
			}
		}
		k += len(d)
	}
	if b.flip >= 0 {
		b.tiny[0] ^= 1
		b.flip = -1
	}
	return true
}

// gather reads what was planned.
func (b *batch) gather() error {
	if len(b.giov) == 0 {
		return nil
	}
	b.err = b.src.ReadV(b.buf[b.gfrom:b.n], b.giov)
	b.giov = b.giov[:0]
	return b.err
}

// commit moves the payloads and writes the completions. On a bad side nothing was completed, and the caller undoes.
func (e *Engine) commit() int {
	b := &e.b
	if b.gather() != nil {
		return badSource
	}
	if b.flip >= 0 && b.flip < b.n {
		b.buf[b.flip] ^= 1
	}
	n, k := b.n, len(b.siov)
	e.number()
	for i := range b.cqes {
		if p := &b.cqes[i]; !p.drop && !p.inBlock && n > 0 && p.cq.Mem == b.dst {
			b.n += p.image(b.buf[b.n:])
			b.siov = p.spans(b.siov)
		}
	}
	if n > 0 {
		if err := b.dst.WriteV(b.buf[:b.n], b.siov); err != nil {
			if b.err = err; b.n == n || b.dst.WriteV(b.buf[:n], b.siov[:k]) != nil {
				e.unnumber()
				return badTarget
			}
			for i := range b.cqes {
				if p := &b.cqes[i]; !p.drop && p.cq.Mem == b.dst {
					e.lostCQ(p.cq, err)
				}
			}
		}
	}
	if (n > 0 || b.wqes > 0) && len(e.ready) >= fewReady {
		e.postpone(n > 0)
	}
	for i := 0; i < len(b.cqes); {
		if p := &b.cqes[i]; p.drop || p.inBlock || n > 0 && p.cq.Mem == b.dst {
			i++
			continue
		}
		i = e.writeCQEs(b.cqes, i, n > 0)
	}
	for i := range b.cqes {
		if b.cqes[i].block > 0 {
			e.writeBlock(i)
		}
	}
	for i := range b.cqes {
		if p := &b.cqes[i]; !p.drop {
			e.written(p)
		}
	}
	for i := range b.uncounted {
		b.uncounted[i].count()
	}
	b.clear()
	e.notify()
	return okSide
}

// postpone takes the completions of a batch out of it that did not go with its data, to be written with those of other
// queue pairs: the requester's, and where no data was moved the responder's, too.
func (e *Engine) postpone(moved bool) {
	b := &e.b
	for i := range b.cqes {
		p := &b.cqes[i]
		if p.drop || p.inBlock || p.block > 0 || moved && p.cq.Mem == b.dst {
			continue
		}
		if len(e.later) == cap(e.later) {
			e.writeLater()
		}
		e.later = append(e.later, *p)
		p.drop = true
	}
}

// writeLater writes the completions that were postponed: before an event is raised or a queue is flushed, and before
// others have the fabric's lock.
func (e *Engine) writeLater() {
	list := e.later
	e.later = e.later[:0]
	for i := range list {
		list[i].drop = list[i].cq.Run.Dead // since then
	}
	for i := 0; i < len(list); {
		if list[i].drop {
			i++
			continue
		}
		i = e.writeCQEs(list, i, false)
	}
	for i := range list {
		if p := &list[i]; !p.drop {
			e.written(p)
		}
	}
}

// writeCQEs writes the completions from i on that are for the same process as it, and returns the first one that is
// not.
func (e *Engine) writeCQEs(cqes []pending, i int, skipDst bool) int {
	m := cqes[i].cq.Mem
	s := &e.io
	s.cbuf, s.civ = s.cbuf[:0], s.civ[:0]
	j := i
	for ; j < len(cqes); j++ {
		p := &cqes[j]
		if p.drop || p.inBlock || skipDst && p.cq.Mem == e.b.dst {
			continue
		}
		if p.cq.Mem != m || len(s.cbuf)+128 > cap(s.cbuf) {
			break
		}
		k := len(s.cbuf)
		s.cbuf = s.cbuf[:k+128]
		s.cbuf = s.cbuf[:k+p.image(s.cbuf[k:])]
		s.civ = p.spans(s.civ)
	}
	if err := m.WriteV(s.cbuf, s.civ); err != nil {
		for ; i < j; i++ {
			if p := &cqes[i]; !p.drop && p.cq.Mem == m {
				e.lostCQ(p.cq, err)
			}
		}
	}
	return j
}

//go:build linux

package engine

import (
	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

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
	flip     int        // byte to corrupt, or -1
	receive  fault.Kind // of the receive that the message finds
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

// newBatch returns a batch of so many WQEs.
func newBatch(n int) *batch {
	return &batch{buf: make([]byte, bounce+128*(2*n+2)), giov: spans(2*n + 64), siov: spans(6*n + 64),
		before: make([]part, 0, n), uncounted: make([]uncounted, 0, n+1), cqes: make([]pending, 0, 2*n+2)}
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
func (b *batch) fits(src, dst guest.Mem, from []piece, n uint64) bool {
	if b.moved && (b.src != src || b.dst != dst) {
		return false
	}
	if uint64(b.n)+n > bounce || len(b.giov)+len(from) > cap(b.giov) || len(b.siov)+128 > cap(b.siov) {
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
			if b.err = p.read(skip, b.buf[b.n:b.n+int(k)]); b.err != nil {
				return badSource
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
	if b.err = gather(from, b.tiny[:]); b.err != nil {
		return false
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

// count has the ports' counters updated after a work request of n bytes.
func (b *batch) count(qp *hca.QP, opcode uint8, n uint64) {
	if qp.Type == hca.RawPacket {
		return // the counters of RDMA do not count frames
	}
	u := uncounted{here: qp.Port(), n: n, mtu: uint64(128) << (qp.Attr.PathMTU & 7), opcode: opcode}
	if qp.Run.Peer != nil {
		u.there = qp.Run.Peer.Port()
	}
	b.uncounted = append(b.uncounted, u)
}

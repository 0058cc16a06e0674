//go:build linux

package engine

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random test; 0 takes the time")

// TestRandom does random operations on several QPs, in both directions, against a model in memory.
func TestRandom(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", seed)
	defer func() {
		if t.Failed() {
			t.Logf("repeat with -seed %d", seed)
		}
	}()
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 1)), r: newRig(t, "mlx5_0", 64<<20)}
	nodes := []*node{m.r.node(0), m.r.node(0)}
	for range 3 {
		m.connect(nodes)
	}
	for step := range 3000 {
		m.step(step)
	}
	for i, x := range m.ends {
		m.finish(x)
		m.compare(i, x)
	}
	m.r.clean()
}

const (
	modelSize = 1 << 18
	modelHalf = modelSize / 2
	modelRoom = 4096 // at the end of a half: the longest message fits
)

// model is what the memories of several QPs have to look like.
type model struct {
	t    *testing.T
	rng  *rand.Rand
	r    *rig
	ends []*end // two of a pair follow each other
}

// end is one QP, and what is under way on it.
type end struct {
	q        *qp
	mem      *mr
	model    []byte // what mem has to hold
	scq, rcq *cq
	signals  []uint16 // counters of signaled WQEs under way
	expect   []expected
}

// expected is a receive's completion.
type expected struct {
	op  uint8
	n   int
	imm uint32
	at  int
}

func (m *model) connect(nodes []*node) {
	var two [2]*end
	for i, n := range nodes {
		o := qpOpts{sq: 128, rq: 64}
		if m.rng.IntN(2) == 0 {
			o.flags, o.sigAll = qpScatterCQE, m.rng.IntN(2) == 0
		}
		cs := 64 << m.rng.IntN(2)
		x := &end{scq: n.cq(256, cs), rcq: n.cq(256, cs), mem: n.mr(modelSize, anyAccess)}
		x.model = make([]byte, modelSize)
		x.q = n.qp(x.scq, x.rcq, o)
		for i := range x.model {
			x.model[i] = byte(m.rng.Uint32())
		}
		copy(x.mem.buf, x.model)
		two[i] = x
	}
	at := defaults()
	at.psn = m.rng.Uint32() & 0xffffff
	at.peerPSN = at.psn
	at.rnr, at.mtu = 7, uint8(1+m.rng.IntN(3))
	connect(at, two[0].q, two[1].q)
	m.ends = append(m.ends, two[0], two[1])
}

// source and target are places in the halves that have them: what is under way must not change.
func (m *model) source() int { return m.rng.IntN(modelHalf - modelRoom) }
func (m *model) target() int { return modelHalf + m.rng.IntN(modelHalf-modelRoom) }

// finish polls what an end completed. Inline payloads of reads land in the completion; the program copies them as
// libmlx5 does.
func (m *model) finish(x *end) {
	m.t.Helper()
	m.r.settle()
	for {
		v, ok := x.scq.poll()
		if !ok {
			break
		}
		if v.isErr() || len(x.signals) == 0 || x.signals[0] != v.counter() {
			m.t.Fatalf("completion %x, want WQE %v", v.b, x.signals)
		}
		x.signals = x.signals[1:]
		inlined(x.mem, v, x.q.sq[int(v.counter())*64%len(x.q.sq):], x.q.sq)
	}
	for {
		v, ok := x.rcq.poll()
		if !ok {
			break
		}
		if len(x.expect) == 0 {
			m.t.Fatalf("a receive that nobody sent: %x", v.b)
		}
		w := x.expect[0]
		x.expect = x.expect[1:]
		if v.opcode() != w.op || v.bytes() != uint32(w.n) || w.op != cqeRespSend && v.imm() != w.imm {
			m.t.Fatalf("receive %x, want %+v", v.b, w)
		}
		if v.format() != 0 {
			copy(x.mem.buf[w.at:w.at+w.n], payloadOf(v))
		}
	}
}

var modelLens = []int{1, 7, 8, 31, 32, 33, 64, 65, 255, 1024, 3000}

// step posts one operation.
func (m *model) step(step int) {
	k := m.rng.IntN(len(m.ends))
	x, y := m.ends[k], m.ends[k^1]
	if int(x.q.pi-x.q.q.Run.Tail)+8 > 100 || len(x.signals) > 40 || step%16 == 0 {
		for _, z := range m.ends {
			m.finish(z)
		}
	}
	n := modelLens[m.rng.IntN(len(modelLens))]
	flags := byte(0)
	sig := step%5 == 0 || x.q.q.SigAll
	if sig {
		flags = signaled
	}
	op := []uint8{opWrite, opWrite, opRead, opSend, opSendImm, opWriteImm, opAtomicFA, opAtomicCS, opNOP}[m.rng.IntN(9)]
	at := m.post(x, y, op, flags, n, uint32(step))
	if sig {
		x.signals = append(x.signals, uint16(at))
	}
	x.q.ring()
	// Results in completions come late, and the two directions have no order: only batches of plain writes stay
	// under way.
	all := op != opWrite && op != opNOP || m.rng.IntN(8) == 0
	for _, z := range m.ends {
		if all || z != x {
			m.finish(z)
		}
	}
}

// post posts an operation of n bytes from x to y, and does it in the model. READs and atomics go to a place that
// nothing else writes: the model has no order between the two directions.
func (m *model) post(x, y *end, op, flags byte, n int, imm uint32) uint32 {
	src, dst := m.source(), m.target()
	remote := func(off int) []byte { a, key := y.mem.at(off); return raddr(a, key) }
	switch op {
	case opWrite:
		copy(y.model[dst:], x.model[src:src+n])
		return x.q.post(op, flags, 0, append([][]byte{remote(dst)}, m.data(x, src, n)...)...)
	case opRead:
		copy(x.model[dst:], y.model[src:src+n])
		return x.q.post(op, flags, 0, append([][]byte{remote(src)}, m.list(x, dst, n)...)...)
	case opSend, opSendImm:
		to := m.target()
		y.q.recv(y.mem.sge(to, n/2+1), y.mem.sge(to+n/2+1, 4000-n/2-1))
		copy(y.model[to:], x.model[src:src+n])
		c := expected{cqeRespSend, n, 0, to}
		if op == opSendImm {
			c.op, c.imm = cqeRespSendImm, imm
		}
		y.expect = append(y.expect, c)
		return x.q.post(op, flags, imm, m.data(x, src, n)...)
	case opWriteImm:
		y.q.recv()
		copy(y.model[dst:], x.model[src:src+n])
		y.expect = append(y.expect, expected{cqeRespWrImm, n, imm, dst})
		return x.q.post(op, flags, imm, append([][]byte{remote(dst)}, m.data(x, src, n)...)...)
	case opAtomicFA, opAtomicCS:
		dst &^= 7
		back := m.target() &^ 7
		old, arg := ne.Uint64(y.model[dst:]), m.rng.Uint64()
		operands := seg(arg, uint64(0))
		if op == opAtomicFA {
			ne.PutUint64(y.model[dst:], old+arg)
		} else {
			cmp := old + uint64(m.rng.IntN(2))
			if cmp == old {
				ne.PutUint64(y.model[dst:], arg)
			}
			operands = seg(arg, cmp)
		}
		ne.PutUint64(x.model[back:], old)
		return x.q.post(op, flags, 0, remote(dst), operands, x.mem.sge(back, 8))
	}
	return x.q.post(opNOP, flags, 0)
}

// list is n bytes at a place of an end's memory, in up to four segments.
func (m *model) list(x *end, at, n int) (segs [][]byte) {
	for left := n; left > 0; {
		k := left
		if len(segs) < 3 && left > 1 {
			k = 1 + m.rng.IntN(left)
		}
		segs = append(segs, x.mem.sge(at, k))
		at, left = at+k, left-k
	}
	return segs
}

// data is the same to be sent, inline at times.
func (m *model) data(x *end, at, n int) [][]byte {
	if n <= 64 && m.rng.IntN(2) == 0 {
		return [][]byte{inlineSeg(x.model[at : at+n])}
	}
	return m.list(x, at, n)
}

func (m *model) compare(i int, x *end) {
	if len(x.signals) > 0 || len(x.expect) > 0 {
		m.t.Errorf("end %d: without completion: %v %v", i, x.signals, x.expect)
	}
	if bytes.Equal(x.mem.buf, x.model) {
		return
	}
	for j := range x.model {
		if x.model[j] != x.mem.buf[j] {
			m.t.Fatalf("end %d: byte %d is %#x, the model has %#x", i, j, x.mem.buf[j], x.model[j])
		}
	}
}

func payloadOf(v cqe) []byte {
	b := v.b[:32]
	if v.format() == 2 {
		b = v.hi
	}
	return b[:v.bytes()]
}

// inlined copies a READ's or atomic's result from its completion to where the WQE says.
func inlined(m *mr, v cqe, wqe, ring []byte) {
	if v.format() == 0 {
		return
	}
	b := payloadOf(v)
	off := 32
	if v.wqeOp() != opRead {
		off = 48
	}
	w := append(append([]byte{}, wqe...), ring...)
	for ; len(b) > 0; off += 16 {
		n := min(int(be.Uint32(w[off:])), len(b))
		to := be.Uint64(w[off+8:]) - va(m.buf)
		copy(m.buf[to:], b[:n])
		b = b[n:]
	}
}

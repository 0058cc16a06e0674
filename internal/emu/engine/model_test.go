//go:build linux

package engine

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/emu/config"
	"github.com/pureverbs/pureverbs/internal/emu/hca"
	"github.com/pureverbs/pureverbs/internal/testutil"
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
	rng := rand.New(rand.NewPCG(seed, 1))
	r := newRig(t, "mlx5_0", 64<<20)
	nodes := []*node{r.node(0), r.node(0)}
	const size = 1 << 18
	type end struct {
		q        *qp
		mem      *mr
		model    []byte
		scq, rcq *cq
		signals  []uint16 // counters of signaled WQEs under way
		expect   []expected
	}
	var ends []*end
	for range 3 {
		var two [2]*end
		for i, n := range nodes {
			o := qpOpts{sq: 128, rq: 64}
			if rng.IntN(2) == 0 {
				o.flags, o.sigAll = qpScatterCQE, rng.IntN(2) == 0
			}
			cs := 64 << rng.IntN(2)
			x := &end{scq: n.cq(256, cs), rcq: n.cq(256, cs), mem: n.mr(size, anyAccess), model: make([]byte, size)}
			x.q = n.qp(x.scq, x.rcq, o)
			for i := range x.model {
				x.model[i] = byte(rng.Uint32())
			}
			copy(x.mem.buf, x.model)
			two[i] = x
		}
		at := defaults()
		at.psn = rng.Uint32() & 0xffffff
		at.peerPSN = at.psn
		at.rnr, at.mtu = 7, uint8(1+rng.IntN(3))
		connect(at, two[0].q, two[1].q)
		ends = append(ends, two[0], two[1])
	}
	// Inline payloads of reads land in the completion; the program copies them as libmlx5 does.
	finish := func(x *end) {
		t.Helper()
		r.settle()
		for {
			v, ok := x.scq.poll()
			if !ok {
				break
			}
			if v.isErr() || len(x.signals) == 0 || x.signals[0] != v.counter() {
				t.Fatalf("completion %x, want WQE %v", v.b, x.signals)
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
				t.Fatalf("a receive that nobody sent: %x", v.b)
			}
			w := x.expect[0]
			x.expect = x.expect[1:]
			if v.opcode() != w.op || v.bytes() != uint32(w.n) || w.op != cqeRespSend && v.imm() != w.imm {
				t.Fatalf("receive %x, want %+v", v.b, w)
			}
			if v.format() != 0 {
				copy(x.mem.buf[w.at:w.at+w.n], payloadOf(v))
			}
		}
	}
	lens := []int{1, 7, 8, 31, 32, 33, 64, 65, 255, 1024, 3000}
	for step := range 3000 {
		k := rng.IntN(len(ends))
		x := ends[k]
		y := ends[k^1]
		if int(x.q.pi-x.q.q.Run.Tail)+8 > 100 || len(x.signals) > 40 || step%16 == 0 {
			for _, z := range ends {
				finish(z)
			}
		}
		n := lens[rng.IntN(len(lens))]
		// Sources are in the lower half, targets anywhere in the upper: what is under way must not change.
		src := rng.IntN(size/2 - 4096)
		dst := size/2 + rng.IntN(size/2-4096)
		flags := byte(0)
		sig := step%5 == 0 || x.q.q.SigAll
		if sig {
			flags = signaled
		}
		local := func(at int) (segs [][]byte) {
			for left := n; left > 0; {
				m := left
				if len(segs) < 3 && left > 1 {
					m = 1 + rng.IntN(left)
				}
				segs = append(segs, x.mem.sge(at, m))
				at, left = at+m, left-m
			}
			return segs
		}
		remote := func(off int) []byte { a, key := y.mem.at(off); return raddr(a, key) }
		data := func() [][]byte {
			if n <= 64 && rng.IntN(2) == 0 {
				return [][]byte{inlineSeg(x.model[src : src+n])}
			}
			return local(src)
		}
		op := []uint8{opWrite, opWrite, opRead, opSend, opSendImm, opWriteImm, opAtomicFA, opAtomicCS,
			opNOP}[rng.IntN(9)]
		imm := uint32(step)
		// READs and atomics go to a place that nothing else writes: the model has no order between the two directions.
		var at uint32
		switch op {
		case opWrite:
			copy(y.model[dst:], x.model[src:src+n])
			at = x.q.post(op, flags, 0, append([][]byte{remote(dst)}, data()...)...)
		case opRead:
			copy(x.model[dst:], y.model[src:src+n])
			at = x.q.post(op, flags, 0, append([][]byte{remote(src)}, local(dst)...)...)
		case opSend, opSendImm:
			to := size/2 + rng.IntN(size/2-4096)
			y.q.recv(y.mem.sge(to, n/2+1), y.mem.sge(to+n/2+1, 4000-n/2-1))
			copy(y.model[to:], x.model[src:src+n])
			c := expected{cqeRespSend, n, 0, to}
			if op == opSendImm {
				c.op, c.imm = cqeRespSendImm, imm
			}
			y.expect = append(y.expect, c)
			at = x.q.post(op, flags, imm, data()...)
		case opWriteImm:
			y.q.recv()
			copy(y.model[dst:], x.model[src:src+n])
			y.expect = append(y.expect, expected{cqeRespWrImm, n, imm, dst})
			at = x.q.post(op, flags, imm, append([][]byte{remote(dst)}, data()...)...)
		case opAtomicFA, opAtomicCS:
			dst &^= 7
			back := size/2 + rng.IntN(size/2-4096)&^7
			old := ne.Uint64(y.model[dst:])
			arg := rng.Uint64()
			if op == opAtomicFA {
				ne.PutUint64(y.model[dst:], old+arg)
				at = x.q.post(op, flags, 0, remote(dst), seg(arg, uint64(0)), x.mem.sge(back, 8))
			} else {
				cmp := old + uint64(rng.IntN(2))
				if cmp == old {
					ne.PutUint64(y.model[dst:], arg)
				}
				at = x.q.post(op, flags, 0, remote(dst), seg(arg, cmp), x.mem.sge(back, 8))
			}
			ne.PutUint64(x.model[back:], old)
		case opNOP:
			at = x.q.post(op, flags, 0)
		}
		if sig {
			x.signals = append(x.signals, uint16(at))
		}
		x.q.ring()
		// Results in completions come late, and the two directions have no order: only batches of plain writes stay
		// under way.
		if op != opWrite && op != opNOP || rng.IntN(8) == 0 {
			for _, z := range ends {
				finish(z)
			}
		} else {
			for _, z := range ends {
				if z != x {
					finish(z)
				}
			}
		}
	}
	for i, x := range ends {
		finish(x)
		if len(x.signals) > 0 || len(x.expect) > 0 {
			t.Errorf("end %d: without completion: %v %v", i, x.signals, x.expect)
		}
		if !bytes.Equal(x.mem.buf, x.model) {
			for j := range x.model {
				if x.model[j] != x.mem.buf[j] {
					t.Fatalf("end %d: byte %d is %#x, the model has %#x", i, j, x.mem.buf[j], x.model[j])
				}
			}
		}
	}
	r.clean()
}

type expected struct {
	op  uint8
	n   int
	imm uint32
	at  int
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

// TestLoop runs the real loop: latency, idleness, stopping, and commands that want the lock while it works.
func TestLoop(t *testing.T) {
	p := newPair(t, qpOpts{sq: 256}, nil)
	e := p.r.e
	p.r.broken = nil
	go e.Run()
	p.r.f.Unlock()
	poll := func() {
		for end := time.Now().Add(testutil.Patience); ; runtime.Gosched() {
			if _, ok := p.acq.poll(); ok {
				return
			}
			if time.Now().After(end) {
				t.Error("no completion")
				return
			}
		}
	}
	addr, key := p.mb.at(0)
	for range 200 {
		p.qa.send(opWrite, signaled, 0, raddr(addr, key), inlineSeg(p.ma.buf[:8]))
		poll()
	}
	// A command's wait for the lock.
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 50 {
			p.qa.send(opWrite, signaled, 0, raddr(addr, key), p.ma.sge(0, 1<<20))
			poll()
		}
	})
	var worst time.Duration
	for range 100 {
		s := time.Now()
		p.r.f.Lock()
		worst = max(worst, time.Since(s))
		p.r.f.Unlock()
		time.Sleep(200 * time.Microsecond)
	}
	wg.Wait()
	t.Logf("longest wait for the lock %v", worst)
	time.Sleep(1200 * time.Millisecond)
	cpu := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	c, s := cpu(), time.Now()
	time.Sleep(time.Second)
	load := 100 * float64(cpu()-c) / float64(time.Since(s))
	t.Logf("idle: %.2f %% of a core", load)
	if load > 5 && !raceEnabled {
		t.Errorf("%.1f %% of a core when idle", load)
	}
	e.Stop()
	p.r.f.Lock()
	p.r.clean()
}

const raceEnabled = false

// FuzzWQE feeds arbitrary bytes to every transport; nothing may panic or hang.
func FuzzWQE(f *testing.F) {
	f.Add([]byte{0, 0, 0, opWrite, 0, 0, 0x40, 3, 0, 0, 0, 8, 0, 0, 0, 0}, uint8(2))
	f.Add(append([]byte{0, 0, 0, opSend, 0, 0, 0x40, 2, 0, 0, 0, 8, 0, 0, 0, 0}, inlineSeg([]byte("abc"))...), uint8(4))
	f.Add([]byte{0, 0, 0, opUMR, 0, 0, 0x40, 9, 0, 0, 0, 8, 0, 0, 0, 0}, uint8(2))
	for op := range 64 {
		f.Add([]byte{0, 0, 0, byte(op), 0, 0, 0x40, 12, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1}, uint8(8))
	}
	f.Fuzz(func(t *testing.T, b []byte, typ uint8) {
		types := []hca.QPType{hca.RC, hca.UC, hca.UD, hca.XRCSend, hca.DriverQP}
		var w wqe
		copy(w.raw[:], b)
		w.control()
		if w.size >= 16 {
			if w.parse(types[int(typ)%len(types)]) == "" && (w.nsge > len(w.sges) || w.n > 1<<40) {
				t.Errorf("%d segments, %d bytes", w.nsge, w.n)
			}
			_ = w.apply(7)
			if len(w.av) == 48 {
				_ = parseAV(w.av)
			}
		}
	})
}

// FuzzEngine posts arbitrary bytes as WQEs and receives to connected QPs.
func FuzzEngine(f *testing.F) {
	f.Add(bytes.Repeat([]byte{0, 0, 0, opSend, 0, 0, 0x40, 2, 0, 0, 0, 8, 0, 0, 0, 0}, 8),
		bytes.Repeat([]byte{0, 0, 0, 8}, 8), uint8(0))
	f.Add(bytes.Repeat([]byte{0, 0, 0, opRead, 0, 0, 0x40, 4, 0, 0, 0, 8, 0, 0, 0, 0}, 8),
		[]byte(strings.Repeat("x", 64)), uint8(1))
	c := config.Default()
	f.Fuzz(func(t *testing.T, wqes, recvs []byte, typ uint8) {
		r := newRigOf(t, c, 1<<20)
		n := r.node(0)
		cq := n.cq(16, 64)
		o := qpOpts{typ: []hca.QPType{hca.RC, hca.UC, hca.UD}[typ%3], sq: 16}
		a, b := n.qp(cq, cq, o), n.qp(cq, cq, o)
		connect(defaults(), a, b)
		m := n.mr(4096, anyAccess)
		b.recv(m.sge(0, 64))
		copy(b.rq, recvs)
		copy(a.sq, wqes)
		be.PutUint32(a.sq[4:], a.q.Num<<8|be.Uint32(a.sq[4:])&0x3f)
		a.pi, a.last = 1+uint32(len(wqes)/64)%20, a.sq[:8]
		if be.Uint64(a.last) != 0 {
			a.ring()
		}
		for range 20 {
			r.e.turn()
		}
	})
}

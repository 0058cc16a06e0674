package selftest

import (
	"encoding/binary"
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// largest is the largest message of step 2.
const largest = 1 << 20

// sizes are those of step 2: around each power of two, because queues, completions and packets end there.
func sizes() []int {
	list := []int{1, 2, 3}
	for n := 4; n <= largest; n *= 2 {
		list = append(list, n-1, n, n+1)
	}
	return list[:len(list)-1]
}

// transferStep is step 2.
func transferStep(s *stage) {
	for _, path := range paths {
		for _, c := range []struct {
			op     ibv.Opcode
			inline bool
		}{
			{ibv.OpWrite, false}, {ibv.OpWrite, true}, {ibv.OpWriteImm, false}, {ibv.OpRead, false},
			{ibv.OpSend, false}, {ibv.OpSend, true}, {ibv.OpSendImm, false},
		} {
			name := fmt.Sprintf("%v, %v", c.op, path)
			if c.inline {
				name = fmt.Sprintf("%v inline, %v", c.op, path)
			}
			s.check(name, func(b *box) { transfers(b, path, c.op, c.inline) })
		}
		s.check(fmt.Sprintf("atomics, %v", path), func(b *box) { atomics(b, path) })
	}
}

// transfers moves a message of each size, and compares the bytes and those around.
func transfers(b *box, path ibv.DataPath, op ibv.Opcode, inline bool) {
	const margin, clean = 64, 0xa5
	opt := pairOptions{path: path, memory: largest + 2*margin}
	if inline {
		opt.qp.MaxInline = 200
	}
	x, y, _ := b.pair(opt)
	for i, n := range sizes() {
		if inline && n > x.qp.Cap().MaxInline || b.ctx.Err() != nil {
			break
		}
		from, to := x, y
		if op == ibv.OpRead {
			from, to = y, x
		}
		src, dst := from.mr.Bytes(), to.mr.Bytes()
		fill(src[margin:][:n], i)
		set(dst[:n+2*margin], clean)
		wr := ibv.SendWR{ID: uint64(i), Opcode: op, Flags: ibv.Signaled, Imm: uint32(i) << 20,
			SGEs: []ibv.SGE{x.mr.SGE(margin, n)}, Remote: y.mr.Remote().At(margin)}
		if inline {
			wr.SGEs, wr.Inline = nil, src[margin:][:n]
		}
		receives := op != ibv.OpWrite && op != ibv.OpRead
		if receives {
			b.recv(y.qp, uint64(i), y.mr.SGE(margin, n))
		}
		x.post(wr)
		x.good(uint64(i))
		if receives {
			wc := y.good(uint64(i))
			if wc.ByteLen != uint32(n) {
				b.fail("%d bytes arrived as %d", n, wc.ByteLen)
			}
			if op != ibv.OpSend && wc.Imm != wr.Imm {
				b.fail("immediate data %#x arrived as %#x", wr.Imm, wc.Imm)
			}
		}
		what := fmt.Sprintf("%d bytes", n)
		b.same(what, dst[margin:][:n], i)
		b.all(what+", before them", dst[:margin], clean)
		b.all(what+", behind them", dst[margin+n:][:margin], clean)
		b.check.Count++
	}
}

// atomics executes both atomics of 8 bytes.
func atomics(b *box, path ibv.DataPath) {
	x, y, _ := b.pair(pairOptions{path: path, memory: 4096})
	ours, theirs := x.mr.Bytes(), y.mr.Bytes()
	value := uint64(0x0102030405060708)
	binary.NativeEndian.PutUint64(theirs[8:], value)
	step := func(op ibv.Opcode, compare, swap, want uint64) {
		x.post(ibv.SendWR{ID: 1, Opcode: op, Flags: ibv.Signaled, SGEs: []ibv.SGE{x.mr.SGE(0, 8)},
			Remote: y.mr.Remote().At(8), CompareAdd: compare, Swap: swap})
		x.good(1)
		old, now := binary.NativeEndian.Uint64(ours), binary.NativeEndian.Uint64(theirs[8:])
		if old != value || now != want {
			b.fail("%v: returned %#x and left %#x, want %#x and %#x", op, old, now, value, want)
		}
		value = now
		b.check.Count++
	}
	step(ibv.OpFetchAdd, 0x1000, 0, value+0x1000)
	step(ibv.OpCompareSwap, value, 0x1122334455667788, 0x1122334455667788)
	step(ibv.OpCompareSwap, 1, 2, value)
}

//go:build linux

package engine

import (
	"testing"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// zipped polls a CQ with compression as a program may: it expands blocks in the ring.
func (c *cq) zipped() (list []cqe, block int) {
	p := func(i uint32) []byte { return c.buf[int(i&(c.ents-1)+1)*c.size-64:][:64] }
	for {
		title := p(c.ci)
		own := byte(0)
		if c.ci&c.ents != 0 {
			own = 1
		}
		if title[63]>>4 == 15 || title[63]&1 != own {
			return list, block
		}
		if title[63]>>2&3 == 3 {
			n := be.Uint32(title[44:])
			block = max(block, int(n))
			t := append([]byte(nil), title...)
			var words []byte
			for i := uint32(0); i < n; i += 8 {
				words = append(words, p(c.ci+max(i, 1))...)
			}
			for i := range n {
				e, w := p(c.ci+i), words[8*i:]
				copy(e, t)
				copy(e[44:48], w[4:8])
				e[63] = t[63] & 0xf0
				if (c.ci+i)&c.ents != 0 {
					e[63] |= 1
				}
				switch {
				case t[63]>>4 == 0:
					copy(e[60:62], w)
					e[56] = w[2]
				case c.q.Format == hca.FormatStride:
					copy(e[60:62], w[2:4])
				default:
					be.PutUint16(e[60:], be.Uint16(t[60:])+uint16(i))
				}
			}
		}
		v, _ := c.poll()
		list = append(list, v)
	}
}

// Messages of one batch complete as blocks at both ends, whose bytes a reader of its own expands; immediate data and a
// solicited event have entries of their own.
func TestBlock(t *testing.T) {
	for _, format := range []uint32{hca.FormatHash, hca.FormatChecksum, hca.FormatStride} {
		for _, size := range []int{64, 128} {
			p := newPair(t, qpOpts{}, nil)
			a, b := p.a.cq(32, size), p.b.cq(32, size)
			a.q.Format, b.q.Format = format, format
			qa, qb := p.a.qp(a, a, qpOpts{}), p.b.qp(b, b, qpOpts{})
			connect(defaults(), qa, qb)
			sent, blocks, at := uint32(0), 0, uint16(0)
			for lap := range 12 {
				const n = 11
				for range n {
					qb.recv(p.mb.sge(0, 4096))
				}
				for i := range n {
					op, flags := uint8(opSend), uint8(signaled)
					switch i {
					case 9:
						op = opSendImm
					case 10:
						flags |= flagSolicited
					}
					qa.post(op, flags, 5, p.ma.sge(0, 100+i))
				}
				qa.ring()
				p.r.settle()
				got, longest := a.zipped()
				blocks = max(blocks, longest)
				if len(got) != n {
					t.Fatalf("lap %d: %d completions of sends", lap, len(got))
				}
				for i, c := range got {
					if op := c.wqeOp(); c.opcode() != cqeReq || uint32(c.counter()) != sent&0xffff ||
						op != opSend && (i != 9 || op != opSendImm) {
						t.Fatalf("lap %d, send %d: % x", lap, i, c.b)
					}
					sent++
				}
				got, longest = b.zipped()
				blocks = min(blocks, longest)
				if len(got) != n {
					t.Fatalf("lap %d: %d completions of receives", lap, len(got))
				}
				for i, c := range got {
					if c.counter() != at || c.bytes() != uint32(100+i) || c.se() != (i == 10) ||
						(c.opcode() == cqeRespSendImm) != (i == 9) {
						t.Fatalf("lap %d, receive %d: % x", lap, i, c.b)
					}
					at++
				}
			}
			if blocks != 9 {
				t.Errorf("format %d, %d bytes: blocks of %d, want 9 receives", format, size, blocks)
			}
			p.r.clean()
		}
	}
}

//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// On a CQ with compression, completions of a batch that follow one another in the ring and are alike are written as a
// block: the first one as the title, with format 3 and their number as its length, and 8 bytes for each of them. The
// first eight of these lie in the entry behind the title, the others in each eighth entry of the block.

const (
	compressed = 3 << 2 // format of a title
	perArray   = 8
)

// pack finds the blocks of a batch.
func (cs *completions) pack() {
	cqes := cs.b.cqes
	for i := range cqes {
		first := &cqes[i]
		if first.drop || first.inBlock || first.cq.Format == 0 {
			continue
		}
		n, last := uint32(1), first
		for j := i + 1; j < len(cqes) && n < min(hca.MaxBlock, first.cq.Entries); j++ {
			p := &cqes[j]
			if p.drop || p.cq != first.cq {
				continue
			}
			if !last.joins(p) {
				break
			}
			p.inBlock, last.next, last = true, j, p
			n++
		}
		if n > 1 {
			first.inBlock, first.block = true, n
		}
	}
}

// joins reports whether p may stand behind last in a block.
func (last *pending) joins(p *pending) bool {
	const format = 3 << 2
	op := p.img[63] >> 4
	if op != cqeReq && op != cqeRespSend || last.swap || p.swap || last.sol || p.sol || p.at != last.at+1 ||
		(last.img[63]|p.img[63])&format != 0 {
		return false
	}
	if op != cqeReq && p.cq.Format != hca.FormatStride && p.counter() != last.counter()+1 {
		return false
	}
	return last.common() == p.common()
}

func (p *pending) counter() uint16 { return binary.BigEndian.Uint16(p.img[60:]) }

// common is what the completions of a block have in common: all that their 8 bytes do not tell, but the time.
func (p *pending) common() [64]byte {
	i := p.img
	clear(i[44:56]) // length and time
	clear(i[60:62]) // index of the WQE
	i[63] &^= 1
	switch {
	case i[63]>>4 == cqeReq:
		i[56] = 0 // opcode of the WQE
	case p.cq.Format == hca.FormatHash:
		clear(i[12:16])
	default:
		clear(i[20:22]) // checksum
	}
	return i
}

// word puts the 8 bytes of a completion.
func (p *pending) word(b []byte) {
	switch {
	case p.img[63]>>4 == cqeReq:
		copy(b, p.img[60:62])
		b[2] = p.img[56]
	case p.cq.Format == hca.FormatHash:
		copy(b, p.img[12:16])
	default:
		copy(b, p.img[20:22])
		if p.cq.Format == hca.FormatStride {
			copy(b[2:], p.img[60:62])
		}
	}
	copy(b[4:], p.img[44:48])
}

// writeBlock writes the block whose title is completion i of the batch. The title is written last.
func (cs *completions) writeBlock(i int) {
	title := &cs.b.cqes[i]
	cq := title.cq
	var buf [8*hca.MaxBlock + 128]byte
	v := cs.io.civ[:0]
	n, p := 0, title
	for k := range title.block {
		if k%perArray == 0 {
			slot := uint64((title.at + max(k, 1)) & (cq.Entries - 1))
			v = append(v, guest.IOV{Base: cq.Buf + (slot+1)*uint64(cq.CQESize) - 64, Len: 64})
			n += 64
		}
		p.word(buf[8*k:])
		p = &cs.b.cqes[p.next]
	}
	t := *title
	put32(t.img[44:], title.block)
	t.img[63] |= compressed
	n += t.image(buf[n:])
	if err := cq.Mem.WriteV(buf[:n], t.spans(v)); err != nil {
		cs.lostCQ(cq, err)
		return
	}
	cq.Context.Device.Blocks++
	cs.strict.wroteBlock(title)
}

package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/work"
)

const (
	ethChecksums = 1<<6 | 1<<7 // in an Ethernet segment. C: MLX5_ETH_WQE_L3_CSUM, MLX5_ETH_WQE_L4_CSUM
	ethFirst     = 2           // bytes of the header that are in the segment

	// MaxFrameHead is how much of a frame a device may want within the WQE. C: MLX5_ETH_L2_INLINE_HEADER_SIZE.
	MaxFrameHead = 18
)

// Frame builds a work request of a raw packet QP and reports whether there was room for it. The caller has checked wr.
// inline is the number of bytes to copy into the WQE. The first head bytes of a frame are in the Ethernet segment: 0 or
// MaxFrameHead, and the frame has at least as many. With TSO the header of the frames is there.
//
// C: _mlx5_post_send, case IBV_QPT_RAW_PACKET (rdma-core v44.0, providers/mlx5/qp.c:1015).
func (q *SQ) Frame(wr *SendWR, inline, head int) bool {
	var start [MaxFrameHead]byte
	header, mss := start[:head], uint16(0)
	copied := wr.Inline != nil || wr.Flags&sendInline != 0
	switch {
	case work.FieldsOf(wr.Opcode)&work.TSO != 0:
		header, mss, head = wr.TSO.Header, wr.TSO.MSS, 0
	case wr.Inline != nil:
		copy(header, wr.Inline)
	default:
		gather(header, wr.SGEs)
	}
	segs := 1 + (max(len(header), ethFirst)-ethFirst+segSize-1)/segSize
	if copied {
		segs += InlineSegs(inline - head)
	} else {
		segs += len(wr.SGEs)
	}
	if !q.Begin(wr.Opcode, wr.Flags, 0, segs) {
		return false
	}
	sums := uint8(0)
	if wr.Flags&sendIPCsum != 0 {
		sums = ethChecksums
	}
	q.ethernet(sums, mss, header)
	if !copied {
		for i := range wr.SGEs {
			s := wr.SGEs[i]
			head -= skip(&s, head)
			q.Data(&s)
		}
	} else if room := q.inline(inline - head); room != nil {
		if wr.Inline != nil {
			q.fill(room, wr.Inline[head:])
		}
		for i := range wr.SGEs {
			s := wr.SGEs[i]
			head -= skip(&s, head)
			room = q.fill(room, bytesAt(s.Addr, s.Length))
		}
	}
	q.Commit(wr.ID)
	return true
}

// ethernet adds an Ethernet segment with the header that begins in it. C: struct mlx5_wqe_eth_seg.
func (q *SQ) ethernet(sums uint8, mss uint16, header []byte) {
	p := q.next()
	*(*uint64)(p) = uint64(sums)<<32 | uint64(bits.ReverseBytes16(mss))<<48
	*(*uint64)(unsafe.Add(p, 8)) = uint64(bits.ReverseBytes16(uint16(len(header)))) << 32
	n := copy(unsafe.Slice((*byte)(unsafe.Add(p, segSize-ethFirst)), ethFirst), header)
	for header = header[n:]; len(header) > 0; header = header[n:] {
		p := q.next()
		*(*[2]uint64)(p) = [2]uint64{}
		n = copy(unsafe.Slice((*byte)(p), segSize), header)
	}
}

// gather copies the beginning of what sges describe, until to is full.
func gather(to []byte, sges []SGE) {
	for i := range sges {
		if len(to) == 0 {
			break
		}
		to = to[copy(to, bytesAt(sges[i].Addr, sges[i].Length)):]
	}
}

// skip leaves out up to n bytes at the beginning of s, and returns how many.
func skip(s *SGE, n int) int {
	n = int(min(uint32(n), s.Length))
	s.Addr += uint64(n)
	s.Length -= uint32(n)
	return n
}

//go:build linux

package engine

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// linkSize is the size of the segment before the list of a striding receive. C: struct mlx5_mprq_wqe.
const linkSize = 16

// filler is the bit of a completion's byte count that marks strides that hold nothing.
const filler = 1 << 31

// strides is where in a receive of a striding WQ a frame goes.
type strides struct {
	skip uint64 // bytes of the receive before the frame
	used uint32 // strides; 0: the WQ is none of these
	wqe  uint16
	last bool // the receive is used up
}

// stride finds room for a frame of n bytes. A frame is not split: where it does not fit into the rest of a receive, a
// completion gives that back and the frame goes to the next one. That there is none is not an error.
func (sw *switcher) stride(peer *hca.QP, rcv *recvEntry, n uint32) (s strides, ok bool) {
	r, t := &peer.Run, &peer.Frames.Striding
	need := (n + uint32(t.Indent) + 1<<t.Log - 1) >> t.Log
	if need > t.Count {
		return s, false
	}
	if left := t.Count - r.Stride; need > left {
		old := r.Head
		r.Head++
		next, ok := sw.recvs.receive(peer, nil)
		if !ok {
			r.Head = old
			return s, false
		}
		p := sw.comps.cqe(peer.RecvCQ, peer, cqeRespSend, peer.RecvIdx, 0, uint16(r.Stride))
		put32(p.img[44:], filler|left<<16)
		binary.BigEndian.PutUint16(p.img[2:], uint16(old))
		*rcv, r.Stride = next, 0
	}
	s = strides{skip: uint64(r.Stride)<<t.Log + t.Indent, used: need, wqe: uint16(r.Head)}
	rcv.segs, rcv.counter = rcv.segs[linkSize:], uint16(r.Stride)
	if r.Stride += need; r.Stride == t.Count {
		r.Stride, s.last = 0, true
	}
	return s, true
}

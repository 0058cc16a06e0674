package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// PollTags is Poll, and sets CVLAN and FlowTag of receives as well. The device gets the entries back when these have
// been read: until then the consumer index is written where the device does not look.
//
// C: mlx5_cq_read_wc_cvlan, mlx5_cq_read_flow_tag (rdma-core v44.0, providers/mlx5/cq.c).
//
//go:norace
func (cq *CQ) PollTags(out []WC) (int, error) {
	record, first := cq.dbrec, cq.ci.Load()
	cq.dbrec = unsafe.Pointer(&cq.aside)
	n, err := cq.Poll(out)
	cq.dbrec = record
	end, i := cq.ci.Load(), 0
	for ci := first; ci != end && i < n; ci++ {
		p := cq.entry(ci)
		if cq.silent(p) {
			continue
		}
		if wc := &out[i]; wc.Status == 0 && wc.Opcode&wcRecv != 0 {
			if tail := get64(p, offTail); tail&scatter32 == 0 { // else there is payload
				wc.CVLAN = uint16(get32(p, offVLAN-2))
			}
			wc.FlowTag = get32(p, offTail) & numberMask
		}
		i++
	}
	if end != first {
		mmio.Consumed(record, bits.ReverseBytes32(end&numberMask))
	}
	return n, err
}

// silent reports whether the entry at p, which Poll took, gave no completion: its receive, of an SRQ, was posted again.
func (cq *CQ) silent(p unsafe.Pointer) bool {
	tail := get64(p, offTail)
	if uint8(tail)>>4 != cqeRespErr {
		return false
	}
	qp := cq.qps.Find(uint32(tail >> 32))
	return qp != nil && qp.SRQ != nil && isPageFault(p)
}

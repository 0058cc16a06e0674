package mlx5

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/mmio"
)

// PollTags is Poll, and sets what else is in the entries of receives: with tags CVLAN and FlowTag, on the CQ of a raw
// packet QP the flag of verified checksums, and with VLANs the service level. The device gets the entries back when
// these have been read: until then the consumer index is written where the device does not look.
//
// C: mlx5_cq_read_wc_cvlan, mlx5_cq_read_flow_tag, get_csum_ok (rdma-core v44.0, providers/mlx5/cq.c).
//
//go:norace
func (cq *CQ) PollTags(out []WC, tags bool) (int, error) {
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
			there := get64(p, offTail)&scatter32 == 0 // else there is payload
			if tags && there {
				wc.CVLAN = uint16(get32(p, offVLAN-2))
			}
			if cq.vlans && there {
				wc.SL = priority(get32(p, offVLAN-2))
			}
			if tags {
				wc.FlowTag = get32(p, offTail) & numberMask
			}
			if cq.raw && there && get32(p, offVLAN-2)&csumMask == csumOK {
				wc.Flags |= wcCsumOK
			}
		}
		i++
	}
	if end != first {
		mmio.Consumed(record, bits.ReverseBytes32(end&numberMask))
	}
	return n, err
}

// priority returns the priority of the VLAN tag that the device took from a packet, 0 if it took none. w ends with the
// tag.
//
// C: handle_responder (Linux, drivers/infiniband/hw/mlx5/cq.c), whose service level on Ethernet it is.
func priority(w uint32) uint8 { return uint8(w >> 13 & 7 & -(w >> 16 & 1)) }

// AddDatagrams prepares for a QP for datagrams.
func (cq *CQ) AddDatagrams() { cq.vlans = cq.sl == 0 }

// VLANs reports whether completions have their service level from a VLAN tag: use PollTags.
func (cq *CQ) VLANs() bool { return cq.vlans }

// silent reports whether the entry at p, which Poll took, gave no completion: its receive, of an SRQ, was posted again.
func (cq *CQ) silent(p unsafe.Pointer) bool {
	tail := get64(p, offTail)
	if uint8(tail)>>4 != cqeRespErr {
		return false
	}
	qp := cq.qps.Find(uint32(tail >> 32))
	return qp != nil && qp.SRQ != nil && isPageFault(p)
}

// The word before the VLAN has the results of the checksums of layers 3 and 4, and in its next bits the header of layer
// 3. As libmlx5, the poller reports those of IPv4 alone.
const (
	csumMask = 2<<24 | 4<<24 | 3<<18
	csumOK   = 2<<24 | 4<<24 | 2<<18
)

package abi

import "structs"

// BindMW is the bind_mw of struct ibv_send_wr.
type BindMW struct {
	_        structs.HostLayout
	MW       uintptr // union: tso.hdr
	RKey     uint32  // union: tso.hdr_sz and tso.mss
	_        [4]byte
	BindInfo MWBindInfo
}

// TagOp is the tm of struct ibv_ops_wr.
type TagOp struct {
	_             structs.HostLayout
	UnexpectedCnt uint32
	Handle        uint32
	RecvWRID      uint64
	SGList        uintptr
	NumSGE        int32
	_             [4]byte
	Tag           uint64
	Mask          uint64
}

// SetImm sets the immediate data, given in host order.
func (w *SendWR) SetImm(imm uint32) { w.ImmData.Set(imm) }

// SetInvalidateRKey sets the key that the request invalidates.
func (w *SendWR) SetInvalidateRKey(rkey uint32) { w.ImmData = Be32(rkey) }

// SetRDMA sets the remote memory of a read or write: wr.rdma.
func (w *SendWR) SetRDMA(addr uint64, rkey uint32) {
	w.Wr[0] = addr
	w.Wr[1] = uint64(rkey)
}

// SetAtomic sets the operands of compare and swap, or of fetch and add (which
// has no swap): wr.atomic.
func (w *SendWR) SetAtomic(addr, compareAdd, swap uint64, rkey uint32) {
	w.Wr[0] = addr
	w.Wr[1] = compareAdd
	w.Wr[2] = swap
	w.Wr[3] = uint64(rkey)
}

// SetUD sets the peer of a datagram: wr.ud.
func (w *SendWR) SetUD(ah uintptr, qpn, qkey uint32) {
	w.Wr[0] = uint64(ah)
	w.Wr[1] = uint64(qpn) | uint64(qkey)<<32
}

// SetTSO sets the packet header of a segmentation offload: tso.
func (w *SendWR) SetTSO(hdr uintptr, hdrSize, mss uint16) {
	w.Bind.MW = hdr
	w.Bind.RKey = uint32(hdrSize) | uint32(mss)<<16
}

// PortNum returns the port of a port event.
func (e *AsyncEvent) PortNum() int32 { return int32(e.Element) }

// InvalidatedRKey is the key that a send with invalidate invalidated. It takes
// the place of the immediate data, but in host order.
func (w *WC) InvalidatedRKey() uint32 { return uint32(w.ImmData) }

package abi

import "structs"

// SGE is struct ibv_sge (infiniband/verbs.h, rdma-core v65).
type SGE struct {
	_      structs.HostLayout
	Addr   uint64
	Length uint32
	LKey   uint32
}

// DataBuf is struct ibv_data_buf (infiniband/verbs.h, rdma-core v65).
type DataBuf struct {
	_      structs.HostLayout
	Addr   uintptr
	Length uintptr
}

// RecvWR is struct ibv_recv_wr (infiniband/verbs.h, rdma-core v65).
type RecvWR struct {
	_      structs.HostLayout
	WRID   uint64
	Next   uintptr
	SGList uintptr
	NumSGE int32
	_      [4]byte
}

// SendWR is struct ibv_send_wr (infiniband/verbs.h, rdma-core v65). Its unions
// are plain words, which the Set methods fill for one kind of request each. They
// leave the other words as they were: a provider reads only what the opcode
// needs.
type SendWR struct {
	_             structs.HostLayout
	WRID          uint64
	Next          uintptr
	SGList        uintptr
	NumSGE        int32
	Opcode        uint32
	SendFlags     uint32
	ImmData       Be32      // union: invalidate_rkey, in host order
	Wr            [4]uint64 // union wr: rdma, atomic, ud
	XRCRemoteSRQN uint32    // union qp_type: xrc
	_             [4]byte
	Bind          BindMW // union: tso
}

// BindMW is the bind_mw of struct ibv_send_wr.
type BindMW struct {
	_        structs.HostLayout
	MW       uintptr // union: tso.hdr
	RKey     uint32  // union: tso.hdr_sz and tso.mss
	_        [4]byte
	BindInfo MWBindInfo
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

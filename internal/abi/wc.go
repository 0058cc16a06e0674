package abi

import "structs"

// WC is struct ibv_wc (infiniband/verbs.h, rdma-core v65).
type WC struct {
	_            structs.HostLayout
	WRID         uint64
	Status       uint32
	Opcode       uint32
	VendorErr    uint32
	ByteLen      uint32
	ImmData      Be32
	QPNum        uint32
	SrcQP        uint32
	WCFlags      uint32
	PKeyIndex    uint16
	SLID         uint16
	SL           uint8
	DLIDPathBits uint8
	_            [2]byte
}

// InvalidatedRKey is the key that a send with invalidate invalidated. It takes
// the place of the immediate data, but in host order.
func (w *WC) InvalidatedRKey() uint32 { return uint32(w.ImmData) }

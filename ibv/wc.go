package ibv

// WC is a completion: the outcome of one work request, or of one message that arrived. It is a
// plain value.
//
// After a failure only ID, Status, VendorErr and QPN are valid; the other fields are zero.
//
// C: struct ibv_wc.
type WC struct {
	ID              uint64 // of the work request
	Status          WCStatus
	Opcode          WCOpcode
	VendorErr       uint32 // syndrome, defined by the vendor of the device
	ByteLen         uint32 // bytes received or read
	Imm             uint32 // host order, with WCWithImm
	InvalidatedRKey uint32 // with WCWithInv
	QPN             uint32 // the local QP; mlx5: the flow tag of a received frame, which is 0 without FlowTag
	SrcQPN          uint32 // the remote QP, UD only
	Flags           WCFlags
	PKeyIndex       uint16 // GSI QPs only
	SLID            uint16 // UD only
	// SL is the service level, UD only. On mlx5's Ethernet ports it is the priority of the packet's VLAN tag, 0 without
	// one. DataPathOps knows it with FieldCVLAN and FieldSL alone.
	SL           uint8
	DLIDPathBits uint8  // UD only
	CVLAN        uint16 // the frame's VLAN tag, with FieldCVLAN; raw packet QPs only
	FlowTag      uint32 // of the flow that took the frame, with FieldFlowTag; raw packet QPs only
	// Timestamp is in ticks of the device's clock: DeviceAttrEx.Ticks converts a difference to a
	// duration, mlx5dv.Clock a timestamp to a time. The direct data path always sets it, the other
	// one with FieldTimestamp.
	Timestamp uint64
}

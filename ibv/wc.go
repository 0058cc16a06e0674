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
	SL              uint8  // UD only
	DLIDPathBits    uint8  // UD only
	// Timestamp is in ticks of the device's clock, which mlx5dv.Clock converts to a time. It is
	// set on the direct data path only, and 0 elsewhere.
	Timestamp uint64
}

// Err returns nil for a successful completion, and otherwise a *WCError with the status.
func (wc *WC) Err() error {
	if wc.Status == WCSuccess {
		return nil
	}
	return newWCError(wc)
}

package ibv

// WC is a completion: what became of one work request, or of one message that
// arrived. It is a plain value.
//
// After a failure only ID, Status, VendorErr and QPN mean something, and the
// other fields are zero.
//
// C: struct ibv_wc.
type WC struct {
	ID              uint64 // of the work request
	Status          WCStatus
	Opcode          WCOpcode
	VendorErr       uint32 // syndrome of the device, for its vendor
	ByteLen         uint32 // bytes received or read
	Imm             uint32 // host order, with WCWithImm
	InvalidatedRKey uint32 // with WCWithInv
	QPN             uint32 // the local QP
	SrcQPN          uint32 // the remote QP, UD only
	Flags           WCFlags
	PKeyIndex       uint16 // GSI QPs only
	SLID            uint16 // UD only
	SL              uint8  // UD only
	DLIDPathBits    uint8  // UD only
	// ticks of the device's clock, on the direct data path, which mlx5dv.Clock makes a time; 0 elsewhere
	Timestamp uint64
}

// Err is nil for a successful completion, and otherwise a *WCError that names
// the status and what to look at.
func (wc *WC) Err() error {
	if wc.Status == WCSuccess {
		return nil
	}
	return newWCError(wc)
}

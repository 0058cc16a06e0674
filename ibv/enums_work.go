package ibv

// Opcode is the operation of a send work request.
//
// C: enum ibv_wr_opcode.
type Opcode uint32

const (
	// OpWrite writes into the peer's memory. C: IBV_WR_RDMA_WRITE.
	OpWrite Opcode = 0
	// OpWriteImm writes, consumes a receive of the peer and hands it the
	// immediate value. C: IBV_WR_RDMA_WRITE_WITH_IMM.
	OpWriteImm Opcode = 1
	// OpSend sends into a receive of the peer. C: IBV_WR_SEND.
	OpSend Opcode = 2
	// OpSendImm sends with an immediate value. C: IBV_WR_SEND_WITH_IMM.
	OpSendImm Opcode = 3
	// OpSendInv sends and invalidates an rkey of the peer.
	// C: IBV_WR_SEND_WITH_INV.
	OpSendInv Opcode = 9
)

// IsRecv reports whether the completion belongs to the receive queue.
func (o WCOpcode) IsRecv() bool { return o&WCRecv != 0 && (o < WCDriver1 || o > WCDriver3) }

// Bytes returns the MTU in bytes, or 0 for an unknown value.
func (m MTU) Bytes() int {
	if m < MTU256 || m > MTU4096 {
		return 0
	}
	return 128 << m
}

// MTUFromBytes returns the largest MTU of at most n bytes. ok is false when n is below 256.
func MTUFromBytes(n int) (m MTU, ok bool) {
	for m = MTU4096; m >= MTU256; m-- {
		if m.Bytes() <= n {
			return m, true
		}
	}
	return 0, false
}

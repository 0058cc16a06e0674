package ibv

import (
	"math/bits"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// fromC copies a completion. C leaves most fields of a failed one undefined.
func (wc *WC) fromC(c *abi.WC) {
	wc.ID = c.WRID
	wc.Status = WCStatus(c.Status)
	wc.VendorErr = c.VendorErr
	wc.QPN = c.QPNum
	if wc.Status != WCSuccess {
		wc.Opcode, wc.ByteLen, wc.Imm, wc.InvalidatedRKey, wc.SrcQPN, wc.Flags = 0, 0, 0, 0, 0, 0
		wc.PKeyIndex, wc.SLID, wc.SL, wc.DLIDPathBits, wc.Timestamp = 0, 0, 0, 0, 0
		return
	}
	wc.Opcode = WCOpcode(c.Opcode)
	wc.Flags = WCFlags(c.WCFlags)
	wc.ByteLen, wc.Imm, wc.InvalidatedRKey, wc.SrcQPN, wc.PKeyIndex, wc.SLID, wc.SL, wc.DLIDPathBits, wc.Timestamp = 0,
		0, 0, 0, 0, 0, 0, 0, 0
	if !wc.Opcode.IsRecv() { // providers leave in the rest what an earlier completion had there
		switch wc.Opcode {
		case WCRead, WCCompareSwap, WCFetchAdd:
			wc.ByteLen = c.ByteLen
		}
		return
	}
	wc.ByteLen = c.ByteLen
	wc.SrcQPN = c.SrcQP
	if wc.Flags&WCWithInv != 0 {
		wc.InvalidatedRKey = c.InvalidatedRKey() // host order, in the same place
	} else if wc.Flags&WCWithImm != 0 {
		wc.Imm = bits.ReverseBytes32(c.InvalidatedRKey()) // big-endian
	}
	wc.PKeyIndex = c.PKeyIndex
	wc.SLID = c.SLID
	wc.SL = c.SL
	wc.DLIDPathBits = c.DLIDPathBits
}

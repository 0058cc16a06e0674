package ibv

import (
	"math/bits"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// fromC copies a completion. C leaves most fields of a failed completion undefined, and
// providers leave old values in fields that a successful one does not use.
func (wc *WC) fromC(c *abi.WC) {
	*wc = WC{ID: c.WRID, Status: WCStatus(c.Status), VendorErr: c.VendorErr, QPN: c.QPNum}
	if c.Status != 0 {
		return
	}
	wc.Opcode, wc.Flags = WCOpcode(c.Opcode), WCFlags(c.WCFlags)
	if !wc.Opcode.IsRecv() {
		switch wc.Opcode {
		case WCRead, WCCompareSwap, WCFetchAdd:
			wc.ByteLen = c.ByteLen
		}
		return
	}
	wc.ByteLen, wc.SrcQPN = c.ByteLen, c.SrcQP
	if wc.Flags&WCWithInv != 0 {
		wc.InvalidatedRKey = c.InvalidatedRKey() // host order, in the same place
	} else if wc.Flags&WCWithImm != 0 {
		wc.Imm = bits.ReverseBytes32(c.InvalidatedRKey()) // big-endian
	}
	wc.PKeyIndex, wc.SLID, wc.SL, wc.DLIDPathBits = c.PKeyIndex, c.SLID, c.SL, c.DLIDPathBits
}

package ibv

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// fromC copies n completions. sl is the mask of their service levels. C leaves most fields of a failed completion
// undefined, and providers leave old values in fields that a successful one does not use.
//
// It is one loop without calls, and stores words, because the locked instruction in the
// provider's next poll waits for every store.
func fromC(wc *WC, c *abi.WC, n int, sl uint8) {
	for n > 0 {
		w := (*[8]uint64)(unsafe.Pointer(wc))
		op, flags := WCOpcode(c.Opcode), WCFlags(c.WCFlags)
		if c.Status != 0 {
			op, flags = 0, 0
		}
		w[0] = c.WRID
		w[1] = uint64(op) << 32
		w[2] = uint64(c.VendorErr)
		w[3] = 0
		w[4] = uint64(c.QPNum)
		w[5] = uint64(flags)
		w[6] = 0
		w[7] = 0
		switch {
		case c.Status != 0:
			wc.Status = WCStatus(c.Status)
		case op.IsRecv():
			wc.ByteLen, wc.SrcQPN = c.ByteLen, c.SrcQP
			if flags&WCWithInv != 0 {
				wc.InvalidatedRKey = c.InvalidatedRKey() // host order, in the same place
			} else if flags&WCWithImm != 0 {
				wc.Imm = bits.ReverseBytes32(c.InvalidatedRKey()) // big-endian
			}
			wc.PKeyIndex, wc.SLID, wc.SL, wc.DLIDPathBits = c.PKeyIndex, c.SLID, c.SL&sl, c.DLIDPathBits
		case op >= WCRead && op <= WCFetchAdd:
			wc.ByteLen = c.ByteLen
		}
		if n--; n == 0 { // no pointer behind the last one
			return
		}
		wc = (*WC)(unsafe.Add(unsafe.Pointer(wc), unsafe.Sizeof(WC{})))
		c = (*abi.WC)(unsafe.Add(unsafe.Pointer(c), unsafe.Sizeof(abi.WC{})))
	}
}

// The words of a WC, and what fromC writes there.
var (
	_ [8 * 8]byte = [unsafe.Sizeof(WC{})]byte{}
	_ [12]byte    = [unsafe.Offsetof(WC{}.Opcode)]byte{}
	_ [2 * 8]byte = [unsafe.Offsetof(WC{}.VendorErr)]byte{}
	_ [4 * 8]byte = [unsafe.Offsetof(WC{}.QPN)]byte{}
	_ [5 * 8]byte = [unsafe.Offsetof(WC{}.Flags)]byte{}
)

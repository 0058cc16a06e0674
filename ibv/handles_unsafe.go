package ibv

import (
	"math/bits"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// The functions of this file read the public fields of C objects.

func deviceTypes(dev uintptr) (NodeType, TransportType) {
	d := at[abi.Device](dev)
	return NodeType(int32(d.NodeType)), TransportType(int32(d.TransportType))
}

// contextExtended checks that the context has the extended ops before it, which
// every release since 2013 gives it.
func contextExtended(ctx uintptr) error {
	if abi.ContextSize(ctx) == 0 {
		return &UnsupportedError{Feature: "a context with extended verbs", Need: "libibverbs of rdma-core v15 or later", Have: "an older library"}
	}
	return nil
}

func contextSize(ctx uintptr) int           { return int(abi.ContextSize(ctx)) }
func contextLegacy(ctx uintptr) bool        { return abi.Legacy(ctx) }
func contextAsyncFD(ctx uintptr) int        { return int(at[abi.Context](ctx).AsyncFD) }
func contextCompVectors(ctx uintptr) int    { return int(at[abi.Context](ctx).NumCompVectors) }
func compChannelFD(ch uintptr) int          { return int(at[abi.CompChannel](ch).FD) }
func cqCapacity(cq uintptr) int             { return int(at[abi.CQ](cq).CQE) }
func qpNum(qp uintptr) uint32               { return at[abi.QP](qp).QPNum }
func qpStateWord(qp uintptr) *uint32        { return &at[abi.QP](qp).State }
func mrKeys(mr uintptr) (lkey, rkey uint32) { m := at[abi.MR](mr); return m.LKey, m.RKey }

// loadState reads the state that libibverbs keeps in struct ibv_qp. Other
// threads write it, in modify and query.
// Preconditions: the QP is open and cannot be closed meanwhile.
func (qp *QP) loadState() QPState { return QPState(atomic.LoadUint32(qp.state)) }

// fromC copies a completion. C leaves most fields of a failed one undefined, and providers leave in those that a successful one has not what an earlier one had.
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

// eventElement is the address of the object an async event is about, or the
// port number.
func eventElement(ev *abi.AsyncEvent) uintptr { return *(*uintptr)(unsafe.Pointer(&ev.Element)) }

// cString is the text before the first NUL.
func cString(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// isQueueFull tells what providers answer when a queue has no room.
func isQueueFull(err error) bool { return err == syscall.ENOMEM }

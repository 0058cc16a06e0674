package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
)

// setSRD names the peer of a work request of EFA's SRD, which takes an address with every operation.
func (x *extended) setSRD(w *abi.SendWR) {
	a := dcAddrOf(w)
	ccall.Hot6(x.fn.SetUDAddr, x.QP, a.ah, uintptr(a.dctn), uintptr(uint32(a.key)), 0, 0)
}

// EFAReaders are the functions of a struct efadv_cq, 0 for one that the CQ was not made with.
type EFAReaders struct {
	CQ          uintptr // struct efadv_cq *
	SGID        uintptr
	Unsolicited uintptr
}

// SrcGID reads the sender's GID of a completion. It reports whether the device knows it.
func (p *ExPoller) SrcGID() (gid [16]byte, ok bool) {
	if p.EFA.SGID == 0 {
		return gid, false
	}
	ret := int32(ccall.Hot(p.EFA.SGID, p.EFA.CQ, p.tmAddr, 0)) // there is room for a GID
	return *(*[16]byte)(unsafe.Pointer(p.tm)), ret == 0
}

// IsUnsolicited reports whether a write with immediate consumed no receive.
func (p *ExPoller) IsUnsolicited() bool {
	return p.EFA.Unsolicited != 0 && ccall.Hot(p.EFA.Unsolicited, p.EFA.CQ, 0, 0)&0xff != 0
}

package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// DCSetters are the functions of a struct mlx5dv_qp_ex by which a work request of a DCI names its DCT.
type DCSetters struct {
	qp     uintptr // struct mlx5dv_qp_ex *
	addr   uintptr
	stream uintptr // 0 on a DCI without streams, whose library may not have it
}

// NewDCSetters returns the setters of the struct mlx5dv_qp_ex at qp.
func NewDCSetters(qp uintptr, streams bool) *DCSetters {
	fn := cmem.At[abi.MLX5DVQPEx](qp)
	s := &DCSetters{qp: qp, addr: fn.WRSetDCAddr}
	if streams { // behind the end of the struct of a library without streams
		s.stream = fn.WRSetDCAddrStream
	}
	return s
}

// dcAddr has the fields of a slot of a DCI that C's struct has no room for.
type dcAddr struct {
	ah     uintptr
	key    uint64
	dctn   uint32
	stream uint16
}

// dcAddrOf returns the place of a slot that holds its DCT.
func dcAddrOf(w *abi.SendWR) *dcAddr { return (*dcAddr)(unsafe.Pointer(&w.Bind)) }

// DCTOf returns the DCT that a slot of a DCI names: its address, its key and its number.
func DCTOf(w *abi.SendWR) (ah uintptr, key uint64, num uint32) {
	a := dcAddrOf(w)
	return a.ah, a.key, a.dctn
}

func (s *DCSetters) set(w *abi.SendWR) {
	a := dcAddrOf(w)
	if s.stream != 0 {
		ccall.Hot6(s.stream, s.qp, a.ah, uintptr(a.dctn), uintptr(a.key), uintptr(a.stream), 0)
		return
	}
	ccall.Hot6(s.addr, s.qp, a.ah, uintptr(a.dctn), uintptr(a.key), 0, 0)
}

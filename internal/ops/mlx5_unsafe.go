package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/work"
)

// maxWQE is the size of the longest WQE, in bytes.
const maxWQE = 63 * 16

// mkeySlot has the fields of a slot that changes a memory key that C's struct has no room for.
type mkeySlot struct {
	update uintptr // work.MkeyUpdate, which the caller keeps
	places uint32
}

func mkeyOf(w *abi.SendWR) *mkeySlot { return (*mkeySlot)(unsafe.Pointer(&w.Bind)) }

// places returns the number of places of the send queue that libmlx5 takes for a work request.
func places(w *abi.SendWR) uint32 {
	if w.Opcode == work.Mkey {
		return mkeyOf(w).places
	}
	return 1
}

// fit returns the number of work requests that have room in the free places.
func fit(wrs []abi.SendWR, free int) (n int) {
	for ; n < len(wrs); n++ {
		if free -= int(places(&wrs[n])); free < 0 {
			break
		}
	}
	return n
}

// mkey changes a memory key: by one function if that can express it, which older libraries have.
func mkey(dv uintptr, m *work.MkeyUpdate) {
	fn := cmem.At[abi.MLX5DVQPEx](dv)
	n, layout := m.Entries()
	switch {
	case m.Setup:
	case m.Blocks != nil:
		ccall.Hot6(fn.WRMRInterleaved, dv, m.Handle, uintptr(m.Access), uintptr(m.Repeat), uintptr(n),
			address(&m.Blocks[0]))
		return
	default:
		ccall.Hot6(fn.WRMRList, dv, m.Handle, uintptr(m.Access), uintptr(n), address(&m.List[0]), 0)
		return
	}
	setters := 0
	for _, is := range [...]bool{m.SetAccess, layout, m.Signature != nil, m.Crypto != nil} {
		if is {
			setters++
		}
	}
	ccall.Hot6(fn.WRMkeyConfigure, dv, m.Handle, uintptr(setters), address(&m.Conf), 0, 0)
	if m.SetAccess {
		ccall.Hot(fn.WRSetMkeyAccessFlags, dv, uintptr(m.Access), 0)
	}
	switch {
	case m.Blocks != nil:
		ccall.Hot6(fn.WRSetMkeyLayoutInterleaved, dv, uintptr(m.Repeat), uintptr(n), address(&m.Blocks[0]), 0, 0)
	case m.List != nil:
		ccall.Hot(fn.WRSetMkeyLayoutList, dv, uintptr(n), address(&m.List[0]))
	}
	if m.Signature != nil {
		ccall.Hot(fn.WRSetMkeySigBlock, dv, address(&m.Signature.Attr), 0)
	}
	if m.Crypto != nil {
		ccall.Hot(fn.WRSetMkeyCrypto, dv, address(m.Crypto), 0)
	}
}

// address returns the address of something in the chain's memory.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
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

// copyOf returns the place of a slot that holds to where and from where memory is copied.
func copyOf(w *abi.SendWR) *[2]abi.SGE { return (*[2]abi.SGE)(unsafe.Pointer(&w.Bind)) }

func sgeOf(s *work.SGE) abi.SGE { return abi.SGE{Addr: s.Addr, Length: s.Length, LKey: s.LKey} }

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

// FillMkey is Fill for the change of a memory key. The caller has checked m, and keeps it and the key until the slot is
// posted.
func (c *SendChain) FillMkey(i int, wr *work.SendWR, m *work.MkeyUpdate) {
	w := c.Slot(i, wr.ID, wr.Opcode, wr.Flags|abi.IBV_SEND_INLINE)
	*mkeyOf(w) = mkeySlot{cmem.Heap(unsafe.Pointer(m)), m.Places}
}

// WQEs makes room for a WQE in each slot.
func (c *SendChain) WQEs() (err error) {
	if c.wqeMem, err = dma.Alloc(len(c.wrs)*maxWQE, nil); err == nil {
		c.wqes = cmem.Slice[byte](c.wqeMem.Addr(), len(c.wrs)*maxWQE)
	}
	return err
}

// wqe copies a WQE that the program wrote to the memory of slot i.
func (c *SendChain) wqe(i int, data []byte) {
	to := c.wqes[i*maxWQE:][:maxWQE]
	copy(to, data)
	c.wrs[i].Bind.MW = uintptr(unsafe.Pointer(&to[0]))
}

// mlx5 begins and ends a work request of mlx5's own.
func (x *extended) mlx5(w *abi.SendWR) {
	fn := cmem.At[abi.MLX5DVQPEx](x.DV)
	switch w.Opcode {
	case work.RawWQE:
		ccall.Hot(fn.WRRawWQE, x.DV, w.Bind.MW, 0)
	case work.Memcpy:
		s := copyOf(w)
		ccall.Hot6(fn.WRMemcpy, x.DV, uintptr(s[0].LKey), uintptr(s[0].Addr), uintptr(s[1].LKey), uintptr(s[1].Addr),
			uintptr(s[1].Length))
	case work.Mkey:
		x.mkey(fn, cmem.At[work.MkeyUpdate](mkeyOf(w).update))
	}
}

// mkey changes a memory key: by one function if that can express it, which older libraries have.
func (x *extended) mkey(fn *abi.MLX5DVQPEx, m *work.MkeyUpdate) {
	n, layout := m.Entries()
	switch {
	case m.Setup:
	case m.Blocks != nil:
		ccall.Hot6(fn.WRMRInterleaved, x.DV, m.Handle, uintptr(m.Access), uintptr(m.Repeat), uintptr(n),
			address(&m.Blocks[0]))
		return
	default:
		ccall.Hot6(fn.WRMRList, x.DV, m.Handle, uintptr(m.Access), uintptr(n), address(&m.List[0]), 0)
		return
	}
	setters := 0
	for _, is := range [...]bool{m.SetAccess, layout, m.Signature != nil, m.Crypto != nil} {
		if is {
			setters++
		}
	}
	ccall.Hot6(fn.WRMkeyConfigure, x.DV, m.Handle, uintptr(setters), address(&m.Conf), 0, 0)
	if m.SetAccess {
		ccall.Hot(fn.WRSetMkeyAccessFlags, x.DV, uintptr(m.Access), 0)
	}
	switch {
	case m.Blocks != nil:
		ccall.Hot6(fn.WRSetMkeyLayoutInterleaved, x.DV, uintptr(m.Repeat), uintptr(n), address(&m.Blocks[0]), 0, 0)
	case m.List != nil:
		ccall.Hot(fn.WRSetMkeyLayoutList, x.DV, uintptr(n), address(&m.List[0]))
	}
	if m.Signature != nil {
		ccall.Hot(fn.WRSetMkeySigBlock, x.DV, address(&m.Signature.Attr), 0)
	}
	if m.Crypto != nil {
		ccall.Hot(fn.WRSetMkeyCrypto, x.DV, address(m.Crypto), 0)
	}
}

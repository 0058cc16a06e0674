package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/work"
)

// MaxBatch is the most work requests that one chain holds, and so the most
// that one C call posts. The memory of unused slots is never touched.
const MaxBatch = 4096

const (
	sendWRSize = unsafe.Sizeof(abi.SendWR{})
	sgeSize    = unsafe.Sizeof(abi.SGE{})
)

// SendChain is a preallocated chain of struct ibv_send_wr with room for
// scatter/gather entries and inline data beside each.
type SendChain struct {
	post      uintptr
	qp        uintptr
	wrs       []abi.SendWR
	sges      []abi.SGE // maxSGE for each slot
	inline    []byte    // maxInline for each slot
	first     uintptr   // address of wrs[0]
	bad       *uintptr  // struct ibv_send_wr *, written by the provider
	badAddr   uintptr
	maxSGE    int
	maxInline int
	mem       *dma.Mem
}

// NewSendChain makes a chain of up to depth slots for the ibv_qp at qp.
// Inline data posted from Go memory is staged in the chain, because a
// goroutine's memory may move while C reads it.
func NewSendChain(t Table, qp uintptr, depth, maxSGE, maxInline int) (*SendChain, error) {
	depth = min(max(depth, 1), MaxBatch)
	maxSGE = max(maxSGE, 1)
	inlineStride := (maxInline + 15) &^ 15
	wrBytes := uintptr(depth) * sendWRSize
	sgeBytes := uintptr(depth*maxSGE) * sgeSize
	mem, err := dma.Alloc(int(16+wrBytes+sgeBytes)+depth*inlineStride, nil)
	if err != nil {
		return nil, err
	}
	bad := mem.Addr()
	first := bad + 16
	sges := first + wrBytes
	inline := sges + sgeBytes
	c := &SendChain{
		post:      t.PostSend,
		qp:        qp,
		wrs:       cmem.Slice[abi.SendWR](first, depth),
		sges:      cmem.Slice[abi.SGE](sges, depth*maxSGE),
		inline:    cmem.Slice[byte](inline, depth*inlineStride),
		first:     first,
		bad:       cmem.At[uintptr](bad),
		badAddr:   bad,
		maxSGE:    maxSGE,
		maxInline: inlineStride,
		mem:       mem,
	}
	return c, nil
}

// Len is the number of slots.
func (c *SendChain) Len() int { return len(c.wrs) }

// Slot returns slot i with everything set that all work requests have. Slots
// are linked as they are filled, so a slot is filled before its successor.
func (c *SendChain) Slot(i int, id uint64, opcode, flags uint32) *abi.SendWR {
	w := &c.wrs[i]
	w.WRID = id
	w.Next = c.first + uintptr(i+1)*sendWRSize
	w.SGList = 0
	w.NumSGE = 0
	w.Opcode = opcode
	w.SendFlags = flags
	return w
}

// Fill writes a work request, which is checked, into slot i. ah is the C object of the request's AH, for a datagram.
// Slots are linked as they are filled.
func (c *SendChain) Fill(i int, wr *work.SendWR, ah uintptr) {
	w := c.Slot(i, wr.ID, wr.Opcode, wr.Flags)
	f := work.FieldsOf(wr.Opcode)
	switch {
	case f&work.Atomic != 0:
		w.SetAtomic(wr.Remote.Addr, wr.CompareAdd, wr.Swap, wr.Remote.RKey)
	case f&work.Remote != 0:
		w.SetRDMA(wr.Remote.Addr, wr.Remote.RKey)
	case ah != 0:
		w.SetUD(ah, wr.RemoteQPN, wr.RemoteQKey)
	}
	switch {
	case f&work.Imm != 0:
		w.SetImm(wr.Imm)
	case f&work.InvalidateRKey != 0:
		w.SetInvalidateRKey(wr.InvalidateRKey)
	}
	if wr.Inline != nil {
		w.SendFlags |= abi.IBV_SEND_INLINE
		c.Inline(i, wr.Inline)
		return
	}
	list := c.SGEs(i, len(wr.SGEs))
	for k := range wr.SGEs[:len(list)] {
		s, to := &wr.SGEs[k], &list[k]
		to.Addr, to.Length, to.LKey = s.Addr, s.Length, s.LKey
	}
}

// Wr is slot i as it was filled.
func (c *SendChain) Wr(i int) *abi.SendWR { return &c.wrs[i] }

// SGEs makes slot i refer to n entries, at most the chain's maxSGE, for the
// caller to fill.
func (c *SendChain) SGEs(i, n int) []abi.SGE {
	list := c.sges[i*c.maxSGE:][:n]
	w := &c.wrs[i]
	w.SGList = uintptr(unsafe.Pointer(unsafe.SliceData(list)))
	w.NumSGE = int32(n)
	return list
}

// Inline copies data beside slot i and makes the slot refer to the copy.
// Preconditions: len(data) <= the chain's maxInline, IBV_SEND_INLINE is set.
func (c *SendChain) Inline(i int, data []byte) {
	if len(data) == 0 {
		return
	}
	dst := c.inline[i*c.maxInline : (i+1)*c.maxInline]
	copy(dst, data)
	s := &c.SGEs(i, 1)[0]
	s.Addr = uint64(uintptr(unsafe.Pointer(&dst[0])))
	s.Length = uint32(len(data))
	s.LKey = 0
}

// Post posts slots [0,n) with one call. It returns how many the provider took
// and its errno, 0 when it took all.
func (c *SendChain) Post(n int) (int, int) {
	c.wrs[n-1].Next = 0
	*c.bad = 0
	ret := int32(ccall.Hot(c.post, c.qp, c.first, c.badAddr))
	if ret == 0 {
		return n, 0
	}
	return accepted(*c.bad, c.first, sendWRSize, n), errno(ret)
}

// Free gives the memory back. The chain must not be used afterwards.
func (c *SendChain) Free() error { return c.mem.Free() }

// accepted counts the work requests before bad. A provider that fails without
// naming the bad one has taken none that we could vouch for.
func accepted(bad, first, size uintptr, n int) int {
	if bad < first {
		return 0
	}
	return min(int((bad-first)/size), n)
}

// errno normalises the results of post functions: errno values, but some
// providers negate them.
func errno(ret int32) int {
	if ret < 0 {
		return int(-ret)
	}
	return int(ret)
}

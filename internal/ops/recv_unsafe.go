package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
)

const recvWRSize = unsafe.Sizeof(abi.RecvWR{})

// RecvChain is a preallocated chain of struct ibv_recv_wr, for a QP, an SRQ or a WQ.
type RecvChain struct {
	post    uintptr
	queue   uintptr // struct ibv_qp *, struct ibv_srq * or struct ibv_wq *
	wrs     []abi.RecvWR
	sges    []abi.SGE // maxSGE for each slot
	first   uintptr
	bad     *uintptr
	badAddr uintptr
	maxSGE  int
	mem     *dma.Mem
}

// NewRecvChain returns a chain of up to depth slots for the ibv_qp, ibv_srq or ibv_wq at queue, whose function to post
// is fn.
func NewRecvChain(fn, queue uintptr, depth, maxSGE int) (*RecvChain, error) {
	depth = min(max(depth, 1), MaxBatch)
	maxSGE = max(maxSGE, 1)
	wrBytes := uintptr(depth) * recvWRSize
	mem, err := dma.Alloc(int(16+wrBytes+uintptr(depth*maxSGE)*sgeSize), nil)
	if err != nil {
		return nil, err
	}
	bad := mem.Addr()
	first := bad + 16
	return &RecvChain{
		post:    fn,
		queue:   queue,
		wrs:     cmem.Slice[abi.RecvWR](first, depth),
		sges:    cmem.Slice[abi.SGE](first+wrBytes, depth*maxSGE),
		first:   first,
		bad:     cmem.At[uintptr](bad),
		badAddr: bad,
		maxSGE:  maxSGE,
		mem:     mem,
	}, nil
}

// Len returns the number of slots.
func (c *RecvChain) Len() int { return len(c.wrs) }

// Slot makes slot i a work request with n SGEs, at most the chain's maxSGE, and links it to the next slot. It returns
// the SGEs for the caller to fill.
func (c *RecvChain) Slot(i int, id uint64, n int) []abi.SGE {
	list := c.sges[i*c.maxSGE:][:n]
	w := &c.wrs[i]
	w.WRID = id
	w.Next = c.first + uintptr(i+1)*recvWRSize
	w.SGList = uintptr(unsafe.Pointer(unsafe.SliceData(list)))
	w.NumSGE = int32(n)
	return list
}

// Post posts slots [0,n) with one call. It returns how many the provider accepted, and its errno, 0 if it accepted all.
func (c *RecvChain) Post(n int) (int, int) {
	c.wrs[n-1].Next = 0
	*c.bad = 0
	ret := int32(ccall.Hot(c.post, c.queue, c.first, c.badAddr))
	if ret == 0 {
		return n, 0
	}
	return accepted(*c.bad, c.first, recvWRSize, n), errno(ret)
}

// Free frees the memory, if there is a chain. It must not be used afterwards.
func (c *RecvChain) Free() error {
	if c == nil {
		return nil
	}
	return c.mem.Free()
}

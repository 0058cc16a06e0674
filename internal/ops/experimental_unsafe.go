package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
)

const expSendWRSize = unsafe.Sizeof(abi.ExpSendWR{})

// experimental posts a chain by ibv_exp_post_send of MLNX_OFED 4.x, whose struct ibv_exp_send_wr has room for the
// address of a DCT. Each slot is copied into one.
type experimental struct {
	fn    uintptr
	wrs   []abi.ExpSendWR
	first uintptr
	mem   *dma.Mem
}

// Experimental makes the chain post by the experimental verb at post, in place of post_send; dc says that slots name a
// DCT. Nothing was posted yet.
func (c *SendChain) Experimental(post uintptr, dc bool) error {
	n := len(c.wrs)
	mem, err := dma.Alloc(n*int(expSendWRSize), nil)
	if err != nil {
		return err
	}
	c.dc = dc
	c.ex = &extended{exp: &experimental{fn: post, wrs: cmem.Slice[abi.ExpSendWR](mem.Addr(), n), first: mem.Addr(),
		mem: mem}}
	return nil
}

// post posts slots [0,n) with one call.
func (x *experimental) post(c *SendChain, n int) (int, int) {
	for i := range n {
		x.translate(c, i)
	}
	x.wrs[n-1].Next = 0
	*c.bad = 0
	ret := int32(ccall.Hot(x.fn, c.qp, x.first, c.badAddr))
	if ret == 0 {
		return n, 0
	}
	return accepted(*c.bad, x.first, expSendWRSize, n), errno(ret)
}

// translate copies slot i.
func (x *experimental) translate(c *SendChain, i int) {
	w, e := &c.wrs[i], &x.wrs[i]
	e.WRID = w.WRID
	e.Next = x.first + uintptr(i+1)*expSendWRSize
	e.SGList, e.NumSGE = w.SGList, w.NumSGE
	e.ExpOpcode, e.ExpSendFlags = w.Opcode, uint64(w.SendFlags) // both have the values of classic verbs
	e.Ex, e.Wr, e.QPType = uint32(w.ImmData), w.Wr, w.XRCRemoteSRQN
	if c.dc {
		a := dcAddrOf(w)
		e.DC.AH, e.DC.DCTAccessKey, e.DC.DCTNumber = a.ah, a.key, a.dctn
	}
}

package ops

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/work"
)

const expSendWRSize = unsafe.Sizeof(abi.ExpSendWR{})

// experimental posts a chain by ibv_exp_post_send of MLNX_OFED 4.x, whose struct ibv_exp_send_wr has room for the
// address of a DCT. Each slot is copied into one.
type experimental struct {
	fn    uintptr
	wrs   []abi.ExpSendWR
	first uintptr
	args  []operands // for each slot, where an atomic with masks is longer than 8 bytes
	mem   *dma.Mem
}

// operands are those of an atomic with masks, in the order of struct ibv_exp_cmp_swap, and of struct ibv_exp_fetch_add.
type operands [4][4]uint64

// Experimental makes the chain post by the experimental verb at post, in place of post_send; dc means that slots name a
// DCT, masked that there are atomics with masks. Nothing was posted yet.
func (c *SendChain) Experimental(post uintptr, dc, masked bool) error {
	n := len(c.wrs)
	args := 0
	if masked {
		args = n
	}
	mem, err := dma.Alloc(n*int(expSendWRSize)+args*int(unsafe.Sizeof(operands{})), nil)
	if err != nil {
		return err
	}
	c.dc = dc
	c.ex = &extended{exp: &experimental{fn: post, wrs: cmem.Slice[abi.ExpSendWR](mem.Addr(), n), first: mem.Addr(),
		args: cmem.Slice[operands](mem.Addr()+uintptr(n)*expSendWRSize, args), mem: mem}}
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
	switch w.Opcode {
	case work.MaskedCompareSwap:
		e.ExpOpcode = abi.IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP
		e.ExpSendFlags |= abi.IBV_EXP_SEND_EXT_ATOMIC_INLINE
	case work.MaskedFetchAdd:
		e.ExpOpcode = abi.IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD
		e.ExpSendFlags |= abi.IBV_EXP_SEND_EXT_ATOMIC_INLINE
	}
	e.Ex, e.Wr, e.QPType = uint32(w.ImmData), w.Wr, w.XRCRemoteSRQN
	if c.dc {
		a := dcAddrOf(w)
		e.DC.AH, e.DC.DCTAccessKey, e.DC.DCTNumber = a.ah, a.key, a.dctn
	}
}

// masked writes the operands of an atomic with masks into slot i: values of 8 bytes, or the addresses of longer ones. A
// field to add to ends with its word at the latest, as on the direct data path.
func (x *experimental) masked(i int, wr *work.SendWR) {
	m, e := wr.Masked, &x.wrs[i].ExtOp.MaskedAtomics
	v := operands{m.CompareMask, m.Compare, m.SwapAdd, m.Mask}
	if wr.Opcode == work.MaskedFetchAdd {
		v = operands{m.SwapAdd, m.Mask}
		for k := range v[1] {
			v[1][k] |= 1 << 63
		}
	}
	n := m.Bytes()
	e.LogArgSz = uint32(bits.TrailingZeros32(n))
	e.RemoteAddr, e.RKey = wr.Remote.Addr, wr.Remote.RKey
	x.args[i] = v
	for k := range v {
		if e.WRData[k] = v[k][0]; n > 8 {
			e.WRData[k] = uint64(uintptr(unsafe.Pointer(&x.args[i][k])))
		}
	}
}

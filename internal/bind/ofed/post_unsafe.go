package ofed

import (
	"math/bits"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/ops"
	"github.com/pureverbs/pureverbs/internal/work"
)

const sendWRSize = unsafe.Sizeof(abi.ExpSendWR{})

// poster posts a chain by ibv_exp_post_send, whose struct ibv_exp_send_wr has room for the address of a DCT. Each slot
// is copied into one.
type poster struct {
	fn, qp uintptr
	slots  []abi.SendWR
	masked []work.MaskedAtomic // of the slots, on a QP with such atomics
	dc     bool                // slots name a DCT

	mem   *dma.Mem
	first uintptr
	bad   *uintptr // struct ibv_exp_send_wr *, written by the provider
	wrs   []abi.ExpSendWR
	args  []operands // for each slot, where an atomic with masks is longer than 8 bytes
}

// operands are those of an atomic with masks, in the order of struct ibv_exp_cmp_swap, and of struct ibv_exp_fetch_add.
type operands [4][4]uint64

func newPoster(ctx, qp uintptr, slots []abi.SendWR, masked []work.MaskedAtomic, dc bool) (control.Poster, error) {
	fn := abi.ExpOp(ctx, abi.DistExpPostSend)
	if fn == 0 {
		return nil, &control.Lack{Feature: "ibv_exp_post_send", Need: "a provider with it"}
	}
	n := uintptr(len(slots))
	mem, err := dma.Alloc(int(16+n*sendWRSize)+len(masked)*int(unsafe.Sizeof(operands{})), nil)
	if err != nil {
		return nil, err
	}
	first := mem.Addr() + 16
	return &poster{fn: fn, qp: qp, slots: slots, masked: masked, dc: dc, mem: mem, first: first,
		bad: cmem.At[uintptr](mem.Addr()), wrs: cmem.Slice[abi.ExpSendWR](first, len(slots)),
		args: cmem.Slice[operands](first+n*sendWRSize, len(masked))}, nil
}

// Post posts slots [0,n) with one call.
func (p *poster) Post(n int) (done, errno int) {
	for i := range n {
		p.translate(i)
	}
	p.wrs[n-1].Next = 0
	*p.bad = 0
	ret := int32(ccall.Hot(p.fn, p.qp, p.first, p.mem.Addr()))
	if ret == 0 {
		return n, 0
	}
	if *p.bad >= p.first { // else nothing shows which ones the provider accepted
		done = min(int((*p.bad-p.first)/sendWRSize), n)
	}
	return done, int(max(ret, -ret))
}

// translate copies slot i.
func (p *poster) translate(i int) {
	w, e := &p.slots[i], &p.wrs[i]
	e.WRID = w.WRID
	e.Next = p.first + uintptr(i+1)*sendWRSize
	e.SGList, e.NumSGE = w.SGList, w.NumSGE
	e.ExpOpcode, e.ExpSendFlags = w.Opcode, uint64(w.SendFlags) // both have the values of classic verbs
	e.Ex, e.Wr, e.QPType = uint32(w.ImmData), w.Wr, w.XRCRemoteSRQN
	switch w.Opcode {
	case work.MaskedCompareSwap:
		e.ExpOpcode = abi.IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP
		m := &p.masked[i]
		p.operands(i, operands{m.CompareMask, m.Compare, m.SwapAdd, m.Mask})
	case work.MaskedFetchAdd:
		e.ExpOpcode = abi.IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD
		v := operands{p.masked[i].SwapAdd, p.masked[i].Mask}
		// A field to add to ends with its word at the latest, as on the direct data path.
		for k := range v[1] {
			v[1][k] |= 1 << 63
		}
		p.operands(i, v)
	}
	if p.dc {
		e.DC.AH, e.DC.DCTAccessKey, e.DC.DCTNumber = ops.DCTOf(w)
	}
}

// operands writes those of an atomic with masks: values of 8 bytes, or the addresses of longer ones.
func (p *poster) operands(i int, v operands) {
	w, e := &p.slots[i], &p.wrs[i]
	e.ExpSendFlags |= abi.IBV_EXP_SEND_EXT_ATOMIC_INLINE
	m := &e.ExtOp.MaskedAtomics
	n := p.masked[i].Bytes()
	m.LogArgSz = uint32(bits.TrailingZeros32(n))
	m.RemoteAddr, m.RKey = w.Wr[0], uint32(w.Wr[1])
	p.args[i] = v
	for k := range v {
		if m.WRData[k] = v[k][0]; n > 8 {
			m.WRData[k] = uint64(uintptr(unsafe.Pointer(&p.args[i][k])))
		}
	}
}

// Free frees the memory.
func (p *poster) Free() error { return p.mem.Free() }

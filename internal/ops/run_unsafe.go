package ops

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/work"
)

// plainFlags are the flags that a plain work request may have.
const plainFlags = abi.IBV_SEND_FENCE | abi.IBV_SEND_SIGNALED | abi.IBV_SEND_SOLICITED

// Plain makes Run take the opcodes in set, as bits 1<<opcode. They have data, and at most also a remote address and 32
// bits that are sent with the message.
func (c *SendChain) Plain(set uint32) { c.plain = set }

// Run posts the n work requests at wr with one call, or one session, if each has one SGE and is correct as it is: an
// opcode of the set of Plain, and no flag or field but those that the caller need not check. It returns how many the
// provider accepted, and Errno has the reason if these are not all; or -1 if Run does not take all of them. Then none
// is posted.
//
// Run is flat and writes only what C reads, because the locked instruction with which a provider takes its lock waits
// for every store before it, those of calls included.
func (c *SendChain) Run(wr *work.SendWR, n int) int {
	if uint(n-1) >= uint(len(c.wrs)) {
		return -1
	}
	w, sge := unsafe.Pointer(unsafe.SliceData(c.wrs)), unsafe.Pointer(unsafe.SliceData(c.sges))
	for left := n; ; {
		op, s := wr.Opcode, unsafe.SliceData(wr.SGEs)
		if op > 31 || c.plain>>(op&31)&1 == 0 || wr.Flags&^plainFlags != 0 || wr.AH != nil || wr.Inline != nil ||
			len(wr.SGEs) != 1 || int32(s.Length) < 0 || wr.Remote.Outside != 0 {
			return -1
		}
		to := (*abi.SGE)(sge)
		to.Addr, to.Length, to.LKey = s.Addr, s.Length, s.LKey
		x := (*abi.SendWR)(w)
		x.WRID = wr.ID
		x.SGList, x.NumSGE = uintptr(sge), 1
		x.Opcode, x.SendFlags = op, wr.Flags
		if f := work.FieldsOf(op); f&work.Imm != 0 {
			x.SetImm(wr.Imm)
		} else if f&work.InvalidateRKey != 0 {
			x.SetInvalidateRKey(wr.InvalidateRKey)
		}
		x.SetRDMA(wr.Remote.Addr, wr.Remote.RKey)
		if left--; left == 0 {
			x.Next = 0
			break
		}
		w = unsafe.Add(w, sendWRSize)
		x.Next = uintptr(w)
		sge = unsafe.Add(sge, uintptr(c.maxSGE)*sgeSize)
		wr = (*work.SendWR)(unsafe.Add(unsafe.Pointer(wr), unsafe.Sizeof(work.SendWR{})))
	}
	if c.ex != nil {
		n, c.errno = c.Post(n)
		return n
	}
	*c.bad = 0
	if ret := int32(ccall.Do(&c.call)); ret != 0 {
		return c.refused(n, ret)
	}
	c.count(n)
	return n
}

// refused is Run after the provider has returned ret for n work requests.
//
//go:noinline
func (c *SendChain) refused(n int, ret int32) int {
	n, c.errno = c.took(ret, c.first, n)
	c.count(n)
	return n
}

// Errno returns why the last Run posted less than it was given.
func (c *SendChain) Errno() int { return c.errno }

// count notes that slots [0,n) were posted.
func (c *SendChain) count(n int) {
	for i := n; i > 0; i-- {
		if c.wrs[i-1].SendFlags&abi.IBV_SEND_SIGNALED != 0 {
			c.unsignaled = n - i
			return
		}
	}
	c.unsignaled += n
}

// Unsignaled returns how many work requests were posted since the last one with IBV_SEND_SIGNALED.
func (c *SendChain) Unsignaled() int { return c.unsignaled }

// Reset makes Unsignaled return 0.
func (c *SendChain) Reset() { c.unsignaled = 0 }

// CountBind notes a work request that was posted without the chain.
func (c *SendChain) CountBind(flags uint32) {
	if c.unsignaled++; flags&abi.IBV_SEND_SIGNALED != 0 {
		c.unsignaled = 0
	}
}

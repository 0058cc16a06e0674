package ops

import (
	"errors"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/work"
)

// MaxBatch is the maximum number of work requests in a chain, and therefore in one C call. The memory of unused slots
// is never touched.
const MaxBatch = 4096

const (
	sendWRSize = unsafe.Sizeof(abi.SendWR{})
	sgeSize    = unsafe.Sizeof(abi.SGE{})
)

// SendChain is a preallocated chain of struct ibv_send_wr, with room for SGEs and inline data for each.
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
	xrc       bool
	dc        bool      // slots name a DCT
	ex        *extended // nil to post by post_send
	bufs      uintptr   // of ex: maxSGE struct ibv_data_buf
	headers   []byte    // maxHeader for each slot; see Headers
	maxHeader int
	mem       *dma.Mem
	headMem   *dma.Mem
	wqes      []byte // maxWQE for each slot; see WQEs
	wqeMem    *dma.Mem

	call       ccall.Call
	plain      uint32 // opcodes that Run takes
	errno      int
	unsignaled int
	doorbell   func() error // see Doorbell; may be nil
}

// NewSendChain returns a chain of up to depth slots for the ibv_qp at qp. Inline data is copied into the chain, because
// a goroutine's stack may move while C reads it.
func NewSendChain(t Table, qp uintptr, depth, maxSGE, maxInline int) (*SendChain, error) {
	depth = min(max(depth, 1), MaxBatch)
	maxSGE = max(maxSGE, 1)
	inlineStride := (maxInline + 15) &^ 15
	wrBytes := uintptr(depth) * sendWRSize
	sgeBytes := uintptr(depth*maxSGE) * sgeSize
	inlineBytes := uintptr(depth * inlineStride)
	bufBytes := uintptr(maxSGE) * unsafe.Sizeof(abi.DataBuf{})
	mem, err := dma.Alloc(int(16+wrBytes+sgeBytes+inlineBytes+bufBytes), nil)
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
		bufs:      inline + inlineBytes,
		first:     first,
		bad:       cmem.At[uintptr](bad),
		badAddr:   bad,
		maxSGE:    maxSGE,
		maxInline: inlineStride,
		mem:       mem,
	}
	c.call = ccall.Call{Fn: c.post, A1: c.qp, A2: c.first, A3: c.badAddr}
	return c, nil
}

// XRC makes the work requests of the chain name an SRQ of the peer.
func (c *SendChain) XRC() { c.xrc = true }

// Len returns the number of slots.
func (c *SendChain) Len() int { return len(c.wrs) }

// Slot sets the fields of slot i that all work requests have, links it to the next slot, and returns it.
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

// Fill writes wr into slot i and links it to the next slot. The caller has checked wr. ah is the address of the struct
// ibv_ah for a datagram, or 0.
func (c *SendChain) Fill(i int, wr *work.SendWR, ah uintptr) {
	w := c.Slot(i, wr.ID, wr.Opcode, wr.Flags)
	f := work.FieldsOf(wr.Opcode)
	if c.xrc {
		w.XRCRemoteSRQN = wr.RemoteSRQN
	}
	switch {
	case f&work.Remote != 0:
		w.SetRDMA(wr.Remote.Addr, wr.Remote.RKey)
	case ah != 0:
		w.SetUD(ah, wr.RemoteQPN, wr.RemoteQKey)
	}
	if c.dc && f&work.Data != 0 {
		*dcAddrOf(w) = dcAddr{ah, wr.DCKey, wr.RemoteQPN, wr.DCStream}
	} else if c.ex != nil && c.ex.SRD {
		*dcAddrOf(w) = dcAddr{ah, uint64(wr.RemoteQKey), wr.RemoteQPN, 0}
	}
	switch {
	case f&work.Imm != 0:
		w.SetImm(wr.Imm)
	case f&work.InvalidateRKey != 0:
		w.SetInvalidateRKey(wr.InvalidateRKey)
	}
	if f&work.Inline == 0 && c.own(i, f, wr) { // all but plain sends and writes
		return
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

// own writes what only some opcodes have. It reports whether slot i is complete without data.
func (c *SendChain) own(i int, f work.Fields, wr *work.SendWR) (done bool) {
	switch {
	case f&work.TSO != 0:
		c.tso(i, wr.TSO)
	case f&work.Masked != 0:
		c.ex.masked[i] = *wr.Masked
	case f&work.WholeWQE != 0:
		c.wqe(i, wr.Inline)
		return true
	default:
		return fillOwn(&c.wrs[i], f, wr)
	}
	return false
}

// FillMkey is Fill for the change of a memory key. The caller has checked m, and keeps it and the key until the slot is
// posted.
func (c *SendChain) FillMkey(i int, wr *work.SendWR, m *work.MkeyUpdate) {
	w := c.Slot(i, wr.ID, wr.Opcode, wr.Flags|abi.IBV_SEND_INLINE)
	*mkeyOf(w) = mkeySlot{cmem.Heap(unsafe.Pointer(m)), m.Places}
}

// Wr returns slot i.
func (c *SendChain) Wr(i int) *abi.SendWR { return &c.wrs[i] }

// SGEs gives slot i n SGEs, at most the chain's maxSGE, and returns them for the caller to fill.
func (c *SendChain) SGEs(i, n int) []abi.SGE {
	list := c.sges[i*c.maxSGE:][:n]
	w := &c.wrs[i]
	w.SGList = uintptr(unsafe.Pointer(unsafe.SliceData(list)))
	w.NumSGE = int32(n)
	return list
}

// Inline copies data into the chain's memory for slot i and makes the slot refer to the copy. Preconditions: len(data)
// is at most the chain's maxInline, and IBV_SEND_INLINE is set.
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

// Post posts slots [0,n) with one call, or one session. It returns how many the provider accepted, and its errno, 0 if
// it accepted all.
func (c *SendChain) Post(n int) (done, errno int) {
	if c.ex != nil {
		done, errno = c.ex.post(c, n)
	} else {
		done, errno = c.postClassic(0, n)
	}
	c.count(done)
	return done, errno
}

// postClassic posts slots [i,end) by post_send.
func (c *SendChain) postClassic(i, end int) (int, int) {
	c.wrs[end-1].Next = 0
	*c.bad = 0
	first := c.first + uintptr(i)*sendWRSize
	ret := int32(ccall.Hot(c.post, c.qp, first, c.badAddr))
	if ret == 0 {
		return end - i, 0
	}
	return c.took(ret, first, end-i)
}

// took returns how many of n work requests at first post_send has posted, which returned ret, and the errno.
func (c *SendChain) took(ret int32, first uintptr, n int) (int, int) {
	e := errno(ret)
	if c.rung(e) {
		if *c.bad == 0 {
			return n, 0
		}
		e = full // what else stops librxe is found before
	}
	return accepted(*c.bad, first, sendWRSize, n), e
}

// Doorbell sets what rings the doorbell in place of a provider that cannot. The providers of the kernel's software
// devices, librxe and libsiw, write a command to the device file when the work requests are in the queue. Linux may
// refuse that because of the thread's credentials: see package uverbs.
func (c *SendChain) Doorbell(ring func() error) { c.doorbell = ring }

// rung reports whether an errno of posting was that of such a doorbell, which rung has rung. libsiw returns -1 for it.
func (c *SendChain) rung(e int) bool {
	return (e == int(syscall.EACCES) || e == int(syscall.EPERM)) && c.doorbell != nil && c.doorbell() == nil
}

// Headers makes room for the header of frames in each slot, up to most bytes.
func (c *SendChain) Headers(most int) (err error) {
	c.maxHeader = (most + 15) &^ 15
	if c.headMem, err = dma.Alloc(len(c.wrs)*c.maxHeader, nil); err == nil {
		c.headers = cmem.Slice[byte](c.headMem.Addr(), len(c.wrs)*c.maxHeader)
	}
	return err
}

// tso copies the header of frames into the chain's memory for slot i. Preconditions: it fits, and Headers made room.
func (c *SendChain) tso(i int, t *work.TSOHeader) {
	dst := c.headers[i*c.maxHeader:][:c.maxHeader]
	n := copy(dst, t.Header)
	c.wrs[i].SetTSO(uintptr(unsafe.Pointer(&dst[0])), uint16(n), t.MSS)
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

// Free frees the memory, if there is a chain. It must not be used afterwards.
func (c *SendChain) Free() error {
	if c == nil {
		return nil
	}
	err := errors.Join(c.mem.Free(), c.headMem.Free(), c.wqeMem.Free())
	if c.ex != nil && c.ex.by != nil {
		err = errors.Join(err, c.ex.by.Free())
	}
	return err
}

// accepted returns the number of work requests before bad. If a provider fails without naming the bad one, accepted
// returns 0, since nothing shows which ones it accepted.
func accepted(bad, first, size uintptr, n int) int {
	if bad < first {
		return 0
	}
	return min(int((bad-first)/size), n)
}

package ibv

import (
	"fmt"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
)

// MROptions are all options of a registration. Either Buf or Dmabuf is set.
//
// C: struct ibv_mr_init_attr.
type MROptions struct {
	Buf    []byte  // pinned until Close, as by RegMR
	Dmabuf *Dmabuf // memory of another driver
	// IOVA is the address by which work requests name the first byte. With Buf 0 means its address
	// in this process.
	IOVA   uint64
	Access AccessFlags
	DMA    *DMAHandle // how the device is to access the memory; may be nil
}

// Dmabuf is a part of a dma-buf.
type Dmabuf struct {
	FD     int    // its descriptor, which stays the caller's
	Offset uint64 // of the first byte
	Length int
}

// RegMREx registers memory with options that RegMR does not have. It needs rdma-core v59; without
// one of the options RegMR does the same with any release.
//
// C: ibv_reg_mr_ex(3).
func (pd *PD) RegMREx(opt *MROptions) (*MR, error) {
	const op = "register mr"
	if err := opt.check(pd); err != nil {
		return nil, opError(op, pd.dev.Name(), err)
	}
	mr := &MR{pd: pd, access: opt.Access, iova: opt.IOVA}
	attr := &abi.MRInitAttr{Access: int32(opt.Access), CompMask: abi.IBV_REG_MR_MASK_IOVA}
	if b := opt.Dmabuf; b != nil {
		mr.length, mr.fixed = b.Length, "of a dma-buf"
		attr.FD, attr.FDOffset = int32(b.FD), b.Offset
		attr.CompMask |= abi.IBV_REG_MR_MASK_FD | abi.IBV_REG_MR_MASK_FD_OFFSET
	} else {
		mr.buf, mr.length, mr.pin, mr.addr = opt.Buf, len(opt.Buf), dma.Pin(opt.Buf), cmem.SliceAddr(opt.Buf)
		attr.Addr = mr.addr
		attr.CompMask |= abi.IBV_REG_MR_MASK_ADDR
		if mr.iova == 0 {
			mr.iova = uint64(mr.addr)
		}
	}
	attr.Length, attr.IOVA = uintptr(mr.length), mr.iova
	var more []*node
	if opt.DMA != nil {
		mr.fixed, more = "one with a DMA handle", []*node{&opt.DMA.node}
		attr.Dmah = opt.DMA.handle
		attr.CompMask |= abi.IBV_REG_MR_MASK_DMAH
	}
	m, err := mr.open(op, func() (uintptr, error) {
		h, err := pd.dev.v.RegMREx(pd.handle, attr)
		return h, pd.dev.explainNewer(pd.dev.explainRegister(err, mr.length, opt.Access), "registration with MROptions",
			"a kernel and a device with support for them", "use RegMR")
	}, more...)
	if err != nil {
		mr.pin.Unpin()
	}
	return m, err
}

// check reports options that are wrong on any device.
func (o *MROptions) check(pd *PD) error {
	switch {
	case o == nil:
		return &ArgError{Arg: "opt", Got: "nil", Want: "options with Buf or Dmabuf"}
	case o.Buf != nil && o.Dmabuf != nil:
		return &ArgError{Arg: "Buf and Dmabuf", Got: "both set", Want: "one of them"}
	case o.Dmabuf == nil && len(o.Buf) == 0:
		return &ArgError{Arg: "Buf", Got: "0 bytes", Want: "at least 1 byte, or Dmabuf"}
	case o.DMA != nil && o.DMA.dev != pd.dev:
		return &ArgError{Arg: "DMA", Got: "a handle of another Device", Want: "one of the PD's Device"}
	}
	if b := o.Dmabuf; b != nil {
		switch {
		case b.FD < 0:
			return &ArgError{Arg: "Dmabuf.FD", Got: fmt.Sprint(b.FD), Want: "an open descriptor"}
		case b.Length < 1:
			return &ArgError{Arg: "Dmabuf.Length", Got: fmt.Sprint(b.Length), Want: "at least 1 byte"}
		}
	}
	return o.Access.checkMemory()
}

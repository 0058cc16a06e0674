package mlx5

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// Doorbell registers are in pages of the device, UARs. A UAR has two that QPs use, and numbers for four. A page of the
// kernel may hold several UARs.
const (
	uarSize     = 4096
	regOffset   = 0x800 // of the first register in its UAR. C: MLX5_BF_OFFSET
	regsPerUAR  = 2     // C: MLX5_NUM_NON_FP_BFREGS_PER_UAR
	namesPerUAR = 4     // C: MLX5_NUM_BFREGS_PER_UAR
	mostUARs    = 256
)

// What follows is of rdma/mlx5_user_ioctl_cmds.h.
const (
	objectUAR   = driverNamespace + 8 // C: MLX5_IB_OBJECT_UAR
	methodAlloc = driverNamespace
	methodFree  = driverNamespace + 1
	uarBF       = 0 // C: MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF
	uarNC       = 1 // C: MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC

	// The commands in offsets of mmap. C: enum mlx5_ib_mmap_cmd.
	mapRegular  = 0
	mapNC       = 3
	mapAllocWC  = 6
	mapClock    = 5
	mapInfo     = 7
	mapDM       = 8
	mapCmdShift = 8
)

func (r *register) addr() uintptr { return cmem.SliceAddr(r.bar.mem[r.offset:]) }

// errNoUARs is returned for a context without registers, where none can be allocated.
var errNoUARs = fmt.Errorf("the kernel allocates no doorbell pages: %w", syscall.EOPNOTSUPP)

// start gets the common page. Where it can be write combining, its second register is for a QP, as in page 0 of a
// kernel that makes registers with the context: doorbells of CQs are flushed as those of QPs are.
func (b *bars) start(c *context) (err error) {
	b.c = c
	if c.info.TotBFRegs != 0 {
		b.static = make(map[int]*bar)
		b.common, err = b.page(0)
		return err
	}
	err = syscall.EOPNOTSUPP
	if c.info.BFRegSize != 0 && !noBlueFlame() {
		b.common, err = b.alloc(uarBF)
	}
	switch {
	case err == nil:
		b.common.taken = make([]bool, b.regsPerPage(b.common))
		b.common.taken[0] = true
		b.own = []*bar{b.common}
	case err == syscall.EOPNOTSUPP:
		if b.nc, err = b.alloc(uarNC); err == syscall.EOPNOTSUPP {
			err = errNoUARs
		}
		b.common = b.nc
	}
	return err
}

// uncached returns a page for registers that a program rings without a flush.
func (b *bars) uncached() (*bar, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.nc == nil {
		b.nc, err = b.alloc(uarNC)
	}
	return b.nc, err
}

// alloc allocates a page by name.
func (b *bars) alloc(kind uint64) (*bar, error) {
	var off uint64
	n := &bar{dynamic: true}
	length := new(uint32)
	err := b.c.file.Method("uar_alloc", objectUAR, methodAlloc, uverbs.New(driverNamespace, &n.handle),
		uverbs.Uint64(driverNamespace+1, kind), uverbs.Out(driverNamespace+2, uverbs.Bytes(&off)),
		uverbs.Out(driverNamespace+3, uverbs.Bytes(length)), uverbs.Out(driverNamespace+4, uverbs.Bytes(&n.page)))
	switch {
	case uverbs.Absent(err):
		return nil, syscall.EOPNOTSUPP
	case err != nil:
		return nil, err
	}
	n.at = int64(off)
	if err = checkPage("uar_alloc", off, *length); err == nil {
		n.mem, err = b.c.file.Map(n.at, int(*length), uverbs.Writable)
	}
	if err == nil {
		return n, nil
	}
	return nil, also(err, b.free(n))
}

// page maps page i of a kernel that makes registers with the context.
// Preconditions: b.mu is held, or nobody else has the context.
func (b *bars) page(i int) (*bar, error) {
	if p := b.static[i]; p != nil {
		return p, nil
	}
	cmd := mapRegular
	if noBlueFlame() {
		cmd = mapNC
	}
	m, err := b.mapPage(cmd, i)
	if err != nil && cmd == mapNC {
		cmd = mapRegular
		m, err = b.mapPage(cmd, i)
	}
	if err != nil {
		return nil, err
	}
	p := &bar{mem: m, at: mapOffset(cmd, i), page: uint32(i)}
	b.static[i] = p
	return p, nil
}

func (b *bars) mapPage(cmd, i int) ([]byte, error) {
	return b.c.file.Map(mapOffset(cmd, i), uverbs.PageSize(), uverbs.Writable)
}

// mapOffset is where page i of a command of mmap is.
func mapOffset(cmd, i int) int64 {
	off := int64(cmd)<<mapCmdShift | int64(i&(1<<mapCmdShift-1)) | int64(i>>mapCmdShift)<<(2*mapCmdShift)
	return off * int64(uverbs.PageSize())
}

// take returns a register that no other QP rings; if apart, outside of the common page.
func (b *bars) take(apart bool) (*register, error) {
	size := int(b.c.info.BFRegSize)
	if size == 0 {
		return nil, syscall.EOPNOTSUPP
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.own {
		if slot := slices.Index(p.taken, false); slot >= 0 && (p != b.common || !apart) {
			return b.slot(p, slot), nil
		}
	}
	p, err := b.another()
	if err != nil {
		return nil, err
	}
	p.taken = make([]bool, b.regsPerPage(p))
	b.own = append(b.own, p)
	return b.slot(p, 0), nil
}

// another returns a page of registers that the context did not have.
func (b *bars) another() (*bar, error) {
	if b.static == nil {
		return b.alloc(uarBF)
	}
	perPage := int(b.c.info.NumUarsPerPage) * regsPerUAR
	if b.wc >= int(b.c.info.NumDynBFRegs)/perPage {
		return nil, syscall.ENOSPC
	}
	m, err := b.mapPage(mapAllocWC, b.wc)
	if err != nil {
		return nil, err
	}
	p := &bar{mem: m, at: mapOffset(mapAllocWC, b.wc), page: uint32(b.wc)}
	b.wc++
	return p, nil
}

func (b *bars) regsPerPage(p *bar) int { return len(p.mem) / uarSize * regsPerUAR }

func (b *bars) slot(p *bar, slot int) *register {
	p.taken[slot] = true
	return &register{bar: p, slot: slot, number: p.page*uint32(b.regsPerPage(p)) + uint32(slot),
		offset: slot/regsPerUAR*uarSize + regOffset + slot%regsPerUAR*int(b.c.info.BFRegSize)}
}

// give undoes take.
func (b *bars) give(r *register) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.bar.taken[r.slot] = false
}

// shared returns the register of a QP that has none of its own. number is the kernel's choice, if it makes registers
// with the context.
func (b *bars) shared(number uint32) (*register, error) {
	if b.static == nil {
		return &register{bar: b.common, slot: -1, offset: regOffset}, nil
	}
	i := &b.c.info
	perPage := int(i.NumUarsPerPage)
	if uint64(number) >= uint64(i.TotBFRegs)/regsPerUAR*namesPerUAR {
		return nil, &uverbs.ReplyError{Command: "create_qp", Field: "bfreg_index", Got: uint64(number),
			Want: fmt.Sprintf("one of %d registers", i.TotBFRegs)}
	}
	uar, k := int(number)/namesPerUAR, int(number)%namesPerUAR
	b.mu.Lock()
	defer b.mu.Unlock()
	p, err := b.page(uar / perPage)
	if err != nil {
		return nil, err
	}
	offset := uar%perPage*uarSize + regOffset + k*int(i.BFRegSize)
	return &register{bar: p, slot: -1, number: number, offset: offset}, nil
}

// free unmaps a page and destroys it. One that cannot be destroyed ends with the file.
func (b *bars) free(p *bar) error {
	err := uverbs.Unmap(p.mem)
	if p.dynamic {
		_ = b.c.file.Method("uar_destroy", objectUAR, methodFree, uverbs.Handle(driverNamespace, p.handle))
	}
	return err
}

// end frees all. What the kernel has of them ends with the file, unless another process has it.
func (b *bars) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	free := func(p *bar) error { return uverbs.Unmap(p.mem) }
	if b.c != nil && b.c.file.Lent() {
		free = b.free
	}
	var errs []error
	all := slices.AppendSeq(b.own, maps.Values(b.static))
	if b.nc != nil {
		all = append(all, b.nc)
	}
	for _, p := range all {
		errs = append(errs, free(p))
	}
	b.own, b.static, b.common, b.nc = nil, nil, nil, nil
	return errors.Join(errs...)
}

// registersWanted returns how many doorbell registers a context wants from a kernel that makes them with the context,
// with the limits that libmlx5 has (rdma-core v44.0, providers/mlx5/mlx5.c:600, 691, 2311).
func registersWanted(pageSize int) (all, lowLatency uint32, err error) {
	const most, medium = 512, 12
	total := envNumber("MLX5_TOTAL_UUARS", 16)
	low := envNumber("MLX5_NUM_LOW_LAT_UUARS", 4)
	if total < 1 || total > most {
		return 0, 0, syscall.EINVAL
	}
	total = (max(total, pageSize/uarSize*regsPerUAR) + 1) &^ 1
	if total > most {
		return 0, 0, syscall.ENOMEM
	}
	if low < 0 {
		return 0, 0, syscall.EINVAL
	}
	if low = max(low, total-medium); low > total-1 {
		return 0, 0, syscall.ENOMEM
	}
	return uint32(total), uint32(low), nil
}

// checkPage refuses pages that cannot be mapped.
func checkPage(command string, off uint64, length uint32) error {
	page := uverbs.PageSize()
	ok := length >= uarSize && int(length) <= 16*page && length%uarSize == 0 && off%uint64(page) == 0 && off>>62 == 0
	return uverbs.Check(ok, command, fmt.Sprintf("offset %#x and length", off), uint64(length), "a page")
}

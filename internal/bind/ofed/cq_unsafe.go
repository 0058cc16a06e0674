package ofed

import (
	"errors"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/dma"
	"github.com/pureverbs/pureverbs/internal/ops"
)

const (
	wallClock = abi.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
	stamps    = abi.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | wallClock
)

// CreateCQEx creates a CQ whose completions have fields by exp_create_cq.
func (v Verbs) CreateCQEx(ctx uintptr, attr *abi.CQInitAttrEx) (uintptr, error) {
	f := attr.WCFlags
	if !abi.Legacy(ctx) || f == 0 {
		return v.Lib.CreateCQEx(ctx, attr)
	}
	if odd := f &^ (standard | stamps); odd != 0 {
		return 0, &control.Lack{Feature: "completions with ", Fields: odd, Need: need,
			Have: have + ", whose experimental verbs have none"}
	}
	if odd := f & (abi.IBV_WC_EX_WITH_SLID | abi.IBV_WC_EX_WITH_SL); odd != 0 {
		return 0, &control.Lack{Feature: "completions with both times and ", Fields: odd,
			Need: need + ", or CQOptions.Fields without one of these",
			Have: have + ", where a time takes their place"}
	}
	cq, err := v.createCQ(ctx, int(attr.CQE), attr.CQContext, attr.Channel, int(attr.CompVector),
		&abi.ExpCQInitAttr{CompMask: abi.IBV_EXP_CQ_INIT_ATTR_FLAGS, Flags: abi.IBV_EXP_CQ_TIMESTAMP})
	if unsupported(err) {
		err = &control.Lack{Feature: "completions with times", Need: "a driver of MLNX_OFED 4 and a device with " +
			"a clock; or no FieldTimestamp and FieldWallClock among CQOptions.Fields"}
	}
	return cq, err
}

// poller fetches completions by ibv_exp_poll_cq into its own array of struct ibv_exp_wc.
type poller struct {
	poll, notify, cq uintptr

	mem   *dma.Mem
	wcs   []abi.ExpWC
	clock *clock // nil without times of the wall clock
	out   [ops.PollBatch]control.Completion
}

// ExpPoller returns what polls a CQ whose completions have fields.
func (v Verbs) ExpPoller(ctx, cq uintptr, fields uint64) (control.Poller, error) {
	if !abi.Legacy(ctx) {
		return nil, control.ErrNoOp
	}
	p, err := v.newPoller(ctx, cq)
	if err == nil && fields&wallClock != 0 {
		if p.clock, err = newClock(ctx); err != nil {
			err = errors.Join(err, p.Free())
		}
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (v Verbs) newPoller(ctx, cq uintptr) (*poller, error) {
	fn := abi.ExpOp(ctx, abi.DistExpPollCQ)
	if fn == 0 {
		return nil, &control.Lack{Feature: "ibv_exp_poll_cq", Need: "a provider with it"}
	}
	mem, err := dma.Alloc(ops.PollBatch*int(unsafe.Sizeof(abi.ExpWC{})), nil)
	if err != nil {
		return nil, err
	}
	return &poller{poll: fn, notify: ops.Lookup(ctx).ReqNotifyCQ, cq: cq, mem: mem,
		wcs: cmem.Slice[abi.ExpWC](mem.Addr(), ops.PollBatch)}, nil
}

// Poll fetches up to n completions.
func (p *poller) Poll(n int) ([]control.Completion, bool) {
	n = min(n, ops.PollBatch)
	got := int(int32(ccall.Hot6(p.poll, p.cq, uintptr(n), p.mem.Addr(), unsafe.Sizeof(abi.ExpWC{}), 0, 0)))
	if got < 0 {
		return nil, false
	}
	if p.clock != nil && got > 0 {
		p.clock.update()
	}
	out := p.out[:min(got, n)]
	for i := range out {
		p.translate(&out[i], &p.wcs[i])
	}
	return out, true
}

func (p *poller) translate(to *control.Completion, e *abi.ExpWC) {
	*to = control.Completion{WC: abi.WC{WRID: e.WRID, Status: e.Status, Opcode: classicOpcode(e.ExpOpcode),
		VendorErr: e.VendorErr, ByteLen: e.ByteLen, ImmData: abi.Be32(e.ImmData), QPNum: e.QPNum, SrcQP: e.SrcQP,
		WCFlags: uint32(e.ExpWCFlags), PKeyIndex: e.PKeyIndex, SLID: e.SLID, SL: e.SL, DLIDPathBits: e.DLIDPathBits}}
	if e.Status != 0 || e.ExpWCFlags&abi.IBV_EXP_WC_WITH_TIMESTAMP == 0 {
		return
	}
	to.Timestamp, to.WC.SLID, to.WC.SL = e.Timestamp, 0, 0 // the time takes their place
	if p.clock != nil {
		to.WallClock = p.clock.last.Nanoseconds(e.Timestamp)
	}
}

// classicOpcode returns the opcode of classic verbs.
func classicOpcode(op uint32) uint32 {
	switch op {
	case abi.IBV_EXP_WC_MASKED_COMP_SWAP:
		return abi.IBV_WC_COMP_SWAP
	case abi.IBV_EXP_WC_MASKED_FETCH_ADD:
		return abi.IBV_WC_FETCH_ADD
	}
	return op
}

// Arm requests an event.
func (p *poller) Arm(solicitedOnly bool) int { return ops.Arm(p.notify, p.cq, solicitedOnly) }

// Free frees the memory.
func (p *poller) Free() error {
	err := p.mem.Free()
	if p.clock != nil {
		err = errors.Join(err, p.clock.mem.Free())
	}
	return err
}

// clock converts timestamps to times, by ibv_exp_query_values.
type clock struct {
	fn, ctx uintptr
	mem     *dma.Mem
	values  *abi.ExpValues // in mem
	last    abi.MLX5DVClockInfo
}

func newClock(ctx uintptr) (*clock, error) {
	none := &control.Lack{Feature: "completions with WallClock", Need: "a driver that reports how ticks relate to " +
		"time, or FieldTimestamp instead of FieldWallClock", Have: have}
	fn := abi.ExpOp(ctx, abi.DistExpQueryValues)
	if fn == 0 {
		return nil, none
	}
	mem, err := dma.Alloc(int(unsafe.Sizeof(abi.ExpValues{})), nil)
	if err != nil {
		return nil, err
	}
	c := &clock{fn: fn, ctx: ctx, mem: mem, values: cmem.At[abi.ExpValues](mem.Addr())}
	e := syscall.EBUSY // the kernel may be updating it for longer than libmlx5 waits
	for try := 0; e == syscall.EBUSY && try < 100; try++ {
		e = c.update()
	}
	switch {
	case e == 0:
		return c, nil
	case unsupported(e), e == syscall.EINVAL: // libmlx5 41mlnx1 returns EINVAL if the kernel shares no such page
		return nil, errors.Join(none, mem.Free())
	}
	return nil, errors.Join(e, mem.Free())
}

// update reads how ticks relate to time now. If it fails, the relation stays the last one.
func (c *clock) update() syscall.Errno {
	c.values.CompMask = 0
	ret := int32(ccall.Hot(c.fn, c.ctx, abi.IBV_EXP_VALUES_CLOCK_INFO, uintptr(unsafe.Pointer(c.values))))
	if ret != 0 {
		return syscall.Errno(max(ret, -ret))
	}
	if c.values.CompMask&abi.IBV_EXP_VALUES_CLOCK_INFO == 0 {
		return syscall.EOPNOTSUPP
	}
	i := &c.values.ClockInfo
	c.last = abi.MLX5DVClockInfo{Nsec: i.Nsec, LastCycles: i.Cycles, Frac: i.Frac, Mult: i.Mult, Shift: i.Shift,
		Mask: i.Mask}
	return 0
}

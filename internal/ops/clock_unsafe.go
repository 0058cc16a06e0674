package ops

import (
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/dma"
)

// Clock converts timestamps of an mlx5 device to times. Its owner serialises its methods.
type Clock struct {
	fn, ctx uintptr
	now     *abi.MLX5DVClockInfo // written by C
	exp     *abi.ExpValues       // or this, by an experimental verb
	page    *abi.ClockPage       // or this, by the kernel
	last    abi.MLX5DVClockInfo
	mem     *dma.Mem
}

// NewClock returns the clock of the ibv_context at ctx. fn is the address of mlx5dv_get_clock_info.
func NewClock(fn, ctx uintptr) (*Clock, error) {
	mem, err := dma.Alloc(int(unsafe.Sizeof(abi.MLX5DVClockInfo{})), nil)
	if err != nil {
		return nil, err
	}
	return (&Clock{fn: fn, ctx: ctx, now: cmem.At[abi.MLX5DVClockInfo](mem.Addr()), mem: mem}).start()
}

// NewPageClock returns the clock of a device with such a page.
func NewPageClock(page *abi.ClockPage) (*Clock, error) { return (&Clock{page: page}).start() }

// NewExpClock returns the clock of the ibv_context at ctx, of MLNX_OFED 4.x. fn is ibv_exp_query_values.
func NewExpClock(fn, ctx uintptr) (*Clock, error) {
	mem, err := dma.Alloc(int(unsafe.Sizeof(abi.ExpValues{})), nil)
	if err != nil {
		return nil, err
	}
	return (&Clock{fn: fn, ctx: ctx, exp: cmem.At[abi.ExpValues](mem.Addr()), mem: mem}).start()
}

// start reads the first relation of ticks to time, and frees the memory if there is none.
func (c *Clock) start() (*Clock, error) {
	// The kernel may be updating it for longer than libmlx5 waits.
	e := syscall.EBUSY
	for try := 0; e == syscall.EBUSY && try < 100; try++ {
		e = syscall.Errno(c.update())
	}
	if e != 0 {
		_ = c.Free()
		return nil, e
	}
	return c, nil
}

// Update reads how ticks relate to time now. If the kernel is just updating that, the relation stays the last one.
func (c *Clock) Update() { c.update() }

func (c *Clock) update() int {
	switch {
	case c.exp != nil:
		return c.updateExp()
	case c.page == nil:
	case c.page.Read(&c.last):
		return 0
	default:
		return int(syscall.EBUSY)
	}
	e := errno(int32(ccall.Hot(c.fn, c.ctx, uintptr(unsafe.Pointer(c.now)), 0)))
	if e == 0 {
		c.last = *c.now
	}
	return e
}

func (c *Clock) updateExp() int {
	c.exp.CompMask = 0
	e := errno(int32(ccall.Hot(c.fn, c.ctx, abi.IBV_EXP_VALUES_CLOCK_INFO, uintptr(unsafe.Pointer(c.exp)))))
	if e == 0 && c.exp.CompMask&abi.IBV_EXP_VALUES_CLOCK_INFO == 0 {
		e = int(syscall.EOPNOTSUPP)
	}
	if e == 0 {
		i := &c.exp.ClockInfo
		c.last = abi.MLX5DVClockInfo{Nsec: i.Nsec, LastCycles: i.Cycles, Frac: i.Frac, Mult: i.Mult, Shift: i.Shift,
			Mask: i.Mask}
	}
	return e
}

// Nanoseconds returns the time of a timestamp since 1970.
func (c *Clock) Nanoseconds(ticks uint64) uint64 { return c.last.Nanoseconds(ticks) }

// Free frees the memory. The clock must not be used afterwards.
func (c *Clock) Free() error {
	if c.mem == nil {
		return nil
	}
	return c.mem.Free()
}

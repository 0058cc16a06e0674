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
	if c.page != nil {
		if c.page.Read(&c.last) {
			return 0
		}
		return int(syscall.EBUSY)
	}
	e := errno(int32(ccall.Hot(c.fn, c.ctx, uintptr(unsafe.Pointer(c.now)), 0)))
	if e == 0 {
		c.last = *c.now
	}
	return e
}

// Nanoseconds returns the time of a timestamp since 1970.
func (c *Clock) Nanoseconds(ticks uint64) uint64 { return c.last.Nanoseconds(ticks) }

// Free frees the memory, if there is a clock. It must not be used afterwards.
func (c *Clock) Free() error {
	if c == nil {
		return nil
	}
	return c.mem.Free()
}

package mlx5

import (
	"errors"
	"math/bits"
	"sync/atomic"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/control"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

const clockVersion1 = 1 << 0 // C: 1 << MLX5_IB_CLOCK_INFO_V1

// clockPage maps a page once.
func (c *context) clockPage(at *[]byte, cmd int) ([]byte, error) {
	c.clocks.mu.Lock()
	defer c.clocks.mu.Unlock()
	if *at == nil {
		m, err := c.file.Map(mapOffset(cmd, 0), uverbs.PageSize(), uverbs.Readable)
		if err != nil {
			return nil, err
		}
		*at = m
	}
	return *at, nil
}

// end unmaps the pages.
func (c *clocks) end() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Join(uverbs.Unmap(c.core), uverbs.Unmap(c.info))
	c.core, c.info = nil, nil
	return err
}

// QueryRTValuesEx reads the device's clock, in ticks.
func (c queries) QueryRTValuesEx(o *abi.ValuesEx) error {
	const rawClock = 1 << 0 // C: IBV_VALUES_MASK_RAW_CLOCK
	if o.CompMask&^rawClock != 0 {
		return syscall.EINVAL
	}
	if o.CompMask == 0 {
		return nil
	}
	ticks, err := c.coreClock()
	if err != nil {
		return syscall.EOPNOTSUPP
	}
	word := func(at int) uint64 {
		return uint64(bits.ReverseBytes32(atomic.LoadUint32(cmem.At[uint32](cmem.SliceAddr(ticks[at:])))))
	}
	high := word(0)
	low := word(4)
	if again := word(0); again != high { // it carried
		high, low = again, word(4)
	}
	o.RawClock = abi.Timespec{Nsec: int64(high<<32 | low)}
	return nil
}

// coreClock returns the device's clock: 8 bytes, big endian.
func (c *context) coreClock() ([]byte, error) {
	off := c.info.HCACoreClockOffset % uint64(uverbs.PageSize())
	if c.info.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET == 0 || off%4 != 0 ||
		off+8 > uint64(uverbs.PageSize()) {
		return nil, syscall.EOPNOTSUPP
	}
	page, err := c.clockPage(&c.clocks.core, mapClock)
	if err != nil {
		return nil, err
	}
	return page[off : off+8], nil
}

// clockInfo returns the page that relates ticks to time.
func (c *context) clockInfo() (*abi.ClockPage, error) {
	if c.info.ClockInfoVersions&clockVersion1 == 0 {
		return nil, syscall.EINVAL
	}
	page, err := c.clockPage(&c.clocks.info, mapInfo)
	if err != nil {
		return nil, err
	}
	return cmem.At[abi.ClockPage](cmem.SliceAddr(page)), nil
}

// ClockInfo returns the page that relates ticks to time.
func (c queries) ClockInfo() (i control.ClockInfo, err error) {
	i.Page, err = c.clockInfo()
	return i, err
}

// GetClockInfo returns what turns ticks into time.
func (c queries) GetClockInfo(o *abi.MLX5DVClockInfo) error {
	page, err := c.clockInfo()
	if err == nil && !page.Read(o) {
		err = syscall.EBUSY
	}
	return err
}

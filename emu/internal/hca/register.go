//go:build linux

package hca

import (
	"slices"

	"golang.org/x/sys/unix"
)

// How doorbell registers are counted. C: MLX5_NON_FP_BFREGS_PER_UAR, MLX5_BFREGS_PER_UAR, MLX5_MAX_BFREGS,
// MLX5_MIN_DYN_BFREGS.
const (
	pageRegisters    = 2 // that QPs have
	pageNumbers      = 4 // two more are never given out, but counted in answers
	maxRegisters     = 512
	dynamicRegisters = 512
)

// Registers are the doorbell registers of a context whose library cannot allocate UARs (before rdma-core 29). The
// static ones come with the context, and the kernel chooses among them. The dynamic ones are the library's to choose;
// it maps their pages as it needs them. C: struct mlx5_bfreg_info.
type Registers struct {
	static  []*UAR
	dynamic []*UAR // nil: not mapped
	uses    []int  // QPs of each static register
	zero    bool   // the library is so old that it knows none but register 0
	shared  int    // static registers from 1 on that many QPs share; those behind have one each
}

// AddRegisters hands out the static registers of a library that asks for total, of which lowLatency have one QP each.
// They are rounded up to whole pages. With zero the library knows register 0 alone.
func (c *Context) AddRegisters(total, lowLatency uint32, zero bool) unix.Errno {
	if total > maxRegisters {
		return unix.ENOMEM
	}
	n := (total + pageRegisters - 1) &^ (pageRegisters - 1)
	if n == 0 || lowLatency > n-1 {
		return unix.EINVAL
	}
	r := &Registers{
		dynamic: make([]*UAR, dynamicRegisters/pageRegisters), uses: make([]int, n), zero: zero,
		shared: int(n - lowLatency - 1),
	}
	c.Registers = r
	for i := range int(n / pageRegisters) {
		u := &UAR{Context: c, Index: i}
		if e := u.open(int64(i)); e != 0 {
			c.DropRegisters()
			return e
		}
		r.static = append(r.static, u)
	}
	return 0
}

// DropRegisters takes all registers back.
func (c *Context) DropRegisters() {
	if r := c.Registers; r != nil {
		for _, u := range slices.Concat(r.static, r.dynamic) {
			if u != nil {
				u.close()
			}
		}
		c.Registers = nil
	}
}

// Static returns the number of static registers; 0 for a library that allocates UARs.
func (c *Context) Static() int {
	if c.Registers == nil {
		return 0
	}
	return len(c.Registers.uses)
}

// Dynamic returns the number of registers whose pages the library maps; 0 for a library that allocates UARs.
func (c *Context) Dynamic() int {
	if c.Registers == nil {
		return 0
	}
	return dynamicRegisters
}

// Pages returns the pages of the static registers.
func (r *Registers) Pages() []*UAR { return r.static }

// MapStatic settles that static page i is page at of the file, as the program maps it. Mapped with another caching it
// would be another page of the file, so that who maps one both ways is refused here, though not by the kernel.
func (c *Context) MapStatic(i int, at int64) unix.Errno {
	r := c.Registers
	if r == nil || i >= len(r.static) {
		return unix.EINVAL
	}
	u := r.static[i]
	if u.at != at {
		if u.mapped {
			return unix.EINVAL
		}
		page, err := c.File.Map(at*pageSize, pageSize)
		if err != nil {
			return unix.ENOMEM
		}
		clear(page)
		_ = unix.Munmap(u.Page)
		u.Page, u.at = page, at
	}
	u.mapped = true
	return 0
}

// MapDynamic makes dynamic page i, which is page at of the file. The kernel does that once.
func (c *Context) MapDynamic(i int, at int64) unix.Errno {
	r := c.Registers
	if r == nil || i >= len(r.dynamic) || r.dynamic[i] != nil {
		return unix.EINVAL
	}
	u := &UAR{Context: c, Index: len(r.static) + i, mapped: true}
	if e := u.open(at); e != 0 {
		return e
	}
	r.dynamic[i] = u
	return 0
}

// DynamicUAR returns the page of a dynamic register, or nil if it is not mapped.
func (c *Context) DynamicUAR(reg uint32) *UAR {
	if c.Registers == nil || reg >= dynamicRegisters {
		return nil
	}
	return c.Registers.dynamic[reg/pageRegisters]
}

// pick chooses a static register for a QP: one of its own while there are, then the shared one that has the fewest
// QPs, else 0. C: alloc_bfreg.
func (r *Registers) pick() int {
	best := 0
	switch i := slices.Index(r.uses[1+r.shared:], 0); {
	case r.zero:
	case i >= 0:
		best = 1 + r.shared + i
	default:
		for i := 1; i <= r.shared; i++ {
			if best == 0 || r.uses[i] < r.uses[best] {
				best = i
			}
		}
	}
	r.uses[best]++
	return best
}

// registerOf gives a QP its doorbell page.
func (c *Context) registerOf(qp *QP, i *QPInit) unix.Errno {
	r := c.Registers
	switch {
	case i.UARPage >= 0:
		if i.SQCount == 0 {
			return 0
		}
		if i.UARPage >= len(c.UARs) || c.UARs[i.UARPage] == nil {
			return unix.EINVAL
		}
		qp.UAR = c.UARs[i.UARPage]
	case i.Register >= 0:
		if qp.UAR = c.DynamicUAR(uint32(i.Register)); qp.UAR == nil {
			return unix.EINVAL
		}
	case r == nil:
		return unix.EINVAL
	default:
		qp.Register = r.pick()
		qp.UAR = r.static[qp.Register/pageRegisters]
	}
	return 0
}

// dropRegister gives the static register back.
func (qp *QP) dropRegister() {
	if qp.Register >= 0 {
		qp.Context.Registers.uses[qp.Register]--
	}
}

// RegisterNumber returns the static register of a QP as create_qp reports it, ok = false if it has none.
func (qp *QP) RegisterNumber() (n uint32, ok bool) {
	if qp.Register < 0 {
		return 0, false
	}
	return uint32(qp.Register/pageRegisters*pageNumbers + qp.Register%pageRegisters), true
}

// open maps page at of the file for the engine.
func (u *UAR) open(at int64) unix.Errno {
	page, err := u.Context.File.Map(at*pageSize, pageSize)
	if err != nil {
		return unix.ENOMEM
	}
	clear(page)
	u.Page, u.at = page, at
	u.Context.Device.Fabric.Engine.UARAdded(u)
	return 0
}

func (u *UAR) close() {
	u.Context.Device.Fabric.Engine.UARRemoved(u)
	_ = unix.Munmap(u.Page)
	u.Page = nil
}

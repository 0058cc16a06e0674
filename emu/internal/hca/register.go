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

// Registers are the doorbell registers of a context whose library cannot allocate UARs (before rdma-core 29); others
// have none. The static ones come with the context, and the kernel chooses among them. The dynamic ones are the
// library's to choose; it maps their pages as it needs them. C: struct mlx5_bfreg_info.
type Registers struct {
	static  []*UAR
	dynamic []*UAR // nil: not mapped
	uses    []int  // QPs of each static register
	zero    bool   // the library is so old that it knows none but register 0
	shared  int    // static registers from 1 on that many QPs share; those behind have one each
}

var registerPart = newPart[Registers]()

// RegistersOf returns the registers of a context.
func RegistersOf(c *Context) *Registers { return registerPart.of(&c.parts) }

// AddRegisters hands out the static registers of a library that asks for total, of which lowLatency have one QP each.
// They are rounded up to whole pages. With zero the library knows register 0 alone.
func AddRegisters(c *Context, total, lowLatency uint32, zero bool) unix.Errno {
	if total > maxRegisters {
		return unix.ENOMEM
	}
	n := (total + pageRegisters - 1) &^ (pageRegisters - 1)
	if n == 0 || lowLatency > n-1 {
		return unix.EINVAL
	}
	r := RegistersOf(c)
	*r = Registers{
		dynamic: make([]*UAR, dynamicRegisters/pageRegisters), uses: make([]int, n), zero: zero,
		shared: int(n - lowLatency - 1),
	}
	for i := range int(n / pageRegisters) {
		u := &UAR{Held: Held{Context: c}, Index: i}
		if e := u.open(int64(i)); e != 0 {
			r.drop()
			return e
		}
		r.static = append(r.static, u)
	}
	return 0
}

// DropRegisters takes all registers back.
func DropRegisters(c *Context) { RegistersOf(c).drop() }

func (r *Registers) drop() {
	for _, u := range slices.Concat(r.static, r.dynamic) {
		if u != nil {
			u.close()
		}
	}
	*r = Registers{}
}

// Static returns the number of static registers; 0 for a library that allocates UARs.
func (r *Registers) Static() int { return len(r.uses) }

// Dynamic returns the number of registers whose pages the library maps; 0 for a library that allocates UARs.
func (r *Registers) Dynamic() int { return len(r.dynamic) * pageRegisters }

// Pages returns the pages of the static registers.
func (r *Registers) Pages() []*UAR { return r.static }

// MapStatic settles that static page i is page at of the file, as the program maps it. Mapped with another caching it
// would be another page of the file, so that who maps one both ways is refused here, though not by the kernel.
func (r *Registers) MapStatic(i int, at int64) unix.Errno {
	if i >= len(r.static) {
		return unix.EINVAL
	}
	u := r.static[i]
	if u.at != at {
		if u.mapped {
			return unix.EINVAL
		}
		page, err := u.Context.File.Map(at*pageSize, pageSize)
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
func (r *Registers) MapDynamic(i int, at int64) unix.Errno {
	if i >= len(r.dynamic) || r.dynamic[i] != nil {
		return unix.EINVAL
	}
	u := &UAR{Held: Held{Context: r.static[0].Context}, Index: len(r.static) + i, mapped: true}
	if e := u.open(at); e != 0 {
		return e
	}
	r.dynamic[i] = u
	return 0
}

// DynamicUAR returns the page of a dynamic register, or nil if it is not mapped.
func (r *Registers) DynamicUAR(reg uint32) *UAR {
	if int64(reg) >= int64(r.Dynamic()) {
		return nil
	}
	return r.dynamic[reg/pageRegisters]
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
func (qp *QP) registerOf(i *QPInit) unix.Errno {
	c, r := qp.Context, RegistersOf(qp.Context)
	switch {
	case !i.Type.rings(), i.UARPage >= 0 && i.SQCount == 0:
	case i.UARPage >= 0:
		if qp.UAR = UARAt(c, i.UARPage); qp.UAR == nil {
			return unix.EINVAL
		}
	case i.Register >= 0:
		if qp.UAR = r.DynamicUAR(uint32(i.Register)); qp.UAR == nil {
			return unix.EINVAL
		}
	case r.Static() == 0:
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
		RegistersOf(qp.Context).uses[qp.Register]--
	}
}

// RegisterNumber returns the static register of a QP as create_qp reports it, ok = false if it has none.
func (qp *QP) RegisterNumber() (n uint32, ok bool) {
	if qp.Register < 0 {
		return 0, false
	}
	return uint32(qp.Register/pageRegisters*pageNumbers + qp.Register%pageRegisters), true
}

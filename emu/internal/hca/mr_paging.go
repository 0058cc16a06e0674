//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// PageIn gives the adapter the pages of n bytes at va that it does not have, and reports whether the program has them
// all.
func (k *MKey) PageIn(d *Device, va, n uint64, prefetch bool) bool {
	p := k.paging()
	if p == nil || n == 0 {
		return true
	}
	var probe [256]guest.IOV
	var got [len(probe)]byte
	last := (va + n - 1) / pageSize
	for page := va / pageSize; page <= last; {
		miss := 0
		for ; page <= last && miss < len(probe); page++ {
			if w, bit := p.bit(page, false); w == nil || *w&bit == 0 {
				probe[miss] = guest.IOV{Base: max(page*pageSize, va), Len: 1}
				miss++
			}
		}
		if miss == 0 {
			break
		}
		if k.Mem.ReadV(got[:miss], probe[:miss]) != nil {
			return false
		}
		for _, v := range probe[:miss] {
			w, bit := p.bit(v.Base/pageSize, true)
			*w |= bit
		}
		if prefetch {
			d.Paged.Prefetched += uint64(miss)
			p.Counts.Prefetched += uint64(miss)
		} else {
			d.Paged.Faults += uint64(miss)
			p.Counts.Faults += uint64(miss)
		}
	}
	return true
}

// PageOut takes from the adapter those pages of n bytes at va that the program has given back.
func (k *MKey) PageOut(d *Device, va, n uint64) {
	p := k.paging()
	if p == nil || n == 0 {
		return
	}
	for page := va / pageSize; page <= (va+n-1)/pageSize; page++ {
		var b [1]byte
		w, bit := p.bit(page, false)
		if w != nil && *w&bit != 0 && k.Mem.Read(max(page*pageSize, va), b[:]) != nil {
			*w &^= bit
			d.Paged.Invalidations++
			p.Counts.Invalidations++
		}
	}
}

// OnDemand reports whether the memory of a region or window comes on demand.
func (k *MKey) OnDemand() bool { return k.paging() != nil }

func (k *MKey) paging() *Paging {
	if k.MR != nil {
		return k.MR.Paging
	}
	return k.Paging
}

// Advice of advise_mr. C: enum ib_uverbs_advise_mr_advice.
const (
	advicePrefetch = iota
	advicePrefetchWrite
	advicePrefetchNoFault
)

// Advised is memory that advise_mr is about.
type Advised struct {
	LKey    uint32
	Addr, N uint64
}

// Advise prefetches memory of regions on demand.
func Advise(c *Context, pd uint32, advice uint64, flags uint32, all []Advised) unix.Errno {
	p, e := Find[*PD](c, pd)
	switch {
	case e != 0:
		return e
	case flags&^1 != 0, len(all) == 0: // FLUSH: wait for it, as happens here in any case
		return unix.EINVAL
	case advice > advicePrefetchNoFault:
		return unix.EOPNOTSUPP
	}
	for _, a := range all {
		k := c.Device.Key(a.LKey)
		switch {
		case k == nil, k.Kind == KeyMR && k.Paging == nil: // the driver knows by its key what is on demand, and windows
			return unix.ENOENT
		case k.Kind != KeyMR:
			return unix.EINVAL
		case k.PD != p, advice == advicePrefetchWrite && !k.writable:
			return unix.EPERM
		}
	}
	for _, a := range all {
		k := c.Device.Key(a.LKey)
		va, ok := k.Resolve(a.Addr, a.N, 0)
		switch {
		case !ok, advice == advicePrefetchWrite && !k.Mem.Mapped(va, a.N, true),
			advice != advicePrefetchNoFault && !k.PageIn(c.Device, va, a.N, true):
			return unix.EFAULT
		}
	}
	return 0
}

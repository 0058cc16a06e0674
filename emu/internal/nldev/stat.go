//go:build linux

package nldev

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/sysfs"
)

// Attributes of statistics. C: enum rdma_nldev_attr.
const (
	attrStatMode       = 74
	attrStatRes        = 75
	attrHWCounters     = 80
	attrHWCounterEntry = 81
	attrHWCounterName  = 82
	attrHWCounterValue = 83
	attrHWCounterIndex = 94
)

// regions is the kind of which each resource has statistics: pages on demand. No QP is bound to a counter.
var regions = &table{"mr", attrMR, attrMREntry, attrMRN, of(mrn, (*request).mrStatistic), false}

// statistics answers for all resources of a kind.
func (r *request) statistics() unix.Errno {
	switch d := r.named(); {
	case d != nil && r.num[attrStatRes] == attrQP:
		return 0
	case d != nil && r.num[attrStatRes] == attrMR:
		return r.table(d, regions, 0)
	}
	return unix.EINVAL
}

// statistic answers for one port, for one region, or how the QPs of a port are bound to counters: they are not.
func (r *request) statistic(d *hca.Device, port int) unix.Errno {
	_, mode := r.num[attrStatMode]
	kind, ok := r.num[attrStatRes]
	switch {
	case ok && kind == attrMR:
		return r.table(d, regions, port)
	case ok && (kind != attrQP || !mode), port == 0:
		return unix.EINVAL
	}
	r.about(d, func() {
		r.U32(attrPortIndex, uint32(port))
		if ok {
			r.U32(attrStatMode, 0)
			return
		}
		r.Nest(attrHWCounters, func() {
			for _, name := range sysfs.HWCounters() {
				var n uint64
				for i, files := range hca.CounterNames {
					if slices.Contains(files, name) {
						n = d.Ports[port-1].Count[i]
					}
				}
				r.counter(name, n)
			}
		})
	})
	return 0
}

// optional tells which counters of a port can be switched: none.
func (r *request) optional(d *hca.Device, port int) unix.Errno {
	if port == 0 {
		return unix.EINVAL
	}
	r.about(d, func() {
		r.U32(attrPortIndex, uint32(port))
		r.Nest(attrHWCounters, func() {
			for i, name := range sysfs.HWCounters() {
				r.Nest(attrHWCounterEntry, func() {
					r.Text(attrHWCounterName, name)
					r.U32(attrHWCounterIndex, uint32(i))
				})
			}
		})
	})
	return 0
}

func (r *request) counter(name string, n uint64) {
	r.Nest(attrHWCounterEntry, func() {
		r.Text(attrHWCounterName, name)
		r.U64(attrHWCounterValue, n)
	})
}

func (r *request) mrStatistic(k *hca.MKey) {
	r.U32(attrMRN, k.Key>>8)
	if k.Paging == nil {
		return
	}
	n := k.Paging.Counts
	r.Nest(attrHWCounters, func() {
		r.counter("page_faults", n.Faults)
		r.counter("page_invalidations", n.Invalidations)
		r.counter("page_prefetch", n.Prefetched)
	})
}

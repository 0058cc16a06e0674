//go:build linux

package hca

import (
	"slices"

	"golang.org/x/sys/unix"
)

// IndTable is an indirection table.
type IndTable struct {
	Held
	Num uint32
	WQs []*WQ
}

// CreateIndTable makes a table of WQs.
func CreateIndTable(c *Context, handles []uint32) (*IndTable, unix.Errno) {
	all := c.Device.wqs()
	t := &IndTable{Held: c.held(rankTable, "indirection table")}
	for _, h := range handles {
		w, e := Find[*WQ](c, h)
		if e != 0 {
			return nil, e
		}
		t.WQs = append(t.WQs, w)
		t.Use(w)
	}
	switch {
	case len(t.WQs) > MaxIndTableSize:
		return nil, unix.EINVAL
	case all.tables >= MaxIndTables:
		return nil, unix.ENOMEM
	}
	all.tables++
	t.life.end = func() { all.tables-- }
	all.lastTable++
	t.Num = all.lastTable & 0xffffff
	return added(c, t)
}

// Fields of a hash. C: enum mlx5_rx_hash_fields.
const (
	HashSrcIPv4, HashDstIPv4       = 1 << 0, 1 << 1
	HashSrcIPv6, HashDstIPv6       = 1 << 2, 1 << 3
	HashSrcPortTCP, HashDstPortTCP = 1 << 4, 1 << 5
	HashSrcPortUDP, HashDstPortUDP = 1 << 6, 1 << 7

	HashFields   = 1<<8 - 1
	HashToeplitz = 1 << 0
	HashKeySize  = 40
)

// check tells what the kernel refuses of a hash.
func (r *RSS) check() unix.Errno {
	any := func(mask uint64) bool { return r.Fields&mask != 0 }
	switch {
	case r.Function != HashToeplitz:
		return unix.EOPNOTSUPP
	case len(r.Key) != HashKeySize:
		return unix.EINVAL
	case r.Fields == 0 && len(r.Queues) > 1:
		return unix.EINVAL
	case any(HashSrcIPv4|HashDstIPv4) && any(HashSrcIPv6|HashDstIPv6):
		return unix.EINVAL
	case any(HashSrcPortTCP|HashDstPortTCP) && any(HashSrcPortUDP|HashDstPortUDP):
		return unix.EINVAL
	case r.Fields&^HashFields != 0: // what it says that it has
		return unix.EOPNOTSUPP
	}
	return 0
}

// CreateRSS makes a QP that has no queues and no number, only rules that lead to it.
func CreateRSS(c *Context, i *QPInit) (*QP, unix.Errno) {
	qp := &QP{Held: c.held(rankQP, "QP"), Register: -1, Type: i.Type, Flags: i.Flags, Frames: Frames{RSS: i.RSS},
		Mem: c.Mem}
	var e unix.Errno
	if qp.PD, e = Find[*PD](c, i.PD); e != 0 {
		return nil, e
	}
	t, e := Find[*IndTable](c, i.IndTable)
	if e != 0 {
		return nil, e
	}
	r := qp.Frames.RSS
	for _, w := range t.WQs {
		r.Queues = append(r.Queues, w.Queue)
	}
	if e = r.check(); e != 0 {
		return nil, e
	}
	r.Key = slices.Clone(r.Key)
	qp.Use(qp.PD, t)
	qp.User, qp.life.end = i.User, qp.end
	c.Device.qps().live++
	return added(c, qp)
}

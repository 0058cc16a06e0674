//go:build linux

package random

import (
	"errors"

	"github.com/pureverbs/pureverbs/ibv"
)

// window makes o the bind of a link's free window, or the invalidation of the bound one.
func (m *model) window(d *lane, o *op) {
	b := &m.bound[d.i][d.e]
	if o.code = ibv.OpBindMW; *b {
		o.code = ibv.OpLocalInv
	}
	*b = !*b
	o.n = 0
	if one(m.r, 3) {
		o.flags |= ibv.Signaled
	}
	if one(m.r, 10) {
		o.flags |= ibv.Fence
	}
}

// windows are those of an end: one for its peer, and one that it binds for nobody.
type windows struct {
	lent, own *ibv.MW
	key       uint32 // of own, after all binds so far
}

func (w *windows) close() (err error) {
	for _, mw := range []*ibv.MW{w.lent, w.own} {
		if mw != nil {
			err = errors.Join(err, mw.Close())
		}
	}
	*w = windows{}
	return err
}

// newWindows gives an end that was connected its windows, and returns what the peer is to use. Those of before are
// closed, bound or not.
func (s *station) newWindows(q *end) (ibv.RemoteMemory, error) {
	r := q.mem.Remote()
	err := q.windows.close()
	if q.l.binds && err == nil {
		if q.windows.own, err = s.pd.AllocMW(ibv.MWType2); err == nil {
			q.windows.key = q.windows.own.RKey()
		}
	}
	if q.l.lends == 0 || err != nil {
		return r, err
	}
	mw, err := s.base.AllocMW(q.l.lends)
	if err != nil {
		return r, err
	}
	q.windows.lent = mw
	b := &ibv.BindMW{MW: mw, RKey: ibv.NextRKey(mw.RKey()), MR: q.mem.MR, Addr: r.Addr + uint64(q.l.target()),
		Length: uint64(q.l.area), Access: ibv.RemoteRead | ibv.RemoteWrite | ibv.RemoteAtomic}
	const id = 1 << 62
	if q.l.lends == ibv.MWType1 {
		err = q.qp.BindMW(id, ibv.Signaled, b)
	} else {
		_, err = q.qp.PostSend([]ibv.SendWR{{ID: id, Opcode: ibv.OpBindMW, Flags: ibv.Signaled, Bind: b}})
	}
	if err != nil {
		return r, err
	}
	was := q.fate
	q.fate, q.left = &fate{}, []sent{{id: id, opcode: ibv.WCBindMW, n: -1}}
	err = s.collect(func(x *end) bool { return x == q && s.lacks(q) })
	q.fate = was
	r.RKey = b.RKey
	return r, err
}

// window fills a work request that binds or invalidates the end's own window.
func (q *end) window(w *ibv.SendWR, o *op) {
	if o.code == ibv.OpLocalInv {
		w.InvalidateRKey = q.windows.key
		return
	}
	q.windows.key = ibv.NextRKey(q.windows.key)
	off := o.imm % uint32(q.l.area)
	w.Bind = &ibv.BindMW{MW: q.windows.own, RKey: q.windows.key, MR: q.mem.MR, Addr: q.mem.Addr() + uint64(off),
		Length: uint64(q.l.area) - uint64(off), Access: ibv.AccessFlags(o.imm>>8) & (ibv.RemoteRead |
			ibv.RemoteWrite | ibv.RemoteAtomic | ibv.ZeroBased)}
}

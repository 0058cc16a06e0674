//go:build linux

package engine

import "github.com/pureverbs/pureverbs/internal/emu/hca"

// local checks a local key and returns the memory under it.
func (e *Engine) local(d *hca.Device, pd *hca.PD, lkey uint32, addr, n uint64, need hca.Access) (piece, bool) {
	k := d.Key(lkey)
	switch {
	case k == nil:
		return piece{}, false
	case k.Kind == hca.KeyNull:
		return piece{n: n, zero: true}, true
	case k.Free || k.PD != pd || k.Kind != hca.KeyMR:
		return piece{}, false
	}
	return e.resolve(d, k, addr, n, need)
}

// remote checks a remote key as the responder does and returns the memory under it.
func (e *Engine) remote(peer *hca.QP, pd *hca.PD, rkey uint32, addr, n uint64, need hca.Access) (piece, bool) {
	k := peer.Context.Device.Key(rkey)
	switch {
	case k == nil || k.Free || k.PD != pd || k.Kind == hca.KeyNull:
		return piece{}, false
	case k.Kind == hca.KeyMW2 && k.QPN != peer.Num:
		return piece{}, false
	}
	return e.resolve(peer.Context.Device, k, addr, n, need)
}

func (e *Engine) resolve(d *hca.Device, k *hca.MKey, addr, n uint64, need hca.Access) (piece, bool) {
	va, ok := k.Resolve(addr, n, need)
	if !ok {
		return piece{}, false
	}
	if k.OnDemand() {
		e.paged = true
		ok = k.PageIn(d, va, n, false)
	} else {
		e.strict.used(k)
	}
	return piece{va: va, n: n, mem: k.Mem}, ok
}

// localList appends the memory of a WQE's data segments to list. It returns a syndrome, or 0.
func (e *Engine) localList(qp *hca.QP, w *wqe, list []piece, need hca.Access) ([]piece, uint8) {
	for i := range w.sges[:w.nsge] {
		s := &w.sges[i]
		if s.inl != nil || s.n == 0 {
			if need != 0 {
				return list, synLocalQPOp
			}
			list = append(list, piece{n: uint64(s.n), inl: s.inl})
			continue
		}
		p, ok := e.local(qp.Context.Device, qp.PD, s.lkey, s.addr, uint64(s.n), need)
		if !ok {
			return list, synLocalProt
		}
		list = append(list, p)
	}
	return list, 0
}

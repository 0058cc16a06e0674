//go:build linux

package engine

import "github.com/pureverbs/pureverbs/emu/internal/hca"

// local checks a local key and appends the memory under it to list.
func (ls *lists) local(d *hca.Device, pd *hca.PD, lkey uint32, addr, n uint64, need hca.Access, list []piece,
) ([]piece, bool) {
	k := d.Key(lkey)
	switch {
	case k == nil:
		return list, false
	case k.Kind == hca.KeyNull:
		return append(list, piece{n: n, zero: true}), true
	case k.Free || k.PD != pd:
		return list, false
	case k.Kind == hca.KeyIndirect:
		return ls.indirect(d, k, addr, n, need, need, list, 0)
	case k.Kind != hca.KeyMR:
		return list, false
	}
	return ls.resolve(d, k, addr, n, need, list)
}

// remote checks a remote key as the responder does and appends the memory under it to list.
func (ls *lists) remote(peer *hca.QP, pd *hca.PD, rkey uint32, addr, n uint64, need hca.Access, list []piece,
) ([]piece, bool) {
	k := peer.Context.Device.Key(rkey)
	switch {
	case k == nil || k.Free || k.PD != pd || k.Kind == hca.KeyNull:
		return list, false
	case k.Kind == hca.KeyMW2 && k.QPN != peer.Num:
		return list, false
	case k.Kind == hca.KeyIndirect:
		var under hca.Access
		if need != hca.AccessRemoteRead {
			under = hca.AccessLocalWrite
		}
		return ls.indirect(peer.Context.Device, k, addr, n, need, under, list, 0)
	}
	return ls.resolve(peer.Context.Device, k, addr, n, need, list)
}

func (ls *lists) resolve(d *hca.Device, k *hca.MKey, addr, n uint64, need hca.Access, list []piece) ([]piece, bool) {
	va, ok := k.Resolve(addr, n, need)
	if !ok {
		return list, false
	}
	if k.OnDemand() {
		ls.paged = true
		ok = k.PageIn(d, va, n, false)
	} else {
		ls.strict.used(k)
	}
	return append(list, piece{va: va, n: n, mem: k.Mem}), ok
}

const (
	maxIndirection = 4       // of keys that stand for keys
	maxPieces      = 1 << 16 // of a message
)

// indirect appends the n bytes at addr of an indirect key, whose rights are those of need; what it stands for needs the
// rights of under.
func (ls *lists) indirect(d *hca.Device, k *hca.MKey, addr, n uint64, need, under hca.Access, list []piece, depth int,
) ([]piece, bool) {
	if k.Sig != nil && depth == 0 && !k.Free && k.Access&need == need {
		return ls.signed(d, k, addr, n, under, list)
	}
	if k.Free || k.Access&need != need || addr > k.Len || n > k.Len-addr || depth == maxIndirection {
		return list, false
	}
	lap := k.Layout.Len()
	for round := addr / max(lap, 1); n > 0; round++ {
		off := uint64(0) // of the entry in the round
		for i := range k.Layout.Entries {
			x := &k.Layout.Entries[i]
			from := addr - round*lap
			if from < off || from >= off+x.Len {
				off += x.Len
				continue
			}
			part := min(off+x.Len-from, n)
			at := x.Addr + round*x.Stride + from - off
			to := d.Key(x.Key)
			ok := false
			switch {
			case to == nil || to.PD != k.PD && to.Kind != hca.KeyNull || len(list) > maxPieces:
			case to.Kind == hca.KeyIndirect:
				list, ok = ls.indirect(d, to, at, part, under, under, list, depth+1)
			default:
				list, ok = ls.local(d, k.PD, x.Key, at, part, under, list)
			}
			if !ok {
				return list, false
			}
			addr, n, off = addr+part, n-part, off+x.Len
			if n == 0 {
				break
			}
		}
	}
	return list, true
}

// localList appends the memory of a WQE's data segments to list. It returns a syndrome, or 0.
func (ls *lists) localList(qp *hca.QP, w *wqe, list []piece, need hca.Access) ([]piece, uint8) {
	for i := range w.sges[:w.nsge] {
		s := &w.sges[i]
		if s.inl != nil || s.n == 0 {
			if need != 0 {
				return list, synLocalQPOp
			}
			list = append(list, piece{n: uint64(s.n), inl: s.inl})
			continue
		}
		var ok bool
		if list, ok = ls.local(qp.Context.Device, qp.PD, s.lkey, s.addr, uint64(s.n), need, list); !ok {
			return list, synLocalProt
		}
	}
	return list, 0
}

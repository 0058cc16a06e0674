//go:build linux

package random

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/ibv"
)

// mask makes an atomic one with masks, of 8 to 32 bytes.
func (m *model) mask(d *lane, o *op) {
	r, l := m.r, d.l
	o.code += ibv.OpMaskedCompareSwap - ibv.OpCompareSwap
	o.masked = &ibv.MaskedAtomic{Size: pick(r, uint32(8), 16, 32)}
	if l.mem[d.e] >= dmabuf || d.k == pendingSend { // where the CPU cannot swap the previous value, or does not
		o.masked.Size = 8
	}
	o.n = int(o.masked.Size)
	d.swaps = d.swaps || o.n > 8
	o.from = []piece{{m.result(d, o.n, 8), o.n}}
	o.at = (l.target()+31)&^31 + o.n*r.IntN((l.area-31)/o.n)
	equal := one(r, 2)
	for k := range o.n / 8 {
		o.masked.SwapAdd[k], o.masked.Mask[k] = r.Uint64(), r.Uint64()&r.Uint64()
		o.masked.Compare[k], o.masked.CompareMask[k] = r.Uint64(), r.Uint64()
		if equal {
			o.masked.Compare[k] = binary.LittleEndian.Uint64(m.mem[d.i][1-d.e][o.at+8*k:])
		}
	}
}

// apply executes an atomic with masks on the bytes at mem.
func (o *op) apply(mem []byte) {
	a, old := o.masked, [4]uint64{}
	for k := range o.n / 8 {
		old[k] = binary.LittleEndian.Uint64(mem[8*k:])
		if o.code == ibv.OpMaskedCompareSwap && (old[k]^a.Compare[k])&a.CompareMask[k] != 0 {
			return
		}
	}
	for k := range o.n / 8 {
		to := old[k]&^a.Mask[k] | a.SwapAdd[k]&a.Mask[k]
		if o.code == ibv.OpMaskedFetchAdd {
			// The highest bit of each field is added without a carry, so that none leaves it.
			ends := a.Mask[k] | 1<<63
			to = (old[k]&^ends + a.SwapAdd[k]&^ends) ^ (old[k]^a.SwapAdd[k])&ends
		}
		binary.LittleEndian.PutUint64(mem[8*k:], to)
	}
}

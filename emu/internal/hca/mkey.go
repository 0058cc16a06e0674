//go:build linux

package hca

import "golang.org/x/sys/unix"

// CreateIndirect makes a key that stands for nothing yet. It has no handle: destroy ends it.
func CreateIndirect(c *Context, pdn uint32, o IndirectKey) (k *MKey, destroy func(), e unix.Errno) {
	pd, d := pdNumbered(c, pdn), c.Device
	switch {
	case pd == nil:
		return nil, nil, unix.EINVAL
	case d.keys().liveMRs >= d.Config.Limits.MaxMR:
		return nil, nil, unix.ENOMEM
	}
	k = &MKey{PD: pd, Kind: KeyIndirect, Mem: c.Mem, Free: true, Indirect: o}
	if e := d.newKey(k); e != 0 {
		return nil, nil, e
	}
	k.Key = k.Key&^0xff | uint32(o.Variant)
	pd.Hold(1)
	d.keys().liveMRs++
	return k, func() {
		d.freeKey(k)
		pd.Hold(-1)
		d.keys().liveMRs--
		k.Free = true
	}, 0
}

// psvs are the places for the state of signatures, by number.
type psvs struct{ pds map[uint32]*PD }

var psvPart = newPart[psvs]()

// CreatePSV makes a place for the state of a signature, which is only a number here: destroy ends it.
func CreatePSV(c *Context, pdn uint32) (num uint32, destroy func(), e unix.Errno) {
	pd, d := pdNumbered(c, pdn), c.Device
	if pd == nil {
		return 0, nil, unix.EINVAL
	}
	all := psvPart.of(&d.parts)
	if all.pds == nil {
		all.pds = map[uint32]*PD{}
	}
	num = d.NextNumber()
	all.pds[num] = pd
	pd.Hold(1)
	return num, func() {
		delete(all.pds, num)
		pd.Hold(-1)
	}, 0
}

// HasPSV reports whether there is a PSV of this number in a PD.
func (d *Device) HasPSV(num uint32, pd *PD) bool { return psvPart.of(&d.parts).pds[num] == pd }

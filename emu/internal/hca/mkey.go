//go:build linux

package hca

import "golang.org/x/sys/unix"

// Entry is a piece of memory of an indirect key, which has a key of its own: Len bytes, or as many again and again,
// Stride bytes apart.
type Entry struct {
	Key    uint32
	Addr   uint64
	Len    uint64
	Stride uint64
}

// Layout is what an indirect key stands for: the entries one behind the other, Repeat times.
type Layout struct {
	Entries []Entry
	Repeat  uint64
}

// Len returns the length of one repetition.
func (l *Layout) Len() (n uint64) {
	for i := range l.Entries {
		n += l.Entries[i].Len
	}
	return n
}

// Signature is what an indirect key does to blocks of data between memory and wire. A domain of no Block is without.
type Signature struct {
	Memory, Wire SigDomain
	Check        byte // bytes of a signature that are compared
	Copy         byte // and that are copied from one domain to the other
}

// SigDomain is the signature behind each block of a domain.
type SigDomain struct {
	Block  int  // bytes
	CRC    byte // 0: T10-DIF; else the selector of the CRC
	Ones   bool // the guard or CRC begins with all bits
	Sum    bool // the guard is an IP checksum
	App    uint16
	Ref    uint32
	Grows  bool // the reference tag
	Escape byte // 1: application tag; 2: and reference tag
}

// IndirectKey says what CreateIndirect makes.
type IndirectKey struct {
	Octowords    uint32 // of a layout
	Variant      uint8  // low byte of the number
	PeerMayFree  bool   // by a send with invalidate
	BSFOctowords uint32 // of a signature
}

// CreateIndirect makes a key that stands for nothing yet. It has no handle: destroy ends it.
func (c *Context) CreateIndirect(pdn uint32, o IndirectKey) (k *MKey, destroy func() unix.Errno, e unix.Errno) {
	var pd *PD
	for _, v := range c.objects {
		if p, ok := v.(*PD); ok && p.Num == pdn {
			pd = p
		}
	}
	d := c.Device
	switch {
	case pd == nil:
		return nil, nil, unix.EINVAL
	case d.liveMRs >= d.Config.Limits.MaxMR:
		return nil, nil, unix.ENOMEM
	}
	k = &MKey{PD: pd, Kind: KeyIndirect, Mem: c.Mem, Free: true, Indirect: o}
	if e := d.newKey(k); e != 0 {
		return nil, nil, e
	}
	k.Key = k.Key&^0xff | uint32(o.Variant)
	pd.refs++
	d.liveMRs++
	return k, func() unix.Errno {
		d.freeKey(k)
		pd.refs--
		d.liveMRs--
		k.Free = true
		return 0
	}, 0
}

// CreatePSV makes a place for the state of a signature, which is only a number here: destroy ends it.
func (c *Context) CreatePSV(pdn uint32) (num uint32, destroy func() unix.Errno, e unix.Errno) {
	for _, v := range c.objects {
		if pd, ok := v.(*PD); ok && pd.Num == pdn {
			d := c.Device
			num := d.NextNumber()
			if d.psvs == nil {
				d.psvs = map[uint32]*PD{}
			}
			d.psvs[num] = pd
			pd.refs++
			return num, func() unix.Errno {
				delete(d.psvs, num)
				pd.refs--
				return 0
			}, 0
		}
	}
	return 0, nil, unix.EINVAL
}

// HasPSV reports whether there is a PSV of this number in a PD.
func (d *Device) HasPSV(num uint32, pd *PD) bool { return d.psvs[num] == pd }

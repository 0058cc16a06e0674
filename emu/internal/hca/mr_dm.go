//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// accessDM are the rights that a region of device memory may have. C: MLX5_IB_DM_MEMIC_ALLOWED_ACCESS.
const accessDM = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessZeroBased

// RegDM registers memory of the device. The region is zero based.
func RegDM(c *Context, pd, dm uint32, off, length uint64, access Access) (*MKey, unix.Errno) {
	p, e := Find[*PD](c, pd)
	if e != 0 {
		return nil, e
	}
	m, e := Find[*DM](c, dm)
	switch {
	case e != 0:
		return nil, e
	case access&^accessDM != 0, access&AccessZeroBased == 0,
		off > m.Len, length > m.Len-off:
		return nil, unix.EINVAL
	case access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return nil, unix.EINVAL
	}
	k := &MKey{PD: p, Kind: KeyMR, dm: m}
	var base uint64
	k.Mem, base = guest.Own(m.bytes)
	k.set(base+off, length, 0, access)
	if e := k.addTo(c); e != 0 {
		return nil, e
	}
	m.refs++
	return k, 0
}

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
	k := &MKey{Held: c.held(rankRegion, "MR"), Kind: KeyMR}
	e := k.find(pd, 0)
	if e == 0 {
		k.dm, e = Find[*DM](c, dm)
	}
	switch {
	case e != 0:
		return nil, e
	case access&^accessDM != 0, access&AccessZeroBased == 0, off > k.dm.Len, length > k.dm.Len-off:
		return nil, unix.EINVAL
	case access&(AccessRemoteWrite|AccessRemoteAtomic) != 0 && access&AccessLocalWrite == 0:
		return nil, unix.EINVAL
	}
	k.Use(k.dm)
	var base uint64
	k.Mem, base = guest.Own(k.dm.bytes)
	k.set(base+off, length, 0, access)
	return k, k.addTo(c)
}

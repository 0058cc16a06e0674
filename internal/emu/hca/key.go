//go:build linux

package hca

import "github.com/pureverbs/pureverbs/internal/emu/guest"

// KeyKind says what a memory key stands for.
type KeyKind uint8

// Kinds of memory keys.
const (
	KeyMR KeyKind = iota
	KeyMW1
	KeyMW2
	KeyNull
)

// NullKey is the device's own key: reads give zeros, writes go nowhere. It fits any PD, locally only. Null MRs are of
// it, and libmlx5's NOPs.
const NullKey = 0x700

// Access is the set of rights of a memory key, as in IB_ACCESS_*.
type Access uint32

// Rights.
const (
	AccessLocalWrite   Access = 1 << 0
	AccessRemoteWrite  Access = 1 << 1
	AccessRemoteRead   Access = 1 << 2
	AccessRemoteAtomic Access = 1 << 3
	AccessMWBind       Access = 1 << 4
	AccessZeroBased    Access = 1 << 5
	AccessOnDemand     Access = 1 << 6
	AccessHugeTLB      Access = 1 << 7
	AccessRelaxed      Access = 1 << 20
)

// MKey is a memory region or window. lkey and rkey of mlx5 are the same number.
type MKey struct {
	PD     *PD
	Handle uint32
	Kind   KeyKind
	Key    uint32 // index<<8 | variant; the variant of a type 2 window changes with each bind
	Mem    guest.Mem
	Addr   uint64 // first byte in the program's memory
	Base   uint64 // first address on the wire: Addr, the IOVA that was asked for, or 0 (zero based)
	Len    uint64
	Access Access
	Free   bool // a window that is not bound, or a key that was invalidated

	MR   *MKey  // a bound window: the region under it
	QPN  uint32 // a type 2 window: the QP that it is bound to
	refs int    // windows bound to this region
	room uint64 // pages that fit into the region's translation table

	Run KeyRun
}

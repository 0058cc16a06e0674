//go:build linux

package hca

import (
	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// KeyKind says what a memory key stands for.
type KeyKind uint8

// Kinds of memory keys.
const (
	KeyMR KeyKind = iota
	KeyMW1
	KeyMW2
	KeyNull
	KeyIndirect
)

// NullKey is the device's own key: reads give zeros, writes go nowhere. It fits any PD, locally only. Null MRs are of
// it, and libmlx5's NOPs.
const NullKey = 0x700

// MKey is a memory region or window. lkey and rkey of mlx5 are the same number.
type MKey struct {
	Held
	PD     *PD
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
	room uint64 // pages that fit into the region's translation table
	// writable: its memory was registered so that the device may write it
	writable bool

	dm     *DM // a region of device memory
	dmah   *DMAHandle
	dmabuf []byte  // a region of a dma-buf: its mapping
	Paging *Paging // a region on demand

	Indirect IndirectKey // of KeyIndirect: what does not change
	Layout   Layout      // and what it stands for
	Sig      *Signature  // nil without
	SigTold  bool        // an error was told since the program said that it knows of the last

	Run KeyRun
}

// KeyRun is the engine's state of a memory key (strict mode: the registered mapping's fingerprint).
type KeyRun struct {
	Print uint64
	At    int64 // when it was last compared
}

// KeyEngine is what an engine learns of keys.
type KeyEngine interface{ KeyRevoked(*MKey) }

func (d *Device) revoke(k *MKey) {
	if e, ok := d.Fabric.engine.(KeyEngine); ok {
		e.KeyRevoked(k)
	}
}

// keys are the keys of a device, by index.
type keys struct {
	numbers[MKey]
	variant          uint8 // low byte of the next key
	liveMRs, liveMWs int
}

var keyPart = newPart[keys]()

func (d *Device) keys() *keys { return keyPart.of(&d.parts) }

const firstKey = 0x100 // indices below are reserved, the invalid key among them

// add gives a key a number. The low byte of a number goes up with each use of the place, so that an old key does not
// fit.
func (t *keys) add(k *MKey, most int) unix.Errno {
	i, ok := t.place(firstKey, firstKey+most, k)
	if !ok {
		return unix.ENOMEM
	}
	t.variant++
	k.Key = uint32(i)<<8 | uint32(t.variant)
	return 0
}

// newKey gives a key of the device a number.
func (d *Device) newKey(k *MKey) unix.Errno {
	return d.keys().add(k, d.Config.Limits.MaxMR+d.Config.Limits.MaxMW)
}

func (d *Device) freeKey(k *MKey) {
	d.revoke(k)
	d.keys().free(k.Key >> 8)
}

// Key returns the memory key with this number, its low byte included, or nil.
func (d *Device) Key(key uint32) *MKey {
	if k := d.keys().at(key >> 8); k != nil && k.Key == key {
		return k
	}
	return nil
}

// KeyAt returns the key of an index, whatever its variant, or nil.
func (d *Device) KeyAt(index uint32) *MKey { return d.keys().at(index) }

// Resolve turns an address on the wire into one of the program's memory, if the key allows n bytes there and has all
// rights of need.
func (k *MKey) Resolve(addr, n uint64, need Access) (va uint64, ok bool) {
	off := addr - k.Base
	if k.Free || k.Access&need != need || addr < k.Base || off > k.Len || n > k.Len-off {
		return 0, false
	}
	return k.Addr + off, true
}

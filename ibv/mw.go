package ibv

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pureverbs/pureverbs/internal/ops"
)

// MW is a memory window: a part of an MR, with its own key and rights, that work requests can open and close to peers.
// A peer that has the window's key has no access to the rest of the MR.
//
//	mw, err := pd.AllocMW(ibv.MWType2)
//	bind := &ibv.BindMW{MW: mw, RKey: ibv.NextRKey(mw.RKey()), MR: mr, Addr: mr.Addr() + 4096, Length: 512,
//		Access: ibv.RemoteWrite}
//	b.BindMW(1, ibv.Signaled, bind)   // b := qp.Batch()
//	err = b.Post()                    // after the completion: send bind.Remote() to the peer
//
// It belongs to its PD. Its methods are safe for concurrent use, but only one bind of it may be
// posted at a time. Close takes away the access, as does OpLocalInv or a new bind.
//
// C: struct ibv_mw.
type MW struct {
	node
	pd     *PD
	handle uintptr
	typ    MWType
	key    atomic.Uint32
	mu     sync.Mutex // for QP.BindMW, which derives the next key from the last
	empty  ops.NoMR
	noMR   uintptr // of empty
	opsErr error   // why the ops engine cannot bind it
}

// BindMW describes the range and the rights of a memory window. A Length of 0 binds it to nothing: the MR may then be
// nil. SoftRoCE refuses that for type 2; OpLocalInv works everywhere.
//
// C: struct ibv_mw_bind_info.
type BindMW struct {
	MW *MW
	// RKey is the key that the window gets, whose upper 24 bits are those of MW.RKey: NextRKey
	// returns one that was not used lately. QP.BindMW chooses the key and stores it here.
	RKey   uint32
	MR     *MR         // with MWBind, and LocalWrite if the window is for writes or atomics
	Addr   uint64      // the window's first byte, as in an SGE
	Length uint64      // at most 2 GiB on mlx5
	Access AccessFlags // RemoteRead, RemoteWrite, RemoteAtomic; ZeroBased for type 2
}

// Remote returns what the peer needs to access the window.
func (b *BindMW) Remote() RemoteMemory {
	r := RemoteMemory{Addr: b.Addr, RKey: b.RKey, Length: b.Length}
	if b.Access&ZeroBased != 0 {
		r.Addr = 0
	}
	return r
}

// NextRKey returns rkey with the lowest 8 bits, which the program chooses, increased by one.
//
// C: ibv_inc_rkey(3).
func NextRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }

// AllocMW makes a memory window that is not bound to anything.
//
// C: ibv_alloc_mw(3).
func (pd *PD) AllocMW(t MWType) (*MW, error) {
	const op = "alloc mw"
	d := pd.dev
	if t != MWType1 && t != MWType2 {
		return nil, opError(op, d.Name(), &ArgError{Arg: "type", Got: t.String(), Want: "MWType1 or MWType2"})
	}
	mw := &MW{pd: pd, typ: t}
	return create(op, d.Name(), "mw", mw, &mw.node, func() (err error) {
		if err := d.needKeys(aWindow); err != nil {
			return err
		}
		if mw.handle, err = d.v.AllocMW(d.handle, pd.handle, uint32(t)); err != nil {
			return d.usedUp(explainMW(d, t, err), "memory windows", d.attr.MaxMW)
		}
		mw.opsErr = d.bindError()
		mw.key.Store(d.v.MWKey(mw.handle))
		if !d.v.native {
			mw.noMR = mw.empty.Init(mw.handle)
		}
		return nil
	}, &pd.node)
}

const aWindow = "a memory window"

// caps returns the capabilities for windows of type t, which need one of them.
func (t MWType) caps() DeviceCapFlags {
	if t == MWType2 {
		return DeviceMemWindowType2A | DeviceMemWindowType2B
	}
	return DeviceMemWindow
}

// errNeedsMW is the error of a device that has no windows of a type.
func errNeedsMW(d *Device, t MWType) error {
	return &UnsupportedError{Feature: "a memory window of " + t.String(), Need: "a device with " + t.caps().String(),
		Have: fmt.Sprintf("%s with %v", d.Name(), d.attr.CapFlags&(MWType1.caps()|MWType2.caps()))}
}

// explainMW adds to a refusal the device's capabilities for windows.
func explainMW(d *Device, t MWType, err error) error {
	if e := d.v.needLibrary("a memory window"); e != nil && unsupported(err) {
		return e
	}
	if unsupported(err) || errors.Is(err, errInvalid) && d.attr.CapFlags&t.caps() == 0 {
		return errNeedsMW(d, t)
	}
	return err
}

// Type returns the type of the window.
func (mw *MW) Type() MWType { return mw.typ }

// PD returns the PD that the window belongs to.
func (mw *MW) PD() *PD { return mw.pd }

// RKey returns the key of the bind that was posted last. It is valid from the completion of the
// bind on, and for work requests that follow the bind on its QP.
func (mw *MW) RKey() uint32 { return mw.key.Load() }

// SetRKey restores the key after a bind that did not succeed: a failed or flushed bind leaves
// the window as it was, but RKey has moved on. Some devices refuse to bind a window again by
// another key than its own.
func (mw *MW) SetRKey(rkey uint32) { mw.key.Store(rkey) }

// Close deallocates the window, bound or not. Peers have no access afterwards.
//
// C: ibv_dealloc_mw(3).
func (mw *MW) Close() error {
	return mw.node.close(func() error { return mw.pd.dev.v.DeallocMW(mw.pd.dev.handle, mw.handle) })
}

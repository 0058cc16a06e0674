package ibv

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/control"
)

// DM is memory inside the device. Peers reach it without a crossing of the device's bus, and so
// do local operations of the device; the processor reaches it with ReadAt and WriteAt, over the
// bus. There is little of it: DeviceAttrEx.MaxDMSize.
//
// It belongs to its Device. PD.RegDM registers a part of it. Its methods are safe for concurrent
// use; the caller synchronises access to the bytes with the device. Close fails while an MR of it
// is open.
//
// C: struct ibv_dm.
type DM struct {
	object
	size    int
	release func(dm uintptr) error // what Close calls
}

// DMOptions configures a DM. The zero value selects the defaults.
//
// C: struct ibv_alloc_dm_attr.
type DMOptions struct {
	LogAlign int // the alignment in bytes, as a power of two: 6 is 64 bytes
}

// AllocDM allocates memory of the device; opt may be nil. It is allocated in units of the
// device, 64 bytes on mlx5.
//
// C: ibv_alloc_dm(3).
func (d *Device) AllocDM(size int, opt *DMOptions) (*DM, error) {
	return d.allocDM("alloc dm", size, opt, true, func(attr *abi.AllocDMAttr) (uintptr, error) {
		return d.v.AllocDM(d.handle, attr)
	})
}

// allocDM is AllocDM with the function that makes the C object; data means that it is not for steering.
func (d *Device) allocDM(op string, size int, opt *DMOptions, data bool,
	alloc func(*abi.AllocDMAttr) (uintptr, error)) (*DM, error) {
	if opt == nil {
		opt = &DMOptions{}
	}
	dm := &DM{object: object{dev: d}, size: size, release: func(h uintptr) error { return d.v.FreeDM(d.handle, h) }}
	return dm.open(op, func() (h uintptr, err error) {
		if err := d.checkDM(size, opt, data); err != nil {
			return 0, err
		}
		h, err = alloc(&abi.AllocDMAttr{Length: uintptr(size), LogAlignReq: uint32(opt.LogAlign)})
		return h, d.explainDM(err)
	})
}

// open finishes dm with C's object, which get returns.
func (dm *DM) open(op string, get func() (uintptr, error)) (*DM, error) {
	return create(op, dm.dev.Name(), "dm", dm, &dm.node, func() (err error) {
		dm.handle, err = get()
		return err
	}, &dm.dev.node)
}

func (d *Device) checkDM(size int, opt *DMOptions, data bool) error {
	switch ex := d.attr.Ex; {
	case size < 1:
		return &ArgError{Arg: "size", Got: fmt.Sprint(size), Want: "at least 1 byte"}
	case opt.LogAlign < 0 || opt.LogAlign > 63:
		return &ArgError{Arg: "LogAlign", Got: fmt.Sprint(opt.LogAlign), Want: "0 to 63"}
	case !data:
	case ex != nil && ex.MaxDMSize == 0:
		return d.explainDM(ErrNotSupported)
	case ex != nil && uint64(size) > ex.MaxDMSize:
		return numDM.of(&d.attr, size).error(d.Name())
	}
	return nil
}

// explainDM returns what device memory needs.
func (d *Device) explainDM(err error) error {
	if errors.Is(err, syscall.ENOMEM) {
		return fmt.Errorf("the device has no stretch of memory of this size and alignment left: close other DMs, or "+
			"use PD.AllocMR: %w", err)
	}
	return d.explainLack(err, "device memory", "libibverbs of rdma-core v18 or later",
		"a device and a driver with support for it, such as mlx5", "; PD.AllocMR gives memory of the host")
}

// Device returns the device whose memory it is.
func (dm *DM) Device() *Device { return dm.dev }

// Len returns the length in bytes.
func (dm *DM) Len() int { return dm.size }

// WriteAt copies p to the memory at off. On mlx5 off and the length of p must be multiples of 4.
// It copies all of p or nothing, and never past the end.
//
// C: ibv_memcpy_to_dm(3).
func (dm *DM) WriteAt(p []byte, off int64) (n int, err error) {
	err = dm.do("write dm", func() error {
		switch {
		case off < 0 || off > int64(dm.size) || len(p) > dm.size-int(off):
			return &ArgError{Arg: "off", Got: fmt.Sprintf("%d with %d bytes", off, len(p)),
				Want: fmt.Sprintf("within the %d bytes of the DM", dm.size)}
		case len(p) == 0:
			return nil
		}
		err := dm.dev.v.MemcpyToDM(dm.handle, uint64(off), p)
		if err == nil {
			n = len(p)
		}
		return explainCopy(err, off, len(p))
	})
	return n, err
}

// ReadAt copies from the memory at off to p. On mlx5 off and the number of bytes must be multiples
// of 4. At the end of the memory it copies less than p has room for, and returns io.EOF.
//
// C: ibv_memcpy_from_dm(3).
func (dm *DM) ReadAt(p []byte, off int64) (n int, err error) {
	const op = "read dm"
	if err := dm.enter(op); err != nil {
		return 0, err
	}
	defer dm.leave()
	if off < 0 {
		return 0, &OpError{Op: op, Object: dm.name, Err: &ArgError{Arg: "off", Got: fmt.Sprint(off), Want: "0 or more"}}
	}
	if left := int64(dm.size) - off; int64(len(p)) > left {
		p, err = p[:max(left, 0)], io.EOF
	}
	if len(p) == 0 {
		return 0, err
	}
	if err := dm.dev.v.MemcpyFromDM(p, dm.handle, uint64(off)); err != nil {
		return 0, &OpError{Op: op, Object: dm.name, Err: explainCopy(err, off, len(p))}
	}
	return len(p), err
}

// explainCopy adds to a refusal that mlx5 copies whole words, and only memory for data, if that was the reason.
func explainCopy(err error, off int64, n int) error {
	if errors.Is(err, control.ErrNoOp) {
		return &UnsupportedError{Feature: "access to this DM", Need: "memory for data", Have: "memory for steering"}
	}
	if errors.Is(err, syscall.EINVAL) && (off&3 != 0 || n&3 != 0) {
		return &ArgError{Arg: "off", Got: fmt.Sprintf("%d with %d bytes", off, n),
			Want: "a multiple of 4, as the length: the device's memory is copied in words of 4 bytes"}
	}
	return err
}

// RegDM registers length bytes of device memory at offset off. The MR is zero based: Addr is 0,
// and work requests name bytes by their distance from off. Bytes returns nil.
//
// On mlx5, QPs that exist before it refuse it as the target of receives: see RegMemory.
// RelaxedOrdering has no effect, for mlx5's driver refuses it here.
//
// C: ibv_reg_dm_mr(3); ZeroBased, which it needs, is implied.
func (pd *PD) RegDM(dm *DM, off, length int, access AccessFlags) (*MR, error) {
	const op = "register dm"
	d := pd.dev
	if dm == nil || dm.dev != d {
		got := "nil"
		if dm != nil {
			got = "a DM of another Device"
		}
		return nil, opError(op, d.Name(), &ArgError{Arg: "dm", Got: got, Want: "a DM of the same Device"})
	}
	mr := &MR{pd: pd, length: length, access: access, fixed: "of device memory"}
	return mr.open(op, func() (uintptr, error) {
		if off < 0 || length < 1 || off > dm.size || length > dm.size-off {
			return 0, &ArgError{Arg: "range", Got: fmt.Sprintf("%d bytes at %d", length, off),
				Want: fmt.Sprintf("at least 1 byte, within the %d bytes of the DM", dm.size)}
		}
		if err := access.checkMemory(); err != nil {
			return 0, err
		}
		c := access&^optionalAccess | ZeroBased
		h, err := d.v.RegDMMR(d.handle, pd.handle, dm.handle, uint64(off), length, uint32(c))
		const possible = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | ZeroBased | optionalAccess
		if errors.Is(err, syscall.EINVAL) && access&^possible != 0 {
			return 0, &ArgError{Arg: "access", Got: access.String(),
				Want: "of LocalWrite, RemoteWrite, RemoteRead and RemoteAtomic for device memory"}
		}
		return h, d.explainRegister(d.explainDM(err), length, access)
	}, &dm.node)
}

// Close frees the memory.
//
// C: ibv_free_dm(3).
func (dm *DM) Close() error {
	return dm.node.close(func() error { return dm.release(dm.handle) })
}

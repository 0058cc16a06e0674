//go:build linux

package random

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/ibv"
)

// memory is registered memory of any kind.
type memory struct {
	*ibv.MR
	b    []byte // the bytes, or a copy of those of the device, which load and store keep
	at   int    // of the first byte in the MR
	mine bool   // mapped here
	dm   *ibv.DM
}

const allAccess = ibv.LocalWrite | ibv.RemoteWrite | ibv.RemoteRead | ibv.RemoteAtomic | ibv.MWBind

// newMemory returns n bytes, at an address of the caller's choice unless that is 0.
func newMemory(pd *ibv.PD, n int, at uintptr, kind memKind) (m *memory, err error) {
	m = &memory{}
	if kind == inDevice {
		m.b = make([]byte, n)
		if m.dm, err = pd.Device().AllocDM(n, &ibv.DMOptions{LogAlign: 6}); err != nil {
			return nil, err
		}
		if m.MR, err = pd.RegDM(m.dm, 0, n, allAccess&^ibv.MWBind); err != nil {
			return nil, errors.Join(err, m.dm.Close())
		}
		return m, nil
	}
	if kind == pinned && at == 0 {
		if m.MR, err = pd.AllocMR(n, allAccess, nil); err != nil {
			return nil, err
		}
		m.b = m.Bytes()[:n]
		return m, nil
	}
	fd, flags := -1, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS
	if kind == dmabuf {
		if fd, err = unix.MemfdCreate("random", unix.MFD_CLOEXEC); err != nil {
			return nil, err
		}
		defer func() { _ = unix.Close(fd) }()
		if err := unix.Ftruncate(fd, int64(n)); err != nil {
			return nil, err
		}
		flags = unix.MAP_SHARED
	}
	if at != 0 {
		flags |= unix.MAP_FIXED_NOREPLACE
	}
	got, _, errno := syscall.Syscall6(syscall.SYS_MMAP, at, uintptr(n), syscall.PROT_READ|syscall.PROT_WRITE,
		uintptr(flags), uintptr(fd), 0)
	if errno != 0 || at != 0 && got != at {
		return nil, fmt.Errorf("mmap of %d bytes at %#x: %#x, %w", n, at, got, errno)
	}
	m.b, m.mine = unsafe.Slice(*(**byte)(unsafe.Pointer(&got)), n), true
	switch kind {
	case onDemand:
		m.MR, err = pd.RegMemory(got, n, uint64(got), allAccess|ibv.OnDemand)
	case implicit:
		m.MR, err = pd.RegImplicit(allAccess)
		m.at = int(got)
	case dmabuf:
		// The device knows it by its address here, to which the CPU copies what comes in a completion.
		m.MR, err = pd.RegDmabuf(fd, 0, n, uint64(got), allAccess&^ibv.MWBind)
	default:
		m.MR, err = pd.RegMemory(got, n, uint64(got), allAccess)
	}
	if err != nil {
		return nil, errors.Join(err, m.unmap())
	}
	return m, nil
}

// SGE returns n bytes from off.
func (m *memory) SGE(off, n int) ibv.SGE { return m.MR.SGE(m.at+off, n) }

// Addr returns the address of the first byte for the device.
func (m *memory) Addr() uint64 { return m.MR.Addr() + uint64(m.at) }

// Remote returns what the peer needs.
func (m *memory) Remote() ibv.RemoteMemory {
	r := m.MR.Remote()
	r.Addr, r.Length = m.Addr(), uint64(len(m.b))
	return r
}

// load brings b up to date with memory of the device.
func (m *memory) load() error {
	if m.dm == nil {
		return nil
	}
	_, err := m.dm.ReadAt(m.b, 0)
	return err
}

// store brings memory of the device up to date with b.
func (m *memory) store() error {
	if m.dm == nil {
		return nil
	}
	_, err := m.dm.WriteAt(m.b, 0)
	return err
}

func (m *memory) Close() error {
	err := m.MR.Close()
	if err == nil && m.dm != nil {
		err = m.dm.Close()
	}
	if err == nil {
		err = m.unmap()
	}
	return err
}

func (m *memory) unmap() error {
	if !m.mine {
		return nil
	}
	m.mine = false
	if _, _, errno := syscall.Syscall(syscall.SYS_MUNMAP, uintptr(unsafe.Pointer(&m.b[0])), uintptr(len(m.b)),
		0); errno != 0 {
		return errno
	}
	return nil
}

//go:build linux

package main

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// asker sends single commands to an open device.
type asker struct {
	*testing.T
	fd                  int
	driver              uint32 // number of the kernel's driver
	good, end, readonly uint64 // memory: from good to end is writable, a read-only page follows, then nothing
	next                uint64
}

func newAsker(t *testing.T, context bool) *asker {
	r := testutil.NeedRXE(t)
	a := &asker{T: t, driver: 14}
	if r.Emulated || r.Hardware {
		a.driver = 1
	}
	var err error
	if a.good, a.end, a.readonly, err = memory(); err != nil {
		t.Fatal(err)
	}
	if a.fd, err = opened(context); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(a.fd) })
	return a
}

// room returns n bytes that do not move.
func (a *asker) room(n int) (addr uint64, p []byte) {
	addr = a.good + a.next
	if a.next += uint64(n+15) &^ 15; addr+uint64(n) > a.end {
		a.Fatal("no room")
	}
	p = unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
	clear(p)
	return addr, p
}

func (a *asker) is(what string, got, want unix.Errno) {
	a.Helper()
	if got != want {
		a.Errorf("%s: %d (%v), want %d (%v)", what, got, got, want, want)
	}
}

// write sends a command with room for out words, and returns the result.
func (a *asker) write(cmd uint32, out int, body ...any) (unix.Errno, []byte) {
	addr, resp := a.room(1024)
	b := words(addr)
	if out == 0 {
		b = nil
	}
	b = append(b, words(body...)...)
	b = append(words(cmd, uint16((len(b)+8)/4), uint16(out)), b...)
	return a.raw(b), resp
}

func (a *asker) raw(b []byte) unix.Errno {
	at, p := a.room(len(b))
	copy(p, b)
	return syscall3(unix.SYS_WRITE, uintptr(a.fd), uintptr(at), uintptr(len(b)))
}

// attr is an attribute of an ioctl: data of up to eight bytes, or data behind a pointer.
func attr(id, n, flags uint16, data uint64) []byte { return words(id, n, flags, uint16(0), data) }

// method is a call of the ioctl. change, if not nil, corrupts the header.
func (a *asker) method(object, method uint16, change func([]byte), attrs ...[]byte) (unix.Errno, []byte) {
	b := words(uint16(24+16*len(attrs)), object, method, uint16(len(attrs)), uint64(0), a.driver, uint32(0))
	if change != nil {
		change(b)
	}
	for _, x := range attrs {
		b = append(b, x...)
	}
	at, p := a.room(len(b))
	copy(p, b)
	return syscall3(unix.SYS_IOCTL, uintptr(a.fd), verbsIoctl, uintptr(at)), p[24:]
}

const (
	cmdGetContext = iota
	cmdQueryDevice
	cmdQueryPort
	cmdAllocPD
	cmdDeallocPD
	_
	cmdModifyAH
	cmdRegMR     = 9
	cmdDeregMR   = 13
	cmdAllocMW   = 14
	cmdDeallocMW = 16
	cmdChannel   = 17
	cmdCreateCQ  = 18
	cmdDestroyCQ = 20
	cmdModifyQP  = 26
	cmdDestroyQP = 27
	cmdDestroyAH = 8
	cmdDestroyS  = 35
	extended     = 1 << 31

	nothing = 0x7fff0000 // a handle that there is not
)

// TestRXEErrnoWrite sends commands by write() with one mistake each. The kernel's SoftRoCE and the emulated device
// return the same errno.
func TestRXEErrnoWrite(t *testing.T) {
	a := newAsker(t, true)
	none := newAsker(t, false)
	e, _ := none.write(cmdAllocPD, 1)
	a.is("before get_context", e, unix.EINVAL)

	for n := 1; n < 8; n++ {
		want := unix.EINVAL
		if testutil.NeedRXE(t).Emulated {
			want = unix.EPERM // too short for a command: the emulator does not look at it, and the file takes nothing
		}
		a.is("a few bytes", a.raw(make([]byte, n)), want)
	}
	fd := uintptr(a.fd)
	a.is("from nowhere", syscall3(unix.SYS_WRITE, fd, 0, 16), unix.EFAULT)
	a.is("from beyond", syscall3(unix.SYS_WRITE, fd, 1<<48, 16), unix.EFAULT)

	ring := words(a.good+4096, a.good+16384, 64, uint16(0), uint16(2), 0, 0) // what mlx5 wants of a CQ
	for _, x := range []struct {
		what string
		cmd  uint32
		out  int
		body []any
		want unix.Errno
	}{
		{"no such number", 60, 0, []any{uint64(0)}, unix.EOPNOTSUPP},
		{"a number never done", cmdModifyAH, 0, []any{uint64(0)}, unix.EOPNOTSUPP},
		{"flags that are none", 1<<24 | cmdAllocPD, 1, nil, unix.EINVAL},
		{"two flags", extended | 1<<24 | 1, 1, nil, unix.EINVAL},
		{"extended, no such number", extended | 63, 0, []any{uint64(0)}, unix.EOPNOTSUPP},
		{"no room for the answer", cmdQueryDevice, 1, nil, unix.ENOSPC},
		{"half a request", cmdQueryPort, 10, []any{[]byte{1, 0, 0, 0}}, unix.ENOSPC},
		{"a context twice", cmdGetContext, 64, []any{16, 4, 0, 0, 1, 0, 3, 0}, unix.EINVAL},
		{"port 0", cmdQueryPort, 10, []any{0, 0}, unix.EINVAL},
		{"port 9", cmdQueryPort, 10, []any{9, 0}, unix.EINVAL},
		{"no such PD", cmdDeallocPD, 0, []any{nothing}, unix.ENOENT},
		{"no such MR", cmdDeregMR, 0, []any{nothing}, unix.ENOENT},
		{"no such MW", cmdDeallocMW, 0, []any{nothing}, unix.ENOENT},
		{"no such AH", cmdDestroyAH, 0, []any{nothing}, unix.ENOENT},
		{"no such CQ", cmdDestroyCQ, 2, []any{nothing, 0}, unix.ENOENT},
		{"no such QP", cmdDestroyQP, 1, []any{nothing, 0}, unix.ENOENT},
		{"no such SRQ", cmdDestroyS, 1, []any{nothing, 0}, unix.ENOENT},
		{"a window of no PD", cmdAllocMW, 2, []any{nothing, 1}, unix.ENOENT},
		{"a region of no PD", cmdRegMR, 3, []any{a.good, uint64(64), a.good, nothing, 1}, unix.ENOENT},
		{"attributes that are none", cmdModifyQP, 0, []any{make([]byte, 64), nothing, 1 << 27, make([]byte, 40)},
			unix.EOPNOTSUPP},
		{"attributes of no QP", cmdModifyQP, 0, []any{make([]byte, 64), nothing, 1, make([]byte, 40)}, unix.ENOENT},
		{"a CQ on no such vector", cmdCreateCQ, 2, []any{uint64(7), 15, 0x10000, -1, 0, ring}, unix.EINVAL},
		{"a CQ on a closed channel", cmdCreateCQ, 2, []any{uint64(7), 15, 0, 999, 0, ring}, unix.EBADF},
		{"a CQ on another file as channel", cmdCreateCQ, 2, []any{uint64(7), 15, 0, 2, 0, ring}, unix.EBADF},
	} {
		e, _ := a.write(x.cmd, x.out, x.body...)
		a.is(x.what, e, x.want)
	}
	b := words(uint32(cmdAllocPD), uint16(4), uint16(1), a.good)
	binary.NativeEndian.PutUint16(b[4:], 5)
	a.is("longer than it says", a.raw(b), unix.EINVAL)
	for _, addr := range []uint64{0, a.readonly, a.end - 2, a.readonly + 4096, 1 << 48, ^uint64(0) - 7} {
		a.is("an answer to nowhere", a.raw(words(uint32(cmdAllocPD), uint16(4), uint16(1), addr)), unix.EFAULT)
	}
}

// TestRXEErrnoMemory registers memory that is not mapped, or not with the access requested.
func TestRXEErrnoMemory(t *testing.T) {
	a := newAsker(t, true)
	e, resp := a.write(cmdAllocPD, 1)
	a.is("alloc_pd", e, 0)
	pd := binary.NativeEndian.Uint32(resp)
	const localWrite, remoteWrite, remoteRead = 1, 2, 4
	for _, x := range []struct {
		what            string
		start, n, hcaVA uint64
		access          uint32
		want            unix.Errno
	}{
		{"good", a.good, 4096, a.good, localWrite | remoteRead, 0},
		{"another offset in the page", a.good, 64, a.good + 1, 0, unix.EINVAL},
		{"around the end", ^uint64(0) - 4095, 8192, ^uint64(0) - 4095, localWrite, unix.EINVAL},
		{"remote write alone", a.good, 64, a.good, remoteWrite, unix.EINVAL},
		{"no such right", a.good, 64, a.good, 1 << 19, unix.EINVAL},
		{"a right to be ignored", a.good, 64, a.good, 1<<29 | localWrite, 0},
		{"unmapped", a.readonly + 4096, 64, a.readonly + 4096, localWrite, unix.EFAULT},
		{"the kernel's", 1 << 47, 64, 1 << 47, localWrite, unix.EFAULT},
		{"half unmapped", a.end - 4096, 3 * 4096, a.end - 4096, localWrite, unix.EFAULT},
		{"read-only, to write", a.readonly, 64, a.readonly, localWrite, unix.EFAULT},
	} {
		e, resp := a.write(cmdRegMR, 3, x.start, x.n, x.hcaVA, pd, x.access)
		a.is(x.what, e, x.want)
		if e == 0 {
			mr := binary.NativeEndian.Uint32(resp)
			e, _ = a.write(cmdDeallocPD, 0, pd)
			a.is("a PD in use", e, unix.EBUSY)
			e, _ = a.write(cmdDeallocPD, 0, mr)
			if mr != pd {
				a.is("a region as a PD", e, unix.EINVAL)
			}
			e, _ = a.write(cmdDeregMR, 0, mr)
			a.is("dereg_mr", e, 0)
		}
	}
	e, _ = a.write(cmdDeregMR, 0, pd)
	a.is("a PD as a region", e, unix.EINVAL)
	e, _ = a.write(cmdDestroyCQ, 2, pd, 0)
	a.is("a PD as a CQ", e, unix.EINVAL)
	e, _ = a.write(cmdAllocMW, 2, pd, 9)
	a.is("a window of no type", e, unix.EINVAL)
	e, _ = a.write(cmdDeallocPD, 0, pd)
	a.is("dealloc_pd", e, 0)
	e, _ = a.write(cmdDeallocPD, 0, pd)
	a.is("again", e, unix.ENOENT)
}

// TestRXEErrnoIoctl is TestRXEErrnoWrite for the ioctl.
func TestRXEErrnoIoctl(t *testing.T) {
	a := newAsker(t, true)
	fd := uintptr(a.fd)
	a.is("another ioctl", syscall3(unix.SYS_IOCTL, fd, 0x5401, uintptr(a.good)), unix.ENOTTY)
	a.is("one of this kind", syscall3(unix.SYS_IOCTL, fd, verbsIoctl+1, uintptr(a.good)), unix.ENOTTY)
	for _, addr := range []uint64{0, a.end - 8 + 4096*2, 1 << 48, ^uint64(0) - 3} {
		a.is("from nowhere", syscall3(unix.SYS_IOCTL, fd, verbsIoctl, uintptr(addr)), unix.EFAULT)
	}
	set16 := func(at int, v uint16) func([]byte) {
		return func(b []byte) { binary.NativeEndian.PutUint16(b[at:], v) }
	}
	port := attr(0, 1, 1, 1)
	at, _ := a.room(256)
	answer, list := attr(1, 56, 1, at), attr(2, 64, 1, at+64)
	const device, pdObject, queryPort, infoHandles = 0, 1, 2, 1
	for _, x := range []struct {
		what           string
		object, method uint16
		change         func([]byte)
		attrs          [][]byte
		want           unix.Errno
	}{
		{"good", device, infoHandles, nil, [][]byte{attr(0, 8, 1, pdObject), attr(1, 4, 1, at), list}, 0},
		{"length 0", device, queryPort, set16(0, 0), [][]byte{port, answer}, unix.EINVAL},
		{"length and count differ", device, queryPort, set16(6, 1), [][]byte{port, answer}, unix.EINVAL},
		{"more than a page", device, queryPort, func(b []byte) {
			binary.NativeEndian.PutUint16(b[6:], 1000)
			binary.NativeEndian.PutUint16(b, 24+16*1000)
		}, nil, unix.EINVAL},
		{"attributes nowhere", device, queryPort, func(b []byte) {
			binary.NativeEndian.PutUint16(b[6:], 3)
			binary.NativeEndian.PutUint16(b, 24+16*3)
		}, [][]byte{port}, unix.EINVAL},
		{"reserved 1", device, queryPort, set16(10, 1), [][]byte{port, answer}, unix.EPROTONOSUPPORT},
		{"reserved 2", device, queryPort, set16(22, 1), [][]byte{port, answer}, unix.EPROTONOSUPPORT},
		{"another driver", device, queryPort, set16(16, 3), [][]byte{port, answer}, unix.EINVAL},
		{"no such object", 900, queryPort, nil, [][]byte{port, answer}, unix.EPROTONOSUPPORT},
		{"no such method", device, 900, nil, [][]byte{port, answer}, unix.EPROTONOSUPPORT},
		{"no list", device, infoHandles, nil, [][]byte{attr(0, 8, 1, pdObject), attr(1, 4, 1, at)}, unix.EINVAL},
		{"a list of half a handle", device, infoHandles, nil, [][]byte{attr(0, 8, 1, pdObject), attr(1, 4, 1, at),
			attr(2, 6, 1, at)}, unix.EINVAL},
		{"no such attribute", device, infoHandles, nil, [][]byte{attr(0, 8, 1, pdObject), attr(1, 4, 1, at), list,
			attr(77, 4, 0, 1)}, 0},
		{"no such attribute, needed", device, infoHandles, nil, [][]byte{attr(0, 8, 1, pdObject), attr(1, 4, 1, at),
			list, attr(77, 4, 1, 1)}, unix.EPROTONOSUPPORT},
		{"one twice", device, infoHandles, nil, [][]byte{attr(0, 8, 1, pdObject), attr(0, 8, 1, pdObject),
			attr(1, 4, 1, at), list}, unix.EINVAL},
		{"one left out", device, queryPort, nil, [][]byte{answer}, unix.EINVAL},
		{"too short", device, infoHandles, nil, [][]byte{attr(0, 4, 1, pdObject), attr(1, 4, 1, at),
			list}, unix.EINVAL},
		{"too long", device, infoHandles, nil, [][]byte{attr(0, 8, 1, pdObject), attr(1, 64, 1, at)}, unix.EINVAL},
		{"reserved of one", device, infoHandles, nil, [][]byte{words(uint16(0), uint16(8), uint16(1), uint16(0x100),
			uint64(pdObject)), attr(1, 4, 1, at), list}, unix.EINVAL},
		{"an answer to nowhere", device, infoHandles, nil, [][]byte{attr(0, 8, 1, pdObject), attr(1, 4, 1, 0),
			list}, unix.EFAULT},
		{"an answer to what is read-only", device, infoHandles, nil, [][]byte{attr(0, 8, 1, pdObject),
			attr(1, 4, 1, a.readonly), list}, unix.EFAULT},
		{"no such handle", pdObject, 0, nil, [][]byte{attr(0, 0, 1, nothing)}, unix.ENOENT},
		{"a handle beyond all", pdObject, 0, nil, [][]byte{attr(0, 0, 1, 1<<40)}, unix.ENOENT},
		{"a handle with a length", pdObject, 0, nil, [][]byte{attr(0, 4, 1, nothing)}, unix.EINVAL},
		{"a command that is none", device, 0, nil, [][]byte{attr(2, 8, 1, 60)}, unix.EOPNOTSUPP},
		{"a command beyond all", device, 0, nil, [][]byte{attr(2, 8, 1, 1<<32|3)}, unix.EINVAL},
		{"a command without answer", device, 0, nil, [][]byte{attr(2, 8, 1, cmdAllocPD)}, unix.ENOSPC},
		{"what a command needs, from nowhere", device, 0, nil, [][]byte{attr(2, 8, 1, cmdDeallocPD),
			attr(0, 16, 1, a.readonly+4096)}, unix.EFAULT},
	} {
		e, _ := a.method(x.object, x.method, x.change, x.attrs...)
		a.is(x.what, e, x.want)
	}
	// The header ends at the end of the memory.
	b := words(uint16(24+16), uint16(0), uint16(queryPort), uint16(1), uint64(0), a.driver, uint32(0))
	end := a.end + 4096 - uint64(len(b))
	if err := unix.Mprotect(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&a.readonly))), 4096),
		unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	copy(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&end))), len(b)), b)
	a.is("attributes beyond the end", syscall3(unix.SYS_IOCTL, fd, verbsIoctl, uintptr(end)), unix.EFAULT)

	unix.Close(a.fd)
	e, _ := a.method(device, queryPort, nil, port, answer)
	a.is("a closed file", e, unix.EBADF)
}

// TestRXEErrnoMmap maps offsets that do not exist.
func TestRXEErrnoMmap(t *testing.T) {
	a, none := newAsker(t, true), newAsker(t, false)
	mmap := func(a *asker, n, off uintptr, prot, flags int) unix.Errno {
		p, _, e := unix.Syscall6(unix.SYS_MMAP, 0, n, uintptr(prot), uintptr(flags), uintptr(a.fd), off)
		if e == 0 {
			_ = syscall3(unix.SYS_MUNMAP, p, n, 0)
		}
		return e
	}
	const rw = unix.PROT_READ | unix.PROT_WRITE
	a.is("before get_context", mmap(none, 4096, 0x900<<12, rw, unix.MAP_SHARED), unix.EINVAL)
	a.is("no length", mmap(a, 0, 0x900<<12, rw, unix.MAP_SHARED), unix.EINVAL)
	a.is("no page of its own", mmap(a, 4096, 0x900<<12, rw, unix.MAP_SHARED), unix.EINVAL)
	a.is("at no page", mmap(a, 4096, 7, rw, unix.MAP_SHARED), unix.EINVAL)
	a.is("far out", mmap(a, 4096, 1<<40, rw, unix.MAP_SHARED), unix.EINVAL)
	a.is("private", mmap(a, 4096, 0x900<<12, rw, unix.MAP_PRIVATE), unix.EINVAL)
}

func TestMain(m *testing.M) {
	rnd = rand.New(rand.NewPCG(1, 0))
	os.Exit(m.Run())
}

//go:build linux && amd64 && !race

package emu

import (
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestEmuPassing checks that a device's file works under any descriptor number and in any process.
func TestEmuPassing(t *testing.T) {
	testutil.NeedEmu(t)
	if !inside(t) {
		return
	}
	open := func(path string, flags int) int {
		t.Helper()
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatalf("open %s: %v", path, err)
		}
		return fd
	}
	const uverbs, cm = "/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"
	dup := func(fd, to int) int {
		t.Helper()
		if err := unix.Dup3(fd, to, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		return to
	}
	ways := func(path string) map[string]int {
		fd := open(path, unix.O_RDWR)
		at2, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_RDWR})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
			t.Fatal(err)
		}
		oob := make([]byte, 64)
		_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), oob, 0)
		if err != nil {
			t.Fatal(err)
		}
		msgs, _ := unix.ParseSocketControlMessage(oob[:n])
		fds, err := unix.ParseUnixRights(&msgs[0])
		if err != nil {
			t.Fatal(err)
		}
		link := "/proc/self/fd/" + strconv.Itoa(fd)
		return map[string]int{
			"open": fd, "openat2": at2, "low": dup(fd, fd+200), "high": dup(fd, 1500), "passed": fds[0],
			"created": open(path, unix.O_RDWR|unix.O_CREAT), "by descriptor": open(link, unix.O_RDWR),
		}
	}
	for how, fd := range ways(uverbs) {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Rdev != unix.Mkdev(231, 192) {
			t.Errorf("%s: fstat of uverbs0: rdev %#x, %v", how, st.Rdev, err)
		}
		if _, err := unix.Mmap(fd, 0x7000<<12, 4096, unix.PROT_READ, unix.MAP_SHARED); err != unix.EINVAL {
			t.Errorf("%s: mmap of what the device has not: %v, want EINVAL", how, err)
		}
		// QUERY_DEVICE, as old libraries send it, before there is a context
		if _, err := unix.Write(fd, make([]byte, 64)); err != unix.EINVAL {
			t.Errorf("%s: a bad command: %v, want EINVAL", how, err)
		}
	}
	for how, fd := range ways(cm) {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR || unix.Major(st.Rdev) != 10 {
			t.Errorf("%s: fstat of rdma_cm: mode %#o, rdev %#x, %v", how, st.Mode, st.Rdev, err)
		}
		// CREATE_ID
		var id [4]byte
		cmd := struct {
			cmd     uint32
			in, out uint16
			uid     uint64
			resp    uint64
			ps      uint16
			typ     uint8
			_       [5]byte
		}{0, 24, 4, 1, uint64(uintptr(unsafe.Pointer(&id))), 0x106, 2, [5]byte{}}
		if n, err := unix.Write(fd, unsafe.Slice((*byte)(unsafe.Pointer(&cmd)), 32)); n != 32 || err != nil {
			t.Errorf("%s: rdma_cm CREATE_ID: %d, %v", how, n, err)
		}
	}
}

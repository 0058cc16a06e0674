//go:build linux

package guest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// setgroups is for this thread alone.
func setgroups(groups []int) error {
	list := make([]uint32, len(groups)+1)
	for i, g := range groups {
		list[i] = uint32(g)
	}
	n := uintptr(len(groups))
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, n, uintptr(unsafe.Pointer(&list[0])), 0); e != 0 {
		return e
	}
	return nil
}

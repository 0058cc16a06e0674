//go:build linux

package guest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Own names memory of the emulator itself as that of a program is named: a device's memory, or a buffer of a program
// that the emulator has mapped.
func Own(b []byte) (m Mem, addr uint64) {
	return Mem{unix.Getpid()}, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

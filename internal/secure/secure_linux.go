package secure

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/solib"
)

// atSecure is AT_SECURE (elf.h).
const atSecure = 23

func mode() bool {
	if vec, err := unix.Auxv(); err == nil {
		if v, ok := find(vec); ok {
			return v
		}
	}
	// A shared library under a C library other than glibc gets no vector. In many privileged
	// programs the file belongs to root, so failure to read it counts as secure.
	b, err := solib.ReadFile("/proc/self/auxv")
	if err != nil {
		return true
	}
	var vec [][2]uintptr
	for ; len(b) >= 16; b = b[16:] {
		vec = append(vec, [2]uintptr{uintptr(binary.NativeEndian.Uint64(b)),
			uintptr(binary.NativeEndian.Uint64(b[8:]))})
	}
	v, ok := find(vec)
	return v || !ok
}

// find reports whether AT_SECURE is set, and whether it is present.
func find(vec [][2]uintptr) (set, ok bool) {
	for _, e := range vec {
		if e[0] == atSecure {
			return e[1] != 0, true
		}
	}
	return false, false
}

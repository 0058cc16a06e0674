//go:build linux

package guest

import (
	"fmt"
	"structs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Map is a mapping of a process.
type Map struct {
	Start, End, Offset, Inode uint64
	Read, Write, Shared       bool
	Dev                       string
}

// mapQuery is struct procmap_query of linux/fs.h.
type mapQuery struct {
	_                        structs.HostLayout
	size, flags, addr        uint64
	start, end, vmaFlags     uint64
	pageSize, offset, inode  uint64
	major, minor             uint32
	nameSize, buildIDSize    uint32
	nameAddr, buildIDAddress uint64
}

// The size is part of the number of the query.
var _ [query >> 16 & 0x3fff]byte = [unsafe.Sizeof(mapQuery{})]byte{}

const query = 0xc0686611 // C: PROCMAP_QUERY

// nextMap returns the mapping at addr, or the next one. fd is of /proc/PID/maps.
func nextMap(fd int, addr uint64) (Map, error) {
	const (
		readable, writable, shared = 1 << 0, 1 << 1, 1 << 3
		coveringOrNext             = 1 << 4
	)
	q := &mapQuery{flags: coveringOrNext, addr: addr}
	q.size = uint64(unsafe.Sizeof(*q))
	for {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), query, uintptr(unsafe.Pointer(q)))
		switch e {
		case 0:
			return Map{Start: q.start, End: q.end, Offset: q.offset, Inode: q.inode, Read: q.vmaFlags&readable != 0,
				Write: q.vmaFlags&writable != 0, Shared: q.vmaFlags&shared != 0,
				Dev: fmt.Sprintf("%02x:%02x", q.major, q.minor)}, nil
		case unix.EINTR:
		default:
			return Map{}, e
		}
	}
}

//go:build linux

package notify

import "golang.org/x/sys/unix"

const auditArch = 0xc000003e // AUDIT_ARCH_X86_64

// x32 calls have this bit; they are refused.
const x32 = 0x40000000

// The calls with a path whose arguments begin with it, which arm64 does not have.
var pathCalls = map[uint32]Op{unix.SYS_OPEN: OpOpen, unix.SYS_STAT: OpStat, unix.SYS_LSTAT: OpStat, unix.SYS_ACCESS: OpAccess, unix.SYS_READLINK: OpReadlink}

func decodePath(c *Call, nr uint32) {
	a := &c.Args
	c.DirFD, c.Path = unix.AT_FDCWD, a[0]
	switch nr {
	case unix.SYS_OPEN:
		c.Flags = a[1]
	case unix.SYS_LSTAT:
		c.Flags, c.Buf = unix.AT_SYMLINK_NOFOLLOW, a[1]
	case unix.SYS_STAT:
		c.Buf = a[1]
	case unix.SYS_READLINK:
		c.Buf, c.Size = a[1], a[2]
	}
}

const sysFstatat = unix.SYS_NEWFSTATAT

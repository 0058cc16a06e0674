//go:build linux

package notify

import "golang.org/x/sys/unix"

const (
	auditArch     = unix.AUDIT_ARCH_X86_64
	sysNewfstatat = unix.SYS_NEWFSTATAT
	cwd           = atFDCWD
)

// archCalls are those that later architectures do without.
var archCalls = []sysCall{
	{nr: unix.SYS_OPEN, body: always, set: func(c *Call, a *[6]uint64) {
		c.Op, c.Args = OpOpen, [6]uint64{cwd, a[0], a[1], a[2]}
	}},
	{nr: unix.SYS_CREAT, body: always, set: func(c *Call, a *[6]uint64) {
		c.Op, c.Args = OpOpen, [6]uint64{cwd, a[0], unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC, a[1]}
	}},
	{nr: unix.SYS_STAT, body: always, set: func(c *Call, a *[6]uint64) { c.stat(OpStat, a[1], cwd, a[0], 0) }},
	{nr: unix.SYS_LSTAT, body: always, set: func(c *Call, a *[6]uint64) {
		c.stat(OpStat, a[1], cwd, a[0], unix.AT_SYMLINK_NOFOLLOW)
	}},
	{nr: unix.SYS_ACCESS, body: always, set: func(c *Call, a *[6]uint64) {
		c.Op, c.Args = OpAccess, [6]uint64{cwd, a[0], a[1]}
	}},
	{nr: unix.SYS_READLINK, body: always, set: func(c *Call, a *[6]uint64) {
		c.Op, c.Args = OpReadlink, [6]uint64{cwd, a[0], a[1], a[2]}
	}},
}

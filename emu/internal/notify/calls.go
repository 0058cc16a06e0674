//go:build linux

package notify

import "golang.org/x/sys/unix"

// sysCall is one system call of the kernel's, and how it becomes an operation.
type sysCall struct {
	nr   uint32
	body body
	set  func(c *Call, a *[6]uint64)
}

var calls = append(archCalls, []sysCall{
	{nr: unix.SYS_IOCTL, body: ioctls, set: op(OpIoctl, 3)},
	{nr: unix.SYS_WRITE, body: commands, set: op(OpWrite, 3)},
	{nr: unix.SYS_FSTAT, body: always, set: func(c *Call, a *[6]uint64) { c.stat(OpFstat, a[1], a[0]) }},
	{nr: sysNewfstatat, body: always, set: func(c *Call, a *[6]uint64) { c.statAt(a[0], a[1], a[3], a[2]) }},
	{nr: unix.SYS_STATX, body: always, set: func(c *Call, a *[6]uint64) {
		c.statAt(a[0], a[1], a[2], a[4])
		c.statx = true
	}},
	{nr: unix.SYS_OPENAT, body: always, set: op(OpOpen, 4)},
	{nr: unix.SYS_OPENAT2, body: always, set: setOpenat2},
	{nr: unix.SYS_FACCESSAT, body: always, set: op(OpAccess, 3)},
	{nr: unix.SYS_FACCESSAT2, body: always, set: op(OpAccess, 4)},
	{nr: unix.SYS_READLINKAT, body: always, set: op(OpReadlink, 4)},
	{nr: unix.SYS_GETXATTR, body: always, set: setXattr}, // ls asks
	{nr: unix.SYS_LGETXATTR, body: always, set: setXattr},
	{nr: unix.SYS_CHDIR, body: always, set: func(c *Call, a *[6]uint64) {
		c.Op, c.Args = OpChdir, [6]uint64{atFDCWD, a[0]}
	}},
	{nr: unix.SYS_GETCWD, body: always, set: op(OpGetcwd, 2)},
	{nr: unix.SYS_MMAP, body: mappings, set: op(OpMmap, 6)},
	{nr: unix.SYS_EXIT_GROUP, body: always, set: op(OpExit, 1)},
	{nr: unix.SYS_SOCKET, body: sockets, set: op(OpSocket, 3)},
	{nr: unix.SYS_SENDTO, body: netlinkSends, set: op(OpSendto, 6)},
	{nr: unix.SYS_SETUID, body: always, set: op(OpCreds, 0)},
	{nr: unix.SYS_SETGID, body: always, set: op(OpCreds, 0)},
	{nr: unix.SYS_SETREUID, body: always, set: op(OpCreds, 0)},
	{nr: unix.SYS_SETREGID, body: always, set: op(OpCreds, 0)},
	{nr: unix.SYS_SETRESUID, body: always, set: op(OpCreds, 0)},
	{nr: unix.SYS_SETRESGID, body: always, set: op(OpCreds, 0)},
	{nr: unix.SYS_SETFSUID, body: always, set: op(OpCreds, 0)},
	{nr: unix.SYS_SETFSGID, body: always, set: op(OpCreds, 0)},
	{nr: unix.SYS_SETGROUPS, body: always, set: op(OpCreds, 0)},
	{nr: unix.SYS_CAPSET, body: always, set: op(OpCreds, 0)},
}...)

// maxCall bounds the numbers of the calls in the table.
const maxCall = 512

// callOf is the table's index for a system call, plus one.
var callOf = func() (t [maxCall]uint8) {
	for i := range calls {
		t[calls[i].nr] = uint8(i + 1)
	}
	return t
}()

// op is a call whose first n arguments are the operation's.
func op(o Op, n int) func(*Call, *[6]uint64) {
	return func(c *Call, a *[6]uint64) {
		c.Op = o
		copy(c.Args[:n], a[:n])
	}
}

func (c *Call) stat(o Op, out uint64, args ...uint64) {
	c.Op, c.out = o, out
	copy(c.Args[:], args)
}

func (c *Call) statAt(dir, path, flags, out uint64) {
	if flags&unix.AT_EMPTY_PATH != 0 && int32(dir) != unix.AT_FDCWD {
		var first [1]byte
		if path == 0 || c.Mem().Read(path, first[:]) == nil && first[0] == 0 {
			c.stat(OpFstat, out, dir)
			return
		}
	}
	c.stat(OpStat, out, dir, path, flags)
}

func setXattr(c *Call, a *[6]uint64) { c.Op, c.Args = OpXattr, [6]uint64{atFDCWD, a[0]} }

// setOpenat2 takes the flags, which are in memory. A fault there is the kernel's to report: without flags the call
// means nothing to us either way.
func setOpenat2(c *Call, a *[6]uint64) {
	var how [3]uint64
	_ = c.Mem().Read(a[2], bytesOf(&how))
	c.Op, c.Args = OpOpen, [6]uint64{a[0], a[1], how[0], how[1], how[2]}
}

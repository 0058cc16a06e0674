//go:build linux

package notify

import (
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// Call is a system call of the program's that waits for an answer. It may be answered by any goroutine; after the
// answer it is not to be used.
type Call struct {
	Op   Op
	TID  int       // the thread
	Args [6]uint64 // see Op

	s        *Session
	id       uint64
	out      uint64 // of a stat
	statx    bool
	answered atomic.Bool
}

// FD is the descriptor that an operation on one is about.
func (c *Call) FD() int {
	if c.Op == OpMmap {
		return int(int32(c.Args[4]))
	}
	return int(int32(c.Args[0]))
}

// Mem is the program's memory.
func (c *Call) Mem() guest.Mem { return guest.Mem{PID: c.TID} }

// Path is the path of a call that has one: absolute, as the program sees it, and with what it has of ".", ".." and
// slashes, since links come into play. After an error, Continue lets the kernel give its own.
func (c *Call) Path() (string, error) {
	p, err := c.Mem().CString(c.Args[1], unix.PathMax-1)
	if err != nil {
		return "", err
	}
	if p == "" {
		return "", unix.ENOENT
	}
	if p[0] != '/' {
		link := "cwd"
		if fd := int(int32(c.Args[0])); fd != unix.AT_FDCWD {
			link = "fd/" + strconv.Itoa(fd)
		}
		dir, err := c.link(link)
		if err != nil {
			return "", err
		}
		if dir == "" || dir[0] != '/' {
			return "", unix.ENOTDIR
		}
		// Such links are as we see them: a chroot of the program's is not taken off.
		if root, err := c.link("root"); err == nil && root != "/" {
			dir = "/" + strings.TrimPrefix(dir, root)
		}
		p = dir + "/" + p
	}
	return p, nil
}

func (c *Call) link(name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlink("/proc/"+strconv.Itoa(c.TID)+"/"+name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// Continue lets the kernel carry out the call.
func (c *Call) Continue() { c.answer(0, 0, unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE) }

// Return makes v the result.
func (c *Call) Return(v int64) { c.answer(v, 0, 0) }

// Errno makes the call fail.
func (c *Call) Errno(e unix.Errno) { c.answer(0, -int32(e), 0) }

// ReturnStat makes st the result of an OpStat or OpFstat, in the form that the program asked for.
func (c *Call) ReturnStat(st *unix.Stat_t) {
	var err error
	if c.statx {
		x := statxOf(st)
		err = c.Mem().Write(c.out, bytesOf(&x))
	} else {
		err = c.Mem().Write(c.out, bytesOf(st))
	}
	if err != nil {
		c.Errno(unix.EFAULT)
		return
	}
	c.Return(0)
}

func statxOf(st *unix.Stat_t) unix.Statx_t {
	at := func(t unix.Timespec) unix.StatxTimestamp {
		return unix.StatxTimestamp{Sec: t.Sec, Nsec: uint32(t.Nsec)}
	}
	return unix.Statx_t{
		Mask: unix.STATX_BASIC_STATS, Blksize: uint32(st.Blksize), Nlink: uint32(st.Nlink), Uid: st.Uid, Gid: st.Gid,
		Mode: uint16(st.Mode), Ino: st.Ino, Size: uint64(st.Size), Blocks: uint64(st.Blocks), Atime: at(st.Atim),
		Mtime: at(st.Mtim), Ctime: at(st.Ctim), Rdev_major: unix.Major(st.Rdev), Rdev_minor: unix.Minor(st.Rdev),
		Dev_major: unix.Major(st.Dev), Dev_minor: unix.Minor(st.Dev),
	}
}

// AddFD gives the program a descriptor for the file behind our fd, the lowest free one, and makes it the call's result.
// Of flags O_CLOEXEC counts. If that fails, the call has failed.
func (c *Call) AddFD(fd, flags int) {
	if _, e := c.install(fd, flags&unix.O_CLOEXEC, unix.SECCOMP_ADDFD_FLAG_SEND); e != 0 {
		c.Errno(e)
		return
	}
	c.answered.Store(true)
}

// InstallFD is AddFD for calls that return descriptors in memory: the call has yet to be answered.
func (c *Call) InstallFD(fd, flags int) (int, error) {
	n, e := c.install(fd, flags, 0)
	if e != 0 {
		return -1, e
	}
	return n, nil
}

func (c *Call) install(fd, flags int, how uint32) (int, unix.Errno) {
	return addFD(c.s.listener, &addfd{c.id, how, uint32(fd), 0, uint32(flags)})
}

// Valid reports whether the call still waits: the thread may have been killed.
func (c *Call) Valid() bool { return !c.answered.Load() && idValid(c.s.listener, c.id) }

// answer ignores errors: the thread is gone, then.
func (c *Call) answer(v int64, e int32, flags uint32) {
	if !c.answered.CompareAndSwap(false, true) {
		return
	}
	respond(c.s.listener, &response{c.id, v, e, flags})
}

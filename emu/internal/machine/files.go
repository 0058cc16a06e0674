//go:build linux && (amd64 || arm64)

package machine

import (
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/cm"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/notify"
	"github.com/pureverbs/pureverbs/emu/internal/sysfs"
	"github.com/pureverbs/pureverbs/emu/internal/umad"
	"github.com/pureverbs/pureverbs/emu/internal/verbs"
)

// files answers the trapped calls of all programs: it decides which package a call belongs to.
type files struct {
	tree    *sysfs.Tree
	verbs   *verbs.Server
	cm      *cm.Server
	umad    *umad.Server
	creds   *guest.Credentials
	opens   func(tid int) // called when a program opens a device
	calls   *atomic.Uint64
	netlink *rdmaNetlink
}

func (f *files) handle(c *notify.Call) {
	f.calls.Add(1)
	switch c.Op {
	case notify.OpOpen, notify.OpStat, notify.OpAccess, notify.OpReadlink, notify.OpXattr, notify.OpChdir:
		p, err := c.Path()
		if err != nil {
			c.Continue()
			return
		}
		t, ok := f.tree.Lookup(p)
		if !ok {
			t, ok = f.opened(c, p)
		}
		switch {
		case ok:
			f.path(c, t)
		case c.Op == notify.OpReadlink && strings.HasPrefix(p, "/proc/"):
			f.own(c, p)
		default:
			c.Continue()
		}
	case notify.OpSocket:
		f.netlink.socket(c)
	case notify.OpSendto:
		f.netlink.sendto(c)
	case notify.OpGetcwd:
		f.getcwd(c)
	case notify.OpExit:
		if pid, err := guest.TGID(c.TID); err == nil {
			f.verbs.Exits(pid)
			f.cm.Exits(pid)
			f.creds.Exits(pid)
		}
		c.Continue()
	case notify.OpCreds:
		f.creds.Change(c.TID)
		c.Continue()
	default:
		f.descriptor(c, guest.FDName(c.TID, c.FD()))
	}
}

// seen is a path of the emulated folders as programs know it.
func (f *files) seen(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, f.tree.Root())
	return rest, ok && strings.HasPrefix(rest, "/")
}

// getcwd answers for a working directory in the emulated folders.
func (f *files) getcwd(c *notify.Call) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlink("/proc/"+strconv.Itoa(c.TID)+"/cwd", buf[:])
	dir, ok := f.seen(string(buf[:max(n, 0)]))
	switch {
	case err != nil || !ok:
		c.Continue()
	case uint64(len(dir)) >= c.Args[1]:
		c.Errno(unix.ERANGE)
	case c.Mem().Write(c.Args[0], append([]byte(dir), 0)) != nil:
		c.Errno(unix.EFAULT)
	default:
		c.Return(int64(len(dir) + 1))
	}
}

// own answers a readlink of a link of the thread's own that leads into the emulated folders: /proc/self/cwd, and
// descriptors.
func (f *files) own(c *notify.Call, p string) {
	for _, self := range []string{"/proc/self/", "/proc/thread-self/"} {
		link, ok := strings.CutPrefix(p, self)
		if !ok || strings.Contains(link, "..") {
			continue
		}
		var buf [unix.PathMax]byte
		n, err := unix.Readlink("/proc/"+strconv.Itoa(c.TID)+"/"+link, buf[:])
		if to, ok := f.seen(string(buf[:max(n, 0)])); ok && err == nil {
			returnText(c, []byte(to))
			return
		}
	}
	c.Continue()
}

// opened is the device that a descriptor leads to which a path names: to open /proc/self/fd/3 is to open the device
// once more.
func (f *files) opened(c *notify.Call, p string) (t sysfs.Target, ok bool) {
	pid, fd, ok := strings.Cut(strings.TrimPrefix(p, "/proc/"), "/fd/")
	n, err := strconv.Atoi(fd)
	if err != nil || n < 0 || !ok {
		return t, false
	}
	switch c.Op {
	case notify.OpReadlink, notify.OpXattr, notify.OpChdir:
		return t, false
	case notify.OpStat:
		if c.Args[2]&unix.AT_SYMLINK_NOFOLLOW != 0 {
			return t, false
		}
	}
	tid := c.TID
	if pid != "self" && pid != "thread-self" && pid != "/dev" {
		if tid, err = strconv.Atoi(pid); err != nil {
			return t, false
		}
	}
	name := guest.FDName(tid, n)
	if t = f.owner(name); t.Kind == sysfs.Uverbs {
		t.Device = f.verbs.Device(name)
	}
	return t, t.Kind != sysfs.Missing
}

// owner is the kind of device that a descriptor which leads to name has open, Missing for none.
func (f *files) owner(name string) (t sysfs.Target) {
	if f.verbs.Owns(name) {
		t.Kind = sysfs.Uverbs
	} else if f.cm.Owns(name) {
		t.Kind = sysfs.RDMACM
	} else if n, ok := f.umad.Owns(name); ok {
		t.Kind, t.Umad = sysfs.Umad, n
	}
	return t
}

// path answers a call on a path of the emulated machine.
func (f *files) path(c *notify.Call, t sysfs.Target) {
	device := t.Kind == sysfs.Uverbs || t.Kind == sysfs.RDMACM || t.Kind == sysfs.Umad
	nofollow := c.Op == notify.OpReadlink ||
		c.Op == notify.OpStat && c.Args[2]&unix.AT_SYMLINK_NOFOLLOW != 0 ||
		c.Op == notify.OpOpen && c.Args[2]&unix.O_NOFOLLOW != 0
	const known = unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS |
		unix.RESOLVE_BENEATH | unix.RESOLVE_IN_ROOT | 0x20 // RESOLVE_CACHED
	if c.Op == notify.OpOpen && (c.Args[4]&^known != 0 || c.Args[2]>>32 != 0) {
		c.Continue() // the kernel refuses it without a look at the path
		return
	}
	if t.Outside != "" && !(nofollow && t.Own) {
		outside(c, t.Outside)
		return
	}
	switch c.Op {
	case notify.OpOpen:
		f.open(c, t)
	case notify.OpStat:
		var st unix.Stat_t
		var err error
		switch {
		case nofollow && (t.Link || !device):
			err = unix.Lstat(t.RealPath, &st)
		case device:
			st = f.tree.Stat(t)
		default:
			err = unix.Stat(t.RealPath, &st)
		}
		if err != nil {
			c.Errno(errno(err))
			return
		}
		st.Uid, st.Gid = 0, 0 // the emulator's user made it, but programs see it as the machine's
		c.ReturnStat(&st)
	case notify.OpAccess:
		mode := uint32(c.Args[2])
		switch {
		case device && mode&unix.X_OK != 0:
			c.Errno(unix.EACCES)
		case t.Kind == sysfs.Umad && mode != unix.F_OK && !overrides(c):
			c.Errno(unix.EACCES)
		case device:
			c.Return(0)
		case mode&unix.W_OK != 0 && t.Kind != sysfs.Missing && !overrides(c):
			c.Errno(unix.EACCES)
		default:
			c.Errno(errno(unix.Access(t.RealPath, mode&^unix.W_OK)))
		}
	case notify.OpXattr:
		c.Errno(unix.ENODATA)
	case notify.OpReadlink:
		native(c, t.RealPath)()
	case notify.OpChdir:
		if device {
			c.Errno(unix.ENOTDIR)
		} else {
			native(c, t.RealPath)()
		}
	}
}

// rights are those that the kernel would look at for a call on a path.
func rights(c *notify.Call) (guest.Rights, error) {
	r, err := guest.RightsOf(c.TID)
	if c.Op == notify.OpAccess && c.Args[3]&unix.AT_EACCESS == 0 {
		r = r.Real()
	}
	return r, err
}

// overrides reports whether the caller may write what only root owns, as access(2) sees it.
func overrides(c *notify.Call) bool {
	r, err := rights(c)
	return err == nil && r.UID == 0
}

// outside answers a call on a path of the machine's own, with the caller's rights and not with ours.
func outside(c *notify.Call, path string) {
	r, err := rights(c)
	answer := func() { c.Errno(unix.EACCES) }
	if err == nil {
		_ = r.Do(func() { answer = native(c, path) })
	}
	answer()
}

// native does what a call asks for, and returns what answers it: the program's memory is ours to write, not the
// caller's.
func native(c *notify.Call, path string) (answer func()) {
	flags := int(c.Args[2])
	var err error
	switch c.Op {
	case notify.OpOpen:
		var fd int
		if fd, err = unix.Open(path, readable(flags)|unix.O_CLOEXEC|unix.O_NOCTTY, uint32(c.Args[3])); err == nil {
			return func() {
				c.AddFD(fd, flags)
				unix.Close(fd)
			}
		}
	case notify.OpStat:
		var st unix.Stat_t
		if err = unix.Fstatat(unix.AT_FDCWD, path, &st, flags&unix.AT_SYMLINK_NOFOLLOW); err == nil {
			return func() { c.ReturnStat(&st) }
		}
	case notify.OpAccess:
		err = unix.Access(path, uint32(flags))
	case notify.OpXattr:
		err = unix.ENODATA
	case notify.OpChdir:
		var fd int
		if fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			return func() {
				c.Chdir(fd)
				unix.Close(fd)
			}
		}
	case notify.OpReadlink:
		var to [unix.PathMax]byte
		var n int
		if n, err = unix.Readlink(path, to[:]); err == nil {
			return func() { returnText(c, to[:n]) }
		}
	}
	return func() { c.Errno(errno(err)) }
}

// returnText answers a readlink with text.
func returnText(c *notify.Call, text []byte) {
	text = text[:min(uint64(len(text)), c.Args[3])]
	if c.Mem().Write(c.Args[2], text) != nil {
		c.Errno(unix.EFAULT)
		return
	}
	c.Return(int64(len(text)))
}

// namesFolder reports whether a path is that of a folder by its last slash.
func namesFolder(c *notify.Call) bool {
	p, err := c.Path()
	return err == nil && strings.HasSuffix(p, "/") && !strings.HasPrefix(path.Base(p), ".")
}

// readable turns an open with O_PATH into one that reads: such descriptors cannot be handed out. Of a link itself there
// is none, then.
func readable(flags int) int {
	if flags&unix.O_PATH != 0 {
		flags &= unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	}
	return flags
}

func (f *files) open(c *notify.Call, t sysfs.Target) {
	flags := int(c.Args[2])
	switch {
	case flags&unix.O_CREAT != 0 && namesFolder(c):
		c.Errno(unix.EISDIR)
		return
	case flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL && t.Kind != sysfs.Missing:
		c.Errno(unix.EEXIST)
		return
	case flags&unix.O_CREAT != 0 && t.Kind == sysfs.Missing:
		e := unix.EACCES // nobody makes files there
		if err := unix.Access(t.RealPath[:strings.LastIndexByte(t.RealPath, '/')+1]+".", unix.F_OK); err != nil {
			e = errno(err)
		}
		c.Errno(e)
		return
	case flags&unix.O_CREAT != 0 && t.Kind == sysfs.Dir:
		c.Errno(unix.EISDIR)
		return
	}
	switch t.Kind {
	case sysfs.Uverbs:
		f.opens(c.TID)
		f.verbs.Open(c, t.Device)
		return
	case sysfs.RDMACM:
		f.opens(c.TID)
		f.cm.Open(c)
		return
	case sysfs.Umad:
		if !overrides(c) {
			c.Errno(unix.EACCES)
			return
		}
		f.umad.Open(c, t.Umad)
		return
	case sysfs.File:
		if flags&unix.O_ACCMODE != unix.O_RDONLY {
			c.Errno(unix.EACCES) // as sysfs answers for files that only show something
			return
		}
	}
	how := unix.OpenHow{
		Flags:   uint64(readable(flags)&^(unix.O_CREAT|unix.O_TRUNC) | unix.O_CLOEXEC),
		Resolve: c.Args[4] & unix.RESOLVE_NO_SYMLINKS,
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, t.RealPath, &how)
	if err != nil {
		c.Errno(errno(err))
		return
	}
	c.AddFD(fd, flags)
	unix.Close(fd)
}

// descriptor answers a call on a descriptor that leads to name.
func (f *files) descriptor(c *notify.Call, name string) {
	switch t := f.owner(name); {
	case t.Kind == sysfs.Missing:
		c.Continue()
	case c.Op == notify.OpFstat:
		t.Device = f.verbs.Device(name)
		st := f.tree.Stat(t)
		c.ReturnStat(&st)
	case c.Op == notify.OpIoctl && t.Kind == sysfs.Uverbs:
		f.verbs.Ioctl(c, name)
	case c.Op == notify.OpIoctl && t.Kind == sysfs.Umad:
		f.umad.Ioctl(c, name)
	case c.Op == notify.OpWrite && t.Kind == sysfs.Uverbs:
		f.verbs.Write(c, name)
	case c.Op == notify.OpWrite && t.Kind == sysfs.RDMACM:
		f.cm.Write(c)
	case c.Op == notify.OpWrite:
		f.umad.Write(c, name)
	case c.Op == notify.OpMmap && t.Kind == sysfs.Uverbs:
		f.verbs.Mmap(c, name)
	case c.Op == notify.OpMmap:
		c.Errno(unix.ENODEV)
	default:
		c.Continue()
	}
}

// niceness limits how much of a processor a program gets that it shares with the emulator: a quarter. It is not 19, the
// most there is, because the machine's other processes, which are not nice, would leave a program almost nothing.
// Beside 45 of them, a ping-pong of 100 messages took 110 s with 19, and 40 s with 5. On a quiet machine both took the
// same time.
const niceness = 5

// calm makes a program give way to the emulator where both want a processor: programs poll without end, and what they
// wait for happens here. Threads inherit it.
func calm(tid int) {
	const most = 20 // the system call returns how far a niceness is from it
	if n, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil && most-n >= niceness {
		return
	}
	tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(tid) + "/task")
	for _, t := range tasks {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, niceness)
		}
	}
}

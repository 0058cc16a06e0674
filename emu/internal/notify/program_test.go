//go:build linux

package notify

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// programs run under supervision, by the name in their environment. What they print is wrong.
var programs map[string]func() int

func init() {
	programs = map[string]func() int{
		"device": device, "hostile": hostile, "storm": storm, "family": family, "child": child,
		"panicking": panicking, "calling": calling, "slow": slowly, "supervisor": supervisor,
		"passing": passing, "receiving": receiving,
	}
}

func check(what string, got, want any) {
	if got != want {
		fmt.Printf("%s: %v, want %v\n", what, got, want)
	}
}

func openToy() int {
	fd, err := unix.Open(toyPath, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		fmt.Println("open:", err)
		os.Exit(1)
	}
	return fd
}

func ioctl(fd int, request, arg uintptr) (int, unix.Errno) {
	r, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, arg)
	return int(r), e
}

const none = unix.Errno(0)

// device uses the toy in all ways.
func device() int {
	fd := openToy()
	n, err := unix.Write(fd, make([]byte, 10))
	check("write", n, 20)
	check("write", err, nil)
	for range 3 {
		_, e := ioctl(fd, toyIoctl, 0)
		check("ioctl", e, none)
	}
	_, e := ioctl(fd, toyIoctl+1, 0)
	check("another ioctl", e, unix.ENOTTY)
	r, e := ioctl(fd, toyIoctl, 0xbeef)
	check("an answer that comes later", r, 77)
	check("an answer that comes later", e, none)
	// An ioctl is known by its request, on any descriptor.
	_, e = ioctl(0, toyIoctl, 0)
	check("an ioctl elsewhere", e, none)

	var st unix.Stat_t
	check("fstat", unix.Fstat(fd, &st), nil)
	check("fstat's device", st.Rdev, toyStat.Rdev)
	st = unix.Stat_t{}
	check("fstatat", unix.Fstatat(fd, "", &st, unix.AT_EMPTY_PATH), nil)
	check("fstatat's inode", st.Ino, toyStat.Ino)
	for _, p := range []string{toyPath, "../../../../../../../../dev/./toy", "/dev//shm/../toy"} {
		st = unix.Stat_t{}
		check("stat "+p, unix.Stat(p, &st), nil)
		check("stat's mode "+p, st.Mode, toyStat.Mode)
	}
	check("lstat", unix.Lstat(toyPath, &st), nil)
	dir, err := unix.Open("/dev", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check("open /dev", err, nil)
	check("stat in a folder", unix.Fstatat(dir, "toy", &st, 0), nil)
	var x unix.Statx_t
	check("statx", unix.Statx(dir, "toy", 0, unix.STATX_ALL, &x), nil)
	check("statx's device", x.Rdev_major, uint32(231))
	check("statx's device", x.Rdev_minor, uint32(192))
	x = unix.Statx_t{}
	check("statx of the descriptor", unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_ALL, &x), nil)
	check("statx's inode", x.Ino, toyStat.Ino)
	check("stat of another file", unix.Stat("/dev/null", &st), nil)
	check("stat of another file", st.Rdev, unix.Mkdev(1, 3))
	check("fstat elsewhere", unix.Fstat(dir, &st), nil)
	check("fstat elsewhere", st.Mode&unix.S_IFMT, uint32(unix.S_IFDIR))

	check("access", unix.Access(toyPath, unix.R_OK), nil)
	check("access to nothing", unix.Access(toyPath+"-not", unix.R_OK), unix.ENOENT)
	check("faccessat2", unix.Faccessat2(dir, "toy", unix.R_OK, unix.AT_EACCESS), nil)
	_, err = unix.Readlink(toyPath, make([]byte, 10))
	check("readlink", err, unix.EINVAL)
	_, err = unix.Readlink("/proc/self/exe", make([]byte, 10))
	check("another readlink", err, nil)

	_, err = unix.Lgetxattr(toyPath, "security.selinux", nil)
	check("lgetxattr", err, unix.ENODATA)

	// AT_EMPTY_PATH is about a path that is empty.
	check("a path, with AT_EMPTY_PATH", unix.Fstatat(dir, "null", &st, unix.AT_EMPTY_PATH), nil)
	check("a path, with AT_EMPTY_PATH", st.Rdev, unix.Mkdev(1, 3))
	created, err := unix.Open(toyPath, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	check("open what there is with O_CREAT", err, nil)
	isToy("O_CREAT", created)
	unix.Close(created)
	_, err = unix.Open("/proc/toy", unix.O_CREAT|unix.O_RDWR, 0o600)
	check("create", err, unix.ENOENT)
	fd2, err := unix.Openat2(dir, "toy", &unix.OpenHow{Flags: unix.O_RDWR})
	check("openat2", err, nil)
	unix.Close(fd)
	check("the lowest descriptor that is free", openToy(), fd)
	fl, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	check("O_CLOEXEC", fl, unix.FD_CLOEXEC)
	fl, _ = unix.FcntlInt(uintptr(fd2), unix.F_GETFD, 0)
	check("no O_CLOEXEC", fl, 0)

	m, err := unix.Mmap(fd, 4096, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check("mmap", err, nil)
	if err == nil {
		m[1] = 2
	}
	_, err = unix.Mmap(fd, 0, 8192, unix.PROT_READ, unix.MAP_SHARED)
	check("mmap of two pages", err, unix.EINVAL)
	_, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_RDMA)
	check("an RDMA netlink socket", err, unix.EPROTONOSUPPORT)
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	check("a route netlink socket", err, nil)
	unix.Close(s)

	// What it may have open is what the program says.
	_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 40, Max: 40})
	for fd, err = 0, error(nil); err == nil && fd < 100; {
		fd, err = unix.Open(toyPath, unix.O_RDWR, 0)
	}
	check("a full table", err, unix.EMFILE)
	return 0
}

// isToy looks at a descriptor in the four ways that are trapped.
func isToy(what string, fd int) {
	n, err := unix.Write(fd, make([]byte, 10))
	check(what+": write", n, 20)
	check(what+": write", err, nil)
	_, e := ioctl(fd, toyIoctl, 0)
	check(what+": ioctl", e, none)
	var st unix.Stat_t
	check(what+": fstat", unix.Fstat(fd, &st), nil)
	check(what+": fstat's device", st.Rdev, toyStat.Rdev)
	var x unix.Statx_t
	check(what+": statx", unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_ALL, &x), nil)
	check(what+": statx's inode", x.Ino, toyStat.Ino)
	_, err = unix.Mmap(fd, 0, 8192, unix.PROT_READ, unix.MAP_SHARED)
	check(what+": mmap of two pages", err, unix.EINVAL)
	_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(what+": mmap", err, nil)
}

// passing hands the toy around: it is the device by whatever number, in whatever process.
func passing() int {
	fd := openToy()
	isToy("opened", fd)
	how := &unix.OpenHow{Flags: unix.O_RDWR | unix.O_CLOEXEC}
	again, err := unix.Openat2(unix.AT_FDCWD, toyPath, how)
	check("openat2", err, nil)
	isToy("openat2", again)
	d, err := unix.Dup(fd)
	check("dup", err, nil)
	isToy("dup", d)
	check("dup3", unix.Dup3(fd, 150, unix.O_CLOEXEC), nil)
	isToy("dup3", 150)
	d, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 60)
	check("F_DUPFD", err, nil)
	isToy("F_DUPFD", d)
	d, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 900)
	check("F_DUPFD, high", err, nil)
	isToy("F_DUPFD, high", d)

	// Another process has it by SCM_RIGHTS, and as its standard input.
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check("socketpair", err, nil)
	check("sendmsg", unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(fd), nil, 0), nil)
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "NOTIFY_PROGRAM=receiving")
	c.Stdin = os.NewFile(uintptr(again), "toy")
	c.ExtraFiles = []*os.File{os.NewFile(uintptr(pair[1]), "socket"), os.NewFile(uintptr(fd), "toy")}
	out, err := c.CombinedOutput()
	check("the other process", err, nil)
	check("its output", string(out), "")

	// What is no command goes by: the device is not written to.
	_, err = unix.Write(fd, make([]byte, 8))
	check("a write that is no command", err, unix.EPERM)
	return 0
}

func receiving() int {
	oob := make([]byte, 64)
	_, n, _, _, err := unix.Recvmsg(3, make([]byte, 8), oob, unix.MSG_CMSG_CLOEXEC)
	check("recvmsg", err, nil)
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	check("control message", err, nil)
	fds, err := unix.ParseUnixRights(&msgs[0])
	check("rights", err, nil)
	isToy("received", fds[0])
	isToy("inherited", 4)
	isToy("standard input", 0)
	return 0
}

// hostile hands over what no program means.
func hostile() int {
	fd := openToy()
	ro, _ := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	// A path without end, at the end of the memory.
	two, _ := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	_ = unix.Mprotect(two[4096:], unix.PROT_NONE)
	for i := range two[:4096] {
		two[i] = 'a'
	}
	at := addressOf
	for _, p := range []uintptr{0, 8, ^uintptr(0), ^uintptr(4095), 1 << 63, 1 << 47, at(two[4000:]),
		at(two[4096:4097])} {
		_, _, e := unix.Syscall6(unix.SYS_OPENAT, ^uintptr(99), p, 0, 0, 0, 0)
		check("openat", e, unix.EFAULT)
		_, _, e = unix.Syscall6(unix.SYS_READLINKAT, ^uintptr(99), p, at(two), 10, 0, 0)
		check("readlinkat", e, unix.EFAULT)
		_, _, e = unix.Syscall6(unix.SYS_STATX, uintptr(fd), p, unix.AT_EMPTY_PATH, 0, p, 0)
		check("statx", e, unix.EFAULT)
		_, _, e = unix.Syscall(unix.SYS_FSTAT, uintptr(fd), p, 0)
		check("fstat", e, unix.EFAULT)
		_, _, e = unix.Syscall6(unix.SYS_OPENAT2, ^uintptr(99), at([]byte("/dev/null\x00")), p, 24, 0, 0)
		check("openat2", e == unix.EFAULT || e == unix.EINVAL, true) // what is mapped makes no sense
		_, e = ioctl(fd, toyIoctl, p)
		check("ioctl", e, none)
	}
	_, _, e := unix.Syscall(unix.SYS_FSTAT, uintptr(fd), at(ro), 0)
	check("fstat to what is read-only", e, unix.EFAULT)
	long := make([]byte, 5000)
	for i := range long {
		long[i] = '/'
	}
	_, err := unix.Open(string(long), 0, 0)
	check("a long path", err, unix.ENAMETOOLONG)
	_, err = unix.Open("", 0, 0)
	check("an empty path", err, unix.ENOENT)
	_, err = unix.Openat(-7, "toy", 0, 0)
	check("a bad folder", err, unix.EBADF)
	_, err = unix.Openat(fd, "toy", 0, 0)
	check("a device for a folder", err, unix.ENOTDIR)
	_, err = unix.Write(9999, make([]byte, 16))
	check("write to what is closed", err, unix.EBADF)
	check("fstat of what is closed", unix.Fstat(9999, &unix.Stat_t{}), unix.EBADF)
	_, err = unix.Mmap(9999, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
	check("mmap of what is closed", err, unix.EBADF)
	// Calls of the other ABIs do not exist.
	if runtime.GOARCH == "amd64" {
		_, _, e = unix.RawSyscall(0x40000000+unix.SYS_GETPID, 0, 0, 0)
		check("an x32 call", e, unix.ENOSYS)
	}
	// Threads that are killed amid calls.
	for range 20 {
		c := exec.Command("/proc/self/exe", "ioctl", "1000000000")
		c.Env = append(os.Environ(), "NOTIFY_PROGRAM=calling")
		check("start", c.Start(), nil)
		time.Sleep(3 * time.Millisecond)
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	return 0
}

const stormCalls = 20000

// storm makes calls on a thread that another one signals all the time.
func storm() int {
	fd := openToy()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGALRM)
	runtime.LockOSThread()
	tid := unix.Gettid()
	var stop atomic.Bool
	var sent atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			_ = unix.Tgkill(unix.Getpid(), tid, unix.SIGALRM)
			sent.Add(1)
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 50e3}, nil)
		}
	}()
	last := 0
	for range stormCalls {
		n, e := ioctl(fd, toyIoctl, 0)
		check("ioctl", e, none)
		if n <= last {
			fmt.Println("call", n, "after", last)
		}
		last = n
	}
	stop.Store(true)
	<-done
	if n := sent.Load(); n < 200 {
		fmt.Println("only", n, "signals")
	}
	check("the last call", last, stormCalls)
	return 0
}

// family is threads, children and grandchildren.
func family() int {
	fd := openToy()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			runtime.LockOSThread()
			for range 100 {
				_, e := ioctl(fd, toyIoctl, 0)
				check("ioctl", e, none)
			}
		})
	}
	wg.Wait()
	c := exec.Command("/proc/self/exe", "more")
	c.Env = append(os.Environ(), "NOTIFY_PROGRAM=child")
	out, err := c.CombinedOutput()
	check("child", err, nil)
	check("child's output", string(out), "")
	return 0
}

func child() int {
	fd := openToy()
	for range 3 {
		_, e := ioctl(fd, toyIoctl, 0)
		check("ioctl", e, none)
	}
	if len(os.Args) > 1 {
		c := exec.Command("/proc/self/exe")
		out, err := c.CombinedOutput()
		check("grandchild", err, nil)
		check("grandchild's output", string(out), "")
	}
	return 0
}

const slowCalls = 6

// slowly has calls under way that are answered only after the quick ones that it makes meanwhile.
func slowly() int {
	var wg sync.WaitGroup
	for range slowCalls {
		wg.Go(func() {
			_, e := ioctl(0, toyIoctl, 0x510)
			check("slow ioctl", e, none)
		})
	}
	_, e := ioctl(0, toyIoctl, 0x511)
	check("slow calls are made at the same time", e, none)
	for range 100 {
		_, e := ioctl(0, toyIoctl, 0)
		check("ioctl", e, none)
	}
	_, e = ioctl(0, toyIoctl, 0x512)
	check("the end of the slow calls", e, none)
	wg.Wait()
	return 0
}

func panicking() int {
	_, e := ioctl(0, toyIoctl, 0xdead)
	return int(e)
}

// calling prints the nanoseconds that a call takes.
func calling() int {
	n, _ := strconv.Atoi(os.Args[2])
	runtime.LockOSThread()
	path := []byte("/dev/null\x00")
	start := time.Now()
	switch os.Args[1] {
	case "access":
		for range n {
			faccessat(path)
		}
	case "ioctl":
		for range n {
			unix.RawSyscall(unix.SYS_IOCTL, 0, toyIoctl, 0)
		}
	case "native":
		for range n {
			unix.RawSyscall(unix.SYS_IOCTL, 0, toyIoctl+1, 0)
		}
	}
	fmt.Println(float64(time.Since(start).Nanoseconds()) / float64(n))
	return 0
}

func supervisor() int {
	f, err := guest.NewFile("toy", 1<<20)
	if err != nil {
		fmt.Println(err)
		return 98
	}
	cfg := Config{Argv: os.Args[1:], IoctlCmds: []uint32{toyIoctl}, TrapNetlink: []int{unix.NETLINK_RDMA},
		Forward: []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP}}
	os.Unsetenv("NOTIFY_PROGRAM")
	if os.Getenv("NOTIFY_NET") != "" {
		if cfg.Net, err = NewNet("@notify-" + strconv.Itoa(os.Getpid())); err != nil {
			fmt.Println(err)
			return 97
		}
		defer cfg.Net.Close()
		os.Unsetenv("NOTIFY_NET")
	}
	if programs[os.Args[1]] != nil {
		cfg.Argv = append([]string{"/proc/self/exe"}, os.Args[2:]...)
		os.Setenv("NOTIFY_PROGRAM", os.Args[1])
	}
	s, err := Start(cfg, (&toy{f: f}).handle)
	if err != nil {
		fmt.Println(err)
		return 99
	}
	code, err := s.Wait()
	if err != nil {
		fmt.Println(err)
	}
	return code
}

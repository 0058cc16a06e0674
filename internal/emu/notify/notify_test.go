//go:build linux

package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/guest"
)

// The test binary is supervisor, init, shim, and the programs as well.
func TestMain(m *testing.M) {
	Shim()
	if name := os.Getenv("NOTIFY_PROGRAM"); name != "" {
		os.Exit(programs[name]())
	}
	os.Exit(m.Run())
}

const (
	toyPath  = "/dev/toy"
	toyIoctl = 0xc0181b01
	winLo    = 700
	winHi    = 720
)

// toy is a device: a file whose ioctl counts, whose write returns twice the length, whose fstat says a character device.
type toy struct {
	f     *guest.File
	count atomic.Int64
	op    [16]atomic.Int64
}

func newToy(t testing.TB) *toy {
	f, err := guest.NewFile("toy", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &toy{f: f}
}

func (y *toy) handle(c *Call) {
	y.op[c.Op].Add(1)
	switch c.Op {
	case OpOpen, OpStat, OpAccess, OpReadlink:
		p, err := c.Path()
		switch {
		case err != nil || p != toyPath && p != toyPath+"-sys":
			c.Continue()
		case c.Op == OpOpen && p == toyPath:
			g, err := y.f.Open()
			if err != nil {
				c.Errno(unix.EIO)
				return
			}
			_, _ = c.AddFD(int(g.Fd()), int(c.Args[2])&unix.O_CLOEXEC)
			g.Close()
		case c.Op == OpOpen:
			g, _ := os.Open("/proc/self/stat")
			_, _ = c.AddFDAnywhere(int(g.Fd()), unix.O_CLOEXEC)
			g.Close()
		case c.Op == OpStat:
			c.ReturnStat(&toyStat)
		case c.Op == OpAccess:
			c.Return(0)
		default:
			c.Errno(unix.EINVAL)
		}
	case OpIoctl:
		switch c.Args[2] {
		case 0xdead:
			panic("a handler's mistake")
		case 0xbeef: // later, by another
			go c.Return(77)
		default:
			c.Return(y.count.Add(1))
		}
	case OpWrite:
		c.Return(int64(c.Args[2]) * 2)
	case OpFstat:
		c.ReturnStat(&toyStat)
	case OpMmap:
		if c.Args[1] != 4096 {
			c.Errno(unix.EINVAL)
		} else {
			c.Continue()
		}
	default:
		c.Continue()
	}
}

var toyStat = unix.Stat_t{Mode: unix.S_IFCHR | 0o666, Rdev: unix.Mkdev(231, 192), Ino: 4711, Nlink: 1, Blksize: 4096}

// trial is a run of a program and what came of it.
type trial struct {
	cfg  Config
	toy  *toy
	s    *Session
	out  bytes.Buffer
	read chan struct{}
}

// launch starts a program of this file, or any other by its path.
func launch(t testing.TB, y *toy, argv ...string) *trial {
	t.Helper()
	r := &trial{toy: y, read: make(chan struct{})}
	r.cfg = Config{Argv: argv, Window: [2]int{winLo, winHi}, IoctlCmds: []uint32{toyIoctl}, DenyNetlink: []int{unix.NETLINK_RDMA}}
	if programs[argv[0]] != nil {
		r.cfg.Env = append(os.Environ(), "NOTIFY_PROGRAM="+argv[0])
		r.cfg.Argv = append([]string{"/proc/self/exe"}, argv[1:]...)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.cfg.Stdout, r.cfg.Stderr = pw, pw
	r.s, err = Start(r.cfg, y.handle)
	pw.Close()
	if p := (*ProbeError)(nil); errors.As(err, &p) {
		t.Skip("skipped: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.read)
		_, _ = io.Copy(&r.out, pr)
		pr.Close()
	}()
	return r
}

func (r *trial) wait(t testing.TB) (int, string) {
	t.Helper()
	code, err := r.s.Wait()
	if err != nil {
		t.Error(err)
	}
	<-r.read
	return code, r.out.String()
}

var programs = map[string]func() int{}

func init() {
	programs["device"] = device
}

func check(what string, got, want any) {
	if got != want {
		fmt.Printf("%s: %v, want %v\n", what, got, want)
	}
}

// device uses the toy in all ways and says what is not as it should be.
func device() int {
	fd, err := unix.Open(toyPath, unix.O_RDWR|unix.O_CLOEXEC, 0)
	check("open", err, nil)
	check("descriptor", fd, winLo)
	n, err := unix.Write(fd, make([]byte, 10))
	check("write", n, 20)
	check("write", err, nil)
	for i := 1; i < 4; i++ {
		r, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), toyIoctl, 0)
		check("ioctl", int(r), i)
		check("ioctl", e, unix.Errno(0))
	}
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), toyIoctl+1, 0)
	check("another ioctl", e, unix.ENOTTY)
	return 0
}

func TestDevice(t *testing.T) {
	r := launch(t, newToy(t), "device")
	if code, out := r.wait(t); code != 0 || strings.TrimSpace(out) != "" {
		t.Errorf("exit code %d, output %q", code, out)
	}
}

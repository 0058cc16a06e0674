//go:build linux && (amd64 || arm64)

package notify

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/emu/guest"
)

// The test binary plays three parts: the tests, a supervisor with a toy device, and programs under it.
func TestMain(m *testing.M) {
	Shim()
	switch os.Getenv("NOTIFY_TEST") {
	case "supervisor":
		os.Exit(supervisor())
	case "program":
		os.Exit(program(os.Args[1]))
	}
	os.Exit(m.Run())
}

const (
	fakePath = "/dev/toy"
	toyIoctl = 0xc0181b01
	winLo    = 700
	winHi    = 720
)

// supervisor has one device, /dev/toy: a file whose ioctl counts, whose write answers its length, whose fstat says a character device.
func supervisor() int {
	f, err := guest.NewFile("toy", 1<<20)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 99
	}
	count := int64(0)
	s, err := Start(Config{
		Argv: os.Args[1:],
		Env:  append(os.Environ(), "NOTIFY_TEST=program"),
		Filter: Filter{
			Window: [2]uint32{winLo, winHi}, Ioctls: []uint32{toyIoctl}, DenyNetlink: []uint32{unix.NETLINK_RDMA},
		},
		Workers: 1,
		Handle: func(c *Call) {
			switch c.Op {
			case OpOpen:
				p, err := c.PathString()
				if err != nil || p != fakePath {
					c.Continue()
					return
				}
				g, err := f.Open()
				if err != nil {
					c.Errno(unix.EIO)
					return
				}
				c.Open(int(g.Fd()), c.Flags&unix.O_CLOEXEC != 0)
				g.Close()
			case OpIoctl:
				if c.Buf == 0xdead {
					panic("a handler's mistake")
				}
				count++
				c.Return(count)
			case OpWrite:
				c.Return(int64(c.Size) * 2)
			case OpFstat:
				b := make([]byte, 144)
				if c.Mem().Read(c.Buf, b[:1]) != nil {
					c.Errno(unix.EFAULT)
					return
				}
				c.Errno(unix.ENODEV) // recognisable
			case OpMmap:
				c.Errno(unix.ENXIO)
			default:
				c.Continue()
			}
		},
		OnPanic: func(any, []byte) {},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	s.Forward()
	return s.Wait()
}

// program does what its name says under the supervisor and tells by its exit code.
func program(what string) int {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			fmt.Fprintf(os.Stderr, format+"\n", args...)
			os.Exit(1)
		}
	}
	ioctl := func(fd int, req, arg uintptr) (uintptr, unix.Errno) {
		n, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), req, arg)
		return n, e
	}
	switch what {
	case "device":
		fd, err := unix.Open(fakePath, unix.O_RDWR|unix.O_CLOEXEC, 0)
		check(err == nil && fd >= winLo && fd < winHi, "open: %d, %v", fd, err)
		n, err := unix.Write(fd, []byte("abc"))
		check(n == 6 && err == nil, "write: %d, %v", n, err)
		var st unix.Stat_t
		check(unix.Fstat(fd, &st) == unix.ENODEV, "fstat is not trapped")
		_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
		check(err == unix.ENXIO, "mmap: %v", err)
		a, e := ioctl(fd, toyIoctl, 0)
		check(a == 1 && e == 0, "ioctl: %d, %v", a, e)
		_, e = ioctl(fd, toyIoctl+1, 0)
		check(e == unix.ENOTTY, "another ioctl: %v", e)
		_, e = ioctl(fd, toyIoctl, 0xdead)
		check(e == unix.EIO, "a handler that panics: %v", e)
		_, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_RDMA)
		check(err == unix.EPROTONOSUPPORT, "netlink: %v", err)
		s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
		check(err == nil && s >= 0, "another netlink: %v", err)
		check(os.WriteFile(os.TempDir()+"/notify-test", nil, 0o600) == nil, "a native file")
		_ = os.Remove(os.TempDir() + "/notify-test")
	case "signals":
		// Each call is carried out exactly once, whatever interrupts it.
		fd, err := unix.Open(fakePath, unix.O_RDWR, 0)
		check(err == nil, "open: %v", err)
		stop := make(chan struct{})
		for range 2 {
			go func() {
				for {
					select {
					case <-stop:
						return
					default:
						_ = unix.Kill(os.Getpid(), unix.SIGURG)
						time.Sleep(100 * time.Microsecond)
					}
				}
			}()
		}
		const calls = 2000
		var last uintptr
		for range calls {
			n, e := ioctl(fd, toyIoctl, 0)
			check(e == 0, "ioctl: %v", e)
			last = n
		}
		close(stop)
		check(last == calls, "%d calls were carried out as %d", calls, last)
	case "exit3":
		return 3
	case "segv":
		_ = unix.Kill(os.Getpid(), unix.SIGSEGV)
		time.Sleep(time.Second)
	case "killed":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		time.Sleep(time.Second)
	case "orphans":
		for range 3 {
			cmd := exec.Command("/bin/sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000")
			check(cmd.Start() == nil, "start")
		}
		time.Sleep(50 * time.Millisecond)
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Minute)
	case "nested":
		cmd := exec.Command("/proc/self/exe", "exit3")
		cmd.Env = append(os.Environ(), "NOTIFY_TEST=supervisor")
		out, _ := cmd.CombinedOutput()
		check(cmd.ProcessState.ExitCode() == 98 && strings.Contains(string(out), "already under a seccomp listener"), "a supervisor inside: %s", out)
	case "children":
		cmd := exec.Command("/bin/sh", "-c", "exec /proc/self/exe device") // the shell is not this program
		_ = cmd
		self, err := os.Executable()
		check(err == nil, "executable: %v", err)
		out, err := exec.Command(self, "device").CombinedOutput()
		check(err == nil, "in a child: %v %s", err, out)
	}
	return 0
}

func run(t *testing.T, cred *syscall.Credential, what string) (int, string, *exec.Cmd) {
	t.Helper()
	if err := Probe(); err != nil {
		t.Skip(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, self, what)
	cmd.Env = append(os.Environ(), "NOTIFY_TEST=supervisor")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	done := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer done.Stop()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out), cmd
}

func TestPrograms(t *testing.T) {
	for _, c := range []struct {
		what string
		code int
	}{{"device", 0}, {"children", 0}, {"signals", 0}, {"exit3", 3}, {"segv", 139}, {"killed", 137}, {"nested", 0}} {
		t.Run(c.what, func(t *testing.T) {
			if code, out, _ := run(t, nil, c.what); code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, out)
			}
		})
	}
}

func TestNobody(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become nobody")
	}
	// The binary of the test is in a folder of root's.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "notify")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/test", b, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir+"/test", dir+"/test", "device")
	cmd.Dir = "/"
	cmd.Env = []string{"NOTIFY_TEST=supervisor", "PATH=/usr/bin:/bin", "TMPDIR=/tmp"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestOrphansEnd(t *testing.T) {
	code, out, _ := run(t, nil, "orphans")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	b, err := exec.Command("pgrep", "-f", "sleep 1000").Output()
	if err == nil {
		t.Errorf("left over: %s", b)
	}
}

func TestSignalForwarded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, self, "sleep")
	cmd.Env = append(os.Environ(), "NOTIFY_TEST=supervisor")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	if _, err := out.Read(buf); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 && code != 2 {
		t.Errorf("exit code %d", code)
	}
}

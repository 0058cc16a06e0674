package uverbs

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// osThread runs functions on one OS thread, which ends with the channel.
type osThread chan func()

func newOSThread() osThread {
	c := make(osThread)
	ready := make(chan bool)
	go func() {
		runtime.LockOSThread() // for good: it may have changed
		close(ready)
		for f := range c {
			f()
		}
	}()
	<-ready
	return c
}

func (c osThread) do(f func()) {
	done := make(chan bool)
	c <- func() { f(); close(done) }
	<-done
}

func (c osThread) open(t *testing.T, file string) (fd int) {
	t.Helper()
	c.do(func() {
		var err error
		if fd, err = unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			t.Errorf("open %s: %v", file, err)
		}
	})
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func (c osThread) refused(fd int) (r bool) {
	c.do(func() { r = Refused(fd) })
	return r
}

const none = ^uintptr(0) // an ID that stays

// groups and caps are in memory that does not move.
var (
	groups    = [1]uint32{1}
	capHeader = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	capData   [2]unix.CapUserData // no capabilities
)

// ofThread are the calls that change the credentials of the calling thread, and some that do not.
var ofThread = []struct {
	name    string
	nr      uintptr
	args    [3]uintptr
	changes bool
}{
	{"setuid", unix.SYS_SETUID, [3]uintptr{1}, true},
	{"setgid", unix.SYS_SETGID, [3]uintptr{1}, true},
	{"setreuid", unix.SYS_SETREUID, [3]uintptr{none, 1}, true},
	{"setregid", unix.SYS_SETREGID, [3]uintptr{none, 1}, true},
	{"setresuid", unix.SYS_SETRESUID, [3]uintptr{none, none, 1}, true},
	{"setresgid", unix.SYS_SETRESGID, [3]uintptr{none, none, 1}, true},
	{"setfsuid", unix.SYS_SETFSUID, [3]uintptr{1}, true},
	{"setfsgid", unix.SYS_SETFSGID, [3]uintptr{1}, true},
	{"setgroups", unix.SYS_SETGROUPS, [3]uintptr{1, uintptr(unsafe.Pointer(&groups))}, true},
	{"capset", unix.SYS_CAPSET, [3]uintptr{uintptr(unsafe.Pointer(&capHeader)), uintptr(unsafe.Pointer(&capData))},
		true},
	{"getuid", unix.SYS_GETUID, [3]uintptr{}, false},
	{"setpriority", unix.SYS_SETPRIORITY, [3]uintptr{unix.PRIO_PROCESS, 0, 10}, false},
	{"prctl no_new_privs", unix.SYS_PRCTL, [3]uintptr{unix.PR_SET_NO_NEW_PRIVS, 1}, false},
}

// TestRXE_Refused asks which threads may write to the files of rdma_cm and of a device: those with the credentials of
// the opener, whatever these say.
func TestRXE_Refused(t *testing.T) {
	testutil.NeedRXE(t)
	if !testutil.Alone(t) {
		return
	}
	files := []string{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"}
	pairs := make([][2]osThread, len(files)*len(ofThread))
	for i := range pairs { // before the first change
		pairs[i] = [2]osThread{newOSThread(), newOSThread()}
	}
	for _, file := range files {
		for i, call := range ofThread {
			opener, other := pairs[0][0], pairs[0][1]
			pairs = pairs[1:]
			fd := opener.open(t, file)
			change := func(c osThread) {
				t.Helper()
				c.do(func() {
					if _, _, e := syscall.RawSyscall(call.nr, call.args[0], call.args[1], call.args[2]); e != 0 {
						t.Errorf("%s: %v", call.name, e)
					}
				})
			}
			want := func(when string, c osThread, fd int, refused bool) {
				t.Helper()
				if got := c.refused(fd); got != refused {
					t.Errorf("%s, %s, %s: refused is %t", file, call.name, when, got)
				}
			}
			want("the opener", opener, fd, false)
			want("another thread", other, fd, false)
			change(other)
			want("the opener, after another thread changed", opener, fd, false)
			want("another thread that changed", other, fd, call.changes)
			change(opener)
			want("the opener that changed", opener, fd, call.changes)
			again := opener.open(t, file)
			want("the opener of another file", opener, again, false)
			want("another thread, another file", other, again, call.changes)
			if i == 0 {
				inherits(t, file, again)
			}
			late := newOSThread()
			own := late.open(t, file)
			want("a late thread that opened", late, own, false)
			if call.changes {
				want("the opener that changed, a late thread's file", opener, own, true)
			}
			for _, c := range []osThread{opener, other, late} {
				close(c)
			}
		}
	}
}

// inherits starts a process with a file that this one has opened. It may not write to it.
func inherits(t *testing.T, file string, fd int) {
	t.Helper()
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(dup), file)
	defer f.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), inheritedEnv+"=1")
	cmd.ExtraFiles = []*os.File{f}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "refused: true") {
		t.Errorf("%s, inherited: %v\n%s", file, err, out)
	}
}

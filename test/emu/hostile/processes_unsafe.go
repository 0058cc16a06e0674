//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/ibv"
)

// newSpeaker opens the device and returns a speaker for it.
func newSpeaker(stream int) (*speaker, error) {
	good, end, ro, err := memory()
	if err != nil {
		return nil, err
	}
	fd, err := opened(true)
	if err != nil {
		return nil, err
	}
	o := newObjects()
	return &speaker{objects: o, Rand: rand.New(rand.NewPCG(*seed, uint64(stream))), fd: fd, good: good, end: end,
		readonly: ro}, o.pages(fd)
}

// closes lets threads use descriptors that others close and open again, some with a context and with work in progress.
func closes() error {
	low, err := opened(false) // where theirs will be
	if err != nil {
		return err
	}
	unix.Close(low)
	var wg sync.WaitGroup
	end := time.Now().Add(500 * time.Millisecond)
	for i := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(*seed, uint64(i)))
			var b [24]byte
			binary.NativeEndian.PutUint16(b[:], 24)
			s := speaker{objects: newObjects(), Rand: r}
			for time.Now().Before(end) {
				switch i {
				case 0, 1:
					if fd, events, err := openedBoth(i == 0); err == nil {
						time.Sleep(time.Duration(r.IntN(300)) * time.Microsecond)
						unix.Close(fd)
						unix.Close(events)
					}
				case 2: // a descriptor changes hands while it is used
					a, ea, err := openedBoth(true)
					b, eb, err2 := openedBoth(true)
					if err == nil && err2 == nil {
						_ = unix.Dup3(a, b, unix.O_CLOEXEC)
					}
					for _, fd := range []int{a, b, ea, eb} {
						unix.Close(fd)
					}
				case 3:
					for fd := low; fd < low+4; fd++ {
						_ = syscall3(unix.SYS_IOCTL, uintptr(fd), verbsIoctl, uintptr(unsafe.Pointer(&b[0])))
						_ = syscall3(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), 24)
					}
				default:
					s.fd = low + r.IntN(6)
					s.say()
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// signals interrupts commands every few hundred microseconds: none may be done twice or not at all.
func signals() error {
	s, err := newSpeaker(0)
	if err != nil {
		return err
	}
	defer unix.Close(s.fd)
	const most = 2000
	stop := make(chan struct{})
	var wg sync.WaitGroup
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Microsecond):
				_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG) // Go's runtime takes it for a request to yield
			}
		}
	})
	for range most {
		s.command(3)
	}
	close(stop)
	wg.Wait()
	hs, e := toldHandles(s.fd, pd)
	if e != 0 || len(hs) != most || len(s.live[pd]) != most {
		return fmt.Errorf("%d domains (%v) and %d answers of %d commands", len(hs), e, len(s.live[pd]), most)
	}
	return nil
}

// forks starts processes that open the device and end in various ways: by themselves, by a fault, killed during a
// command, and with inherited descriptors.
func forks() error {
	s, err := newSpeaker(0)
	if err != nil {
		return err
	}
	inherited := os.NewFile(uintptr(s.fd), "context")
	defer inherited.Close()
	if err := bomb(s.fd, 100); err != nil {
		return err
	}
	modes := []string{"leak", "fault", "storm", "inherit", "dark", "storm", "hoard", "exec"}
	var wg sync.WaitGroup
	errs := make(chan error, 64)
	for i := range 48 {
		wg.Go(func() {
			mode := modes[i%len(modes)]
			c := exec.Command("/proc/self/exe")
			c.Env = append(os.Environ(), childEnv+"="+mode+" "+strconv.FormatUint(*seed+uint64(i), 10))
			c.ExtraFiles = []*os.File{inherited}
			if err := c.Start(); err != nil {
				errs <- err
				return
			}
			kill := time.AfterFunc(time.Duration(5+i)*2*time.Millisecond, func() {
				if mode == "storm" || mode == "inherit" || mode == "hoard" {
					_ = c.Process.Kill()
				}
			})
			var exit *exec.ExitError
			if err := c.Wait(); err != nil && mode != "fault" && (!errors.As(err, &exit) || exit.Exited()) {
				errs <- fmt.Errorf("%s: %w", mode, err)
			}
			kill.Stop()
		})
	}
	for range 200 {
		s.say()
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// bomb forks n times without exec. Each child opens the device, sends commands to it and to its parent's file, and
// exits or kills itself.
func bomb(fd, n int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	path := append([]byte(device), 0)
	hdr := make([]byte, 24)
	binary.NativeEndian.PutUint16(hdr, 24)
	alloc := words(uint32(3), uint16(4), uint16(1), where(hdr))
	all := ^uint64(0)
	var old uint64
	// The child has one thread, and none of the runtime's: it must not be interrupted, and only makes system calls.
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)),
		uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	var pids []int
	for i := range n {
		pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if e == 0 && pid == 0 {
			own, _, _ := unix.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(unsafe.Pointer(&path[0])),
				unix.O_RDWR, 0, 0, 0)
			for range 8 {
				_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&alloc[0])),
					uintptr(len(alloc)))
				_, _, _ = unix.RawSyscall(unix.SYS_IOCTL, own, verbsIoctl, uintptr(unsafe.Pointer(&hdr[0])))
			}
			if i%2 == 0 {
				self, _, _ := unix.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
				_, _, _ = unix.RawSyscall(unix.SYS_KILL, self, uintptr(unix.SIGKILL), 0)
			}
			for {
				_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
		if e == 0 {
			pids = append(pids, int(pid))
		}
	}
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
	for _, pid := range pids {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != nil && err != unix.EINTR {
			return fmt.Errorf("wait4: %w", err)
		}
	}
	if len(pids) != n {
		return fmt.Errorf("forked %d times of %d", len(pids), n)
	}
	return nil
}

// child is the program that forks starts.
func child(mode string) error {
	switch mode {
	case "leak", "fault":
		dev, err := ibv.Open("")
		if err != nil {
			return err
		}
		pd, err := dev.AllocPD()
		if err != nil {
			return err
		}
		if _, err := pd.AllocMR(1<<16, ibv.LocalWrite, nil); err != nil {
			return err
		}
		if mode == "fault" {
			_ = unix.Kill(os.Getpid(), unix.SIGSEGV)
			time.Sleep(time.Second)
		}
	case "storm":
		s, err := newSpeaker(1)
		if err != nil {
			return err
		}
		for {
			s.say()
		}
	case "inherit": // the parent's file, at a low number, and its memory elsewhere
		good, end, ro, err := memory()
		if err != nil {
			return err
		}
		s := speaker{objects: newObjects(), Rand: rnd, fd: 3, good: good, end: end, readonly: ro}
		for {
			_, _ = toldHandles(s.fd, kind(s.IntN(16)))
			e, _ := call(s.fd, uint16(s.IntN(12)), uint16(s.IntN(2)), attribute(0, 0, uint64(s.Uint32N(300))))
			s.errs[e]++
		}
	case "dark": // nobody may look into its memory
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return err
		}
		fd, err := opened(true)
		if err == nil {
			_, _ = toldHandles(fd, pd)
		}
	case "hoard":
		for {
			if _, err := opened(true); err != nil {
				time.Sleep(time.Millisecond)
			}
		}
	case "exec": // with a file that stays open and one that does not
		fd, err := opened(true)
		if err != nil {
			return err
		}
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 0); err != nil {
			return err
		}
		return unix.Exec("/bin/true", []string{"true"}, os.Environ())
	}
	return nil
}

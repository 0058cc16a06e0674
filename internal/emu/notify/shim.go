//go:build linux && (amd64 || arm64)

package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const shimName = "emu-shim"

func (f *Filter) encode() string {
	b, _ := json.Marshal(f)
	return string(b)
}

// Shim returns at once, unless this process is to become the program: then it installs the filter, sends the listener to the supervisor and executes the
// program. It comes first in main.
func Shim() {
	if len(os.Args) < 4 || os.Args[0] != shimName {
		return
	}
	runtime.LockOSThread() // the filter is the thread's, and execve leaves only this one
	if err := shim(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		_ = unix.Sendmsg(shimSocket, []byte(err.Error()), nil, nil, 0)
		fmt.Fprintln(os.Stderr, "emu:", err)
	}
	os.Exit(127)
}

// shimSocket is where Start puts the way to the supervisor.
const shimSocket = 3

func shim(file, high string, argv []string) error {
	var f Filter
	if err := json.Unmarshal([]byte(os.Getenv(shimEnv)), &f); err != nil {
		return err
	}
	need, err := strconv.ParseUint(high, 10, 32)
	if err != nil {
		return err
	}
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, shimEnv+"=") })
	unix.CloseOnExec(shimSocket)
	// Descriptors of the window must be below the limit. Setrlimit of package syscall keeps the Go runtime from putting the old one back.
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return err
	}
	if lim.Max < need {
		return fmt.Errorf("RLIMIT_NOFILE allows %d descriptors, the emulator's are numbered up to %d: raise the hard limit (ulimit -Hn)", lim.Max, need-1)
	}
	lim.Cur = max(need, min(lim.Max, 1024))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return err
	}
	listener, err := install(&f)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(shimSocket, []byte{0}, unix.UnixRights(listener), nil, 0); err != nil {
		return os.NewSyscallError("sendmsg", err)
	}
	return fmt.Errorf("%s: %w", file, unix.Exec(file, argv, env))
}

// Flags of seccomp(2). C: SECCOMP_FILTER_FLAG_*.
const (
	setModeFilter    = 1
	flagNewListener  = 1 << 3
	flagWaitKillable = 1 << 5
)

// install sets the filter on this thread and returns the listener.
func install(f *Filter) (int, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, os.NewSyscallError("prctl", err)
	}
	code := f.program()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	// Without WAIT_KILLABLE_RECV a signal makes the program repeat a call that was already carried out.
	fd, _, e := unix.RawSyscall(unix.SYS_SECCOMP, setModeFilter, flagNewListener|flagWaitKillable, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return -1, explain(e)
	}
	return int(fd), nil
}

func explain(e unix.Errno) error {
	switch e {
	case unix.EBUSY:
		return errors.New("this process is already under a seccomp listener: an emulator does not run inside another, nor inside a container runtime that has one")
	case unix.EINVAL:
		return errors.New("the kernel lacks SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV: Linux 5.19 or later is needed")
	case unix.ENOSYS, unix.EPERM:
		return fmt.Errorf("seccomp(2) is not allowed here (%v): run the container with a seccomp profile that has it", e)
	}
	return os.NewSyscallError("seccomp", e)
}

//go:build linux

package notify

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ProbeError is something that the machine lacks.
type ProbeError struct {
	Missing string // what is missing
	Hint    string // the way out
	Err     error
}

func (e *ProbeError) Error() string {
	return fmt.Sprintf("cannot supervise programs here: %s: %v (%s)", e.Missing, e.Err, e.Hint)
}

func (e *ProbeError) Unwrap() error { return e.Err }

// Probe tries everything that Start needs and runs nothing. Its error is a *ProbeError where the machine is at fault.
func Probe() error {
	_, err := start(Config{Argv: []string{"/proc/self/exe"}}, nil, true)
	return err
}

// notifications checks that the kernel's notifications are as we know them.
func notifications() error {
	n, err := kernelSize()
	switch {
	case err != nil:
		return probeError("seccomp", err.(unix.Errno))
	case n > len(bytesOf(&notification{})):
		return &ProbeError{Missing: fmt.Sprintf("room for a notification of %d bytes", n),
			Hint: "this emulator is older than the kernel", Err: unix.E2BIG}
	}
	return nil
}

// probeError explains why a step of the launch failed, nil if the machine has nothing to do with it.
func probeError(step string, e unix.Errno) error {
	p := &ProbeError{Err: e}
	switch {
	case step == "no_new_privs":
		p.Missing, p.Hint = "prctl(PR_SET_NO_NEW_PRIVS)", "the container or sandbox has to allow it"
	case step == "seccomp" && e == unix.EBUSY:
		p.Missing, p.Hint = "a free place for a listener: this process runs under another one",
			"do not run the emulator in the emulator, nor in a container whose runtime listens"
	case step == "seccomp" && e == unix.EINVAL:
		p.Missing, p.Hint = "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
			"it takes Linux 5.19 or later with CONFIG_SECCOMP_FILTER; this is "+kernel()
	case step == "seccomp":
		p.Missing, p.Hint = "seccomp(SECCOMP_SET_MODE_FILTER)", "the container has to allow it: docker run "+
			"--security-opt seccomp=unconfined"
	case step == "process_vm_readv":
		p.Missing, p.Hint = "process_vm_readv on a descendant", "the container has to allow it: docker run "+
			"--security-opt seccomp=unconfined"
		if b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil {
			if scope := strings.TrimSpace(string(b)); scope > "1" {
				p.Hint = "kernel.yama.ptrace_scope is " + scope + ": sysctl kernel.yama.ptrace_scope=1"
			}
		}
	default:
		return nil
	}
	return p
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}

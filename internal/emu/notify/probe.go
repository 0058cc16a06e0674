//go:build linux && (amd64 || arm64)

package notify

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ProbeError says what this machine lacks.
type ProbeError struct{ Missing string }

func (e *ProbeError) Error() string { return "the emulator cannot run here: " + e.Missing }

// Probe looks for what can be seen without running a program; Start finds the rest.
func Probe() error {
	if b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err == nil {
		if s := strings.TrimSpace(string(b)); s == "2" && os.Geteuid() != 0 || s == "3" {
			return &ProbeError{"kernel.yama.ptrace_scope is " + s + ": the memory of a child cannot be read; 0 or 1 is needed"}
		}
	}
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	b := []byte{1}
	local, remote := []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{}
	if _, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0); err == unix.ENOSYS || err == unix.EPERM {
		return &ProbeError{"process_vm_readv(2) is not allowed (" + err.Error() + "): run the container with a seccomp profile that has it"}
	}
	return nil
}

//go:build linux

package notify

import "golang.org/x/sys/unix"

type registers = unix.PtraceRegs

func getRegs(tid int) (*registers, error) {
	r := new(registers)
	return r, unix.PtraceGetRegs(tid, r)
}

func setRegs(tid int, r *registers) error { return unix.PtraceSetRegs(tid, r) }

// setCall makes the thread, which has just made a system call, make another.
func setCall(r *registers, nr, arg uint64) {
	r.Rip -= 2 // the length of SYSCALL
	r.Rax, r.Rdi = nr, arg
	r.Orig_rax = ^uint64(0) // there is nothing to begin again
}

func resultOf(r *registers) int64 { return int64(r.Rax) }

func setResult(r *registers, v int64) {
	r.Rax = uint64(v)
	r.Orig_rax = ^uint64(0)
}

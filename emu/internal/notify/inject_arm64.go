//go:build linux

package notify

import "golang.org/x/sys/unix"

type registers = unix.PtraceRegsArm64

const ntPRStatus = 1

func getRegs(tid int) (*registers, error) {
	r := new(registers)
	return r, unix.PtraceGetRegSetArm64(tid, ntPRStatus, r)
}

func setRegs(tid int, r *registers) error { return unix.PtraceSetRegSetArm64(tid, ntPRStatus, r) }

// setCall makes the thread, which has just made a system call, make another.
func setCall(r *registers, nr, arg uint64) {
	r.Pc -= 4 // the length of SVC
	r.Regs[8], r.Regs[0] = nr, arg
}

func resultOf(r *registers) int64 { return int64(r.Regs[0]) }

func setResult(r *registers, v int64) { r.Regs[0] = uint64(v) }

package abi

import "syscall"

// Errno returns the errno of a number. ENOTSUPP is the kernel's own, and no C library knows it: drivers and rdma_cm let
// it through.
func Errno(n int) syscall.Errno {
	const notsupp = 524
	if n == notsupp {
		return syscall.EOPNOTSUPP
	}
	return syscall.Errno(n)
}

//go:build linux

package notify

import "golang.org/x/sys/unix"

const (
	auditArch     = unix.AUDIT_ARCH_AARCH64
	sysNewfstatat = unix.SYS_FSTATAT
)

var archCalls []sysCall

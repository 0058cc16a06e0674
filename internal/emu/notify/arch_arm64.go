//go:build linux

package notify

import "golang.org/x/sys/unix"

const auditArch = 0xc00000b7 // AUDIT_ARCH_AARCH64

const x32 = 0

var pathCalls = map[uint32]Op{}

func decodePath(*Call, uint32) {}

const sysFstatat = unix.SYS_FSTATAT

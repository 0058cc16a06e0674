//go:build linux

package notify

import "golang.org/x/sys/unix"

type prog []unix.SockFilter

// Offsets in struct seccomp_data. The low half of an argument is enough: descriptors, flags and ioctl requests have 32
// bits.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

func load(off uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
}
func arg(i int) unix.SockFilter { return load(offArgs + 8*uint32(i)) }
func ret(v uint32) prog         { return prog{{Code: unix.BPF_RET | unix.BPF_K, K: v}} }
func jump(op uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

// when appends: if the accumulator compares so with k, do then, which returns.
func (p prog) when(op uint16, k uint32, then prog) prog {
	return append(append(p, jump(op, k, 0, uint8(len(then)))), then...)
}

var (
	allow = ret(unix.SECCOMP_RET_ALLOW)
	trap  = ret(unix.SECCOMP_RET_USER_NOTIF)
	nosys = ret(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
)

// atFDCWD is AT_FDCWD as the low half of an argument.
const atFDCWD = 0xffffffff + 1 + unix.AT_FDCWD

// spec is what the filter depends on.
type spec struct {
	Ioctl   []uint32
	Trapped []int
	Scratch string
}

// body is the part of the filter for one system call. It returns on all paths.
type body func(*spec) prog

func always(*spec) prog { return trap }

// noCommand is the size of a write that cannot be a command: the header of one is as long. Counters of eventfds and
// bytes that wake a loop are as short, and they are the writes that come often.
const noCommand = 8

// commands traps the writes that may be a command to a device, on any descriptor: a device can be passed on, and become
// whatever number.
func commands(*spec) prog {
	return append(prog{arg(2)}.when(unix.BPF_JGT, noCommand, trap), allow...)
}

func ioctls(s *spec) prog {
	p := prog{arg(1)}
	for _, c := range s.Ioctl {
		p = p.when(unix.BPF_JEQ, c, trap)
	}
	return append(p, allow...)
}

func sockets(s *spec) prog {
	p := append(prog{arg(0), jump(unix.BPF_JEQ, unix.AF_NETLINK, 1, 0), allow[0]}, arg(2))
	for _, n := range s.Trapped {
		p = p.when(unix.BPF_JEQ, uint32(n), trap)
	}
	return append(p, allow...)
}

// netlinkSends traps what may be sent to the kernel's side of netlink: a netlink address is shorter than any other that
// there is.
func netlinkSends(s *spec) prog {
	if len(s.Trapped) == 0 {
		return allow
	}
	return append(prog{arg(5)}.when(unix.BPF_JEQ, unix.SizeofSockaddrNetlink, trap), allow...)
}

func mappings(*spec) prog {
	return prog{arg(3), jump(unix.BPF_JSET, unix.MAP_ANONYMOUS, 1, 0), trap[0], allow[0]}
}

// x32Bit marks calls of the third ABI of amd64. The kernel knows no call of another architecture by such a number.
const x32Bit = 0x40000000

// filter traps the calls of the table as s says. Programs of a second architecture (32 bits) find that they have no
// system calls.
func filter(s *spec) prog {
	p := prog{load(offArch), jump(unix.BPF_JEQ, auditArch, 1, 0), nosys[0], load(offNr)}
	p = p.when(unix.BPF_JGE, x32Bit, nosys)
	for i := range calls {
		p = p.when(unix.BPF_JEQ, calls[i].nr, calls[i].body(s))
	}
	return append(p, allow...)
}

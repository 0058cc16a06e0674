//go:build linux

package notify

import (
	"os"
	"strconv"
)

// Config says what to run and which system calls to trap.
type Config struct {
	Argv                  []string
	Env                   []string // nil: the supervisor's
	Dir                   string
	Scratch               string   // a folder that goes with the programs if the supervisor is killed
	Stdin, Stdout, Stderr *os.File // nil: the supervisor's; not used with Net
	Net                   *Net     // where to start it; nil: in the supervisor's network. It is used up

	// IoctlCmds are the ioctl requests that are trapped, on any descriptor.
	IoctlCmds []uint32
	// DenyNetlink are the netlink protocols that do not exist.
	DenyNetlink []int
	// TrapNetlink are those that the handler makes: their socket, and what is sent to the kernel.
	TrapNetlink []int
	// Unmap traps what takes mappings away, too: munmap, mremap, madvise(MADV_DONTNEED and its like), mmap(MAP_FIXED)
	// of memory.
	Unmap bool

	// Forward is signals to the supervisor that are passed on to the program. Those of the terminal's keys have reached
	// it already.
	Forward []os.Signal
	// OnStart gets the program's process before it has made a trapped call.
	OnStart func(pid int)
	// OnPanic is called for a handler's panic. The call was answered EIO.
	OnPanic func(c *Call, v any, stack []byte)
}

// Handler answers a call, exactly once: before it returns, or later from another goroutine. Calls are handled one after
// the other, but those that take long let others pass: handlers do run at the same time.
type Handler func(c *Call)

// Op is what a trapped call wants, whichever of the kernel's many calls for it was used.
type Op uint8

// The operations and their arguments, as Call.Args has them.
const (
	OpOpen     Op = 1  // dirfd, path, flags, mode, openat2's resolve
	OpStat     Op = 2  // dirfd, path, flags; answer with ReturnStat
	OpFstat    Op = 3  // fd; answer with ReturnStat
	OpAccess   Op = 4  // dirfd, path, mode, flags
	OpReadlink Op = 5  // dirfd, path, buffer, size
	OpIoctl    Op = 6  // fd, request, argument
	OpWrite    Op = 7  // fd, buffer, size; not of up to 8 bytes, which are no command of any device
	OpMmap     Op = 8  // address, length, prot, flags, fd, offset: of a file
	OpUnmap    Op = 9  // address, length: the memory there goes away
	OpRemap    Op = 10 // old address, old length, new length, flags, new address
	OpXattr    Op = 11 // dirfd, path: the reading of an attribute
	OpExit     Op = 12 // status: the process ends by itself
	OpChdir    Op = 13 // dirfd, path; answer with Chdir
	OpGetcwd   Op = 14 // buffer, size
	OpSocket   Op = 15 // domain, type, protocol: of a netlink socket
	OpSendto   Op = 16 // fd, buffer, size, flags, address, its size: which is that of a netlink address
	OpCreds    Op = 17 // the thread changes its credentials
)

var opNames = [...]string{"", "open", "stat", "fstat", "access", "readlink", "ioctl", "write", "mmap", "unmap", "remap",
	"xattr", "exit", "chdir", "getcwd", "socket", "sendto", "creds"}

func (o Op) String() string {
	if o == 0 || int(o) >= len(opNames) {
		return "Op(" + strconv.Itoa(int(o)) + ")"
	}
	return opNames[o]
}

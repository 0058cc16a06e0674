//go:build linux

package notify

import "os"

// Config says what to run and which system calls to trap.
type Config struct {
	Argv                  []string
	Env                   []string // nil: the supervisor's
	Scratch               string   // a folder that goes with the programs if the supervisor is killed
	Stdin, Stdout, Stderr *os.File // nil: the supervisor's; not used with Net
	Net                   *Net     // where to start it; nil: in the supervisor's network. It is used up

	// IoctlCmds are the ioctl requests that are trapped, on any descriptor.
	IoctlCmds []uint32
	// TrapNetlink are the netlink protocols that the handler makes: their socket, and what is sent to the kernel.
	TrapNetlink []int

	// Forward is signals to the supervisor that are passed on to the program. Those of the terminal's keys have reached
	// it already.
	Forward []os.Signal
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
	OpXattr    Op = 9  // dirfd, path: the reading of an attribute
	OpExit     Op = 10 // status: the process ends by itself
	OpChdir    Op = 11 // dirfd, path; answer with Chdir
	OpGetcwd   Op = 12 // buffer, size
	OpSocket   Op = 13 // domain, type, protocol: of a netlink socket
	OpSendto   Op = 14 // fd, buffer, size, flags, address, its size: which is that of a netlink address
	OpCreds    Op = 15 // the thread changes its credentials
)

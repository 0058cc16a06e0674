package ibv

import (
	"os"
	"syscall"
	"time"
)

// pollFD lets Go's netpoller wait for a descriptor that a C library owns: it
// waits on a duplicate, so that the library may close its own at any time.
// A waiting goroutine costs no thread.
type pollFD struct {
	file *os.File
	raw  syscall.RawConn
}

func newPollFD(fd int, name string) (*pollFD, error) {
	dup, err := dupCloexec(fd)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	// O_NONBLOCK belongs to the open file, which the library's descriptor
	// shares: its reads now give EAGAIN and no longer block a thread.
	if err := syscall.SetNonblock(dup, true); err != nil {
		_ = syscall.Close(dup)
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(dup), name)
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &pollFD{file: f, raw: raw}, nil
}

// wait calls try, and again each time that the descriptor may have become
// readable, until it returns true, the file is closed or the deadline passes.
// The netpoller is edge-triggered: try has to drain what is there.
func (p *pollFD) wait(try func() bool) error {
	return p.raw.Read(func(uintptr) bool { return try() })
}

func (p *pollFD) interrupt()   { _ = p.file.SetReadDeadline(time.Unix(1, 0)) }
func (p *pollFD) uninterrupt() { _ = p.file.SetReadDeadline(time.Time{}) }
func (p *pollFD) close()       { _ = p.file.Close() }

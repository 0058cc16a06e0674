// Package pollfd lets Go's netpoller wait for descriptors that C libraries own.
package pollfd

import (
	"os"
	"syscall"
	"time"
)

// FD is a descriptor to wait for. A waiting goroutine costs no thread.
type FD struct {
	file *os.File
	raw  syscall.RawConn
}

// New makes fd non-blocking and returns a duplicate of it to wait for: the library may close its own at any time.
func New(fd int, name string) (*FD, error) {
	dup, err := Dup(fd)
	if err != nil {
		return nil, err
	}
	return Own(dup, name)
}

// Own makes fd non-blocking and takes it over: Close closes it, as Own does if it fails.
func Own(fd int, name string) (*FD, error) {
	if err := prepare(fd); err != nil {
		closeFD(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	raw, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &FD{file: f, raw: raw}, nil
}

// Wait calls try, and again each time that the descriptor may have become readable, until it
// returns true, the FD is closed or Interrupt is called. The netpoller is edge-triggered: try must
// read all that is available.
func (p *FD) Wait(try func() bool) error {
	return p.WaitFD(func(uintptr) bool { return try() })
}

// WaitFD is Wait for a function that reads the descriptor itself.
func (p *FD) WaitFD(try func(fd uintptr) bool) error { return p.raw.Read(try) }

// Interrupt makes Wait return, now and until Uninterrupt.
func (p *FD) Interrupt() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) }

// Uninterrupt undoes Interrupt.
func (p *FD) Uninterrupt() { _ = p.file.SetReadDeadline(time.Time{}) }

// Close makes current and future calls of Wait return, and closes the descriptor; of New, it is the duplicate.
func (p *FD) Close() { _ = p.file.Close() }

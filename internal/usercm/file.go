package usercm

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/sysfs"
)

// File is an open file of rdma_cm. It is safe for concurrent use.
type File struct {
	fd    int
	w     Writer
	owner *Owner

	mu     sync.RWMutex // held for reading while the descriptor is in use
	closed bool
}

// abiVersion is the one version of rdma_cm's commands. C: RDMA_USER_CM_ABI_VERSION.
const abiVersion = "4"

// Open opens rdma_cm's device file. Errors are errnos: EPERM, as librdmacm has it, if the kernel has another version of
// the commands, and ENXIO if the file is not the kernel's rdma_cm.
func Open() (*File, error) { return openIn(sysfs.DefaultRoot(), "/dev/infiniband/rdma_cm") }

func openIn(root sysfs.Root, path string) (*File, error) {
	if v, err := root.Attr("class", "misc", "rdma_cm", "abi_version"); err == nil && v != abiVersion {
		return nil, syscall.EPERM
	}
	f := &File{fd: -1}
	owner, err := Own(func() (err error) {
		f.fd, err = open(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.w, f.owner = explained(f.fd), owner
	major, minor, err := device(f.fd)
	want, unknown := root.Attr("class", "misc", "rdma_cm", "dev")
	if err == nil && unknown == nil && want != fmt.Sprintf("%d:%d", major, minor) {
		err = syscall.ENXIO
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// NewFile returns a File for what takes commands in place of the kernel.
func NewFile(fd int, w Writer) *File { return &File{fd: fd, w: w} }

// FD returns the descriptor.
func (f *File) FD() int { return f.fd }

// Do calls do, whose commands all go to the file on one thread that may write them. So all are refused, or none, and a
// caller may repeat do after control.Refused. The error is EBADF if the file is closed.
func (f *File) Do(do func(w Writer) error) error {
	return f.with(func() error { return f.owner.Do(f.fd, func() error { return do(f.w) }) })
}

// Once is Do for one command, which any thread may write if the file has no owner.
func (f *File) Once(do func(w Writer) error) error {
	if f.owner != nil {
		return f.Do(do)
	}
	return f.with(func() error { return do(f.w) })
}

func (f *File) with(do func() error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		return syscall.EBADF
	}
	return do()
}

// Close closes the file, after commands in progress.
func (f *File) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.closed = true
	closeFD(f.fd)
	f.owner.End()
}

// explained is the descriptor of a non-blocking file, whose EACCES are explained. What is refused is written again, on
// a thread that stays the same. A goroutine that is always locked to its thread makes each long system call wait for
// that thread.
type explained int

func (d explained) Write(command, _ []byte) (int, error) {
	write := writeFD
	switch Command(binary.NativeEndian.Uint32(command)) {
	case CmdGetEvent, CmdInitQPAttr, CmdQueryRoute, CmdQuery: // these only tell what the kernel has
		write = writeQuick
	}
	n, err := write(int(d), command)
	if err != syscall.EACCES {
		return n, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n, err = write(int(d), command)
	return n, explain(int(d), err)
}

// Descriptor is the descriptor of a file as a Writer.
type Descriptor int

// Write writes a command.
func (d Descriptor) Write(command, _ []byte) (int, error) { return writeFD(int(d), command) }

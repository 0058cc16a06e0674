package uverbs

import (
	"sync"
	"sync/atomic"
	"syscall"
)

// Forms remembers which forms of commands a device's kernel lacks. The zero value has not asked yet. It is safe for
// concurrent use.
type Forms struct {
	ioctl, invoke form
	noMethod      sync.Map      // *command
	best          atomic.Uint32 // a Form
}

// form notes whether the kernel has one. Once it has answered in a form, a refusal is of that command only.
type form struct{ has, lacks atomic.Bool }

func (f *form) note(absent bool) {
	if !absent {
		f.has.Store(true)
	} else if !f.has.Load() {
		f.lacks.Store(true)
	}
}

// Form is how a command is given.
type Form uint8

// The forms, best first.
const (
	ByMethod Form = iota
	ByInvoke
	ByWrite
)

// From makes f the best form that is used, where a command has it. It is for tests, of older kernels.
func (f *Forms) From(form Form) { f.best.Store(uint32(form)) }

// has reports whether a command may be given in a form.
func (f *Forms) has(c *command, form Form) bool {
	best := Form(f.best.Load())
	switch form {
	case ByMethod:
		_, lacks := f.noMethod.Load(c)
		return c.method != noMethod && !lacks && !f.ioctl.lacks.Load() &&
			(best == ByMethod || best == ByInvoke && c.number == noNumber)
	case ByInvoke:
		return c.number != noNumber && !f.ioctl.lacks.Load() && !f.invoke.lacks.Load() && best <= ByInvoke
	}
	return c.number != noNumber
}

// File is an open device file. It is safe for concurrent use, but for Close.
type File struct {
	fd      int
	driver  uint32 // C: enum rdma_driver_id
	forms   *Forms
	lent    bool
	sys     System
	explain atomic.Pointer[func(error) error]

	// Doubt notes that the kernel may have an object whose number is not known, and which ends with the file. A
	// *ReplyError of a command sets it.
	Doubt atomic.Bool
}

// System has the system calls on a file.
type System struct {
	Ioctl func(fd int, c *Command) syscall.Errno
	Write func(fd int, b []byte) (int, error)
	Map   func(fd int, off int64, n int, a Access) ([]byte, error)
}

// NewFile returns a file with system calls of the caller's, for tests. Open has those of the kernel.
func NewFile(fd int, driver uint32, forms *Forms, sys System) *File {
	return &File{fd: fd, driver: driver, forms: forms, sys: sys}
}

// Access is how a mapping is used.
type Access uint8

// The ways to access a mapping.
const (
	Readable Access = 1 << iota
	Writable
)

// Map maps n bytes of the file.
func (f *File) Map(off int64, n int, a Access) ([]byte, error) { return f.sys.Map(f.fd, off, n, a) }

// FD returns the descriptor.
func (f *File) FD() int { return f.fd }

// Explain makes do see each errno of a command, on the thread that sent it. nil ends that.
func (f *File) Explain(do func(error) error) {
	if do == nil {
		f.explain.Store(nil)
		return
	}
	f.explain.Store(&do)
}

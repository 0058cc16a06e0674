package uverbs

import (
	"runtime"
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

// Access is what a mapping is for.
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

// Explain makes do see each EIO and EACCES of a command, on the thread that sent it. nil ends that.
func (f *File) Explain(do func(error) error) {
	if do == nil {
		f.explain.Store(nil)
		return
	}
	f.explain.Store(&do)
}

// Driver is the driver's part of a command: its struct, and where its answer goes. Both may be empty.
type Driver struct{ In, Out []byte }

// request is the struct of write() and its answer, and the driver's part.
type request struct {
	in, out []byte
	Driver
}

// do sends a command in the first form that the kernel has. args are those of the method. The error is an errno or a
// *ReplyError.
func (f *File) do(c *command, q request, args ...Arg) error {
	runtime.LockOSThread() // Linux looks at the thread's credentials
	defer runtime.UnlockOSThread()
	err := f.send(c, &q, args)
	if err == syscall.EIO || err == syscall.EACCES {
		if do := f.explain.Load(); do != nil {
			return (*do)(err)
		}
	}
	return err
}

// plain is do without an explanation.
func (f *File) plain(c *command, q request, args ...Arg) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return f.send(c, &q, args)
}

func (f *File) send(c *command, q *request, args []Arg) error {
	err := error(syscall.ENOTTY)
	if f.forms.has(c, ByMethod) {
		err = f.method(c.name, c.object, c.method, append(args, f.driverArgs(q)...))
		f.forms.ioctl.note(err == syscall.ENOTTY)
		if !Absent(err) {
			return err
		}
		if err == syscall.EPROTONOSUPPORT && c.number != noNumber {
			f.forms.noMethod.Store(c, true)
		}
	}
	if f.forms.has(c, ByInvoke) {
		err = f.invoke(c, q)
		f.forms.ioctl.note(err == syscall.ENOTTY)
		f.forms.invoke.note(Absent(err))
		if !Absent(err) {
			return err
		}
	}
	if f.forms.has(c, ByWrite) {
		err = f.write(c, q)
	}
	return err
}

func (f *File) driverArgs(q *request) []Arg {
	return []Arg{If(len(q.In) > 0, In(driverIn, q.In)), If(len(q.Out) > 0, May(driverOut, q.Out))}
}

// invoke sends a command by INVOKE_WRITE.
func (f *File) invoke(c *command, q *request) error {
	const coreIn, coreOut, number = 0, 1, 2
	return f.method(c.name, invokeWrite.object, invokeWrite.method, append(f.driverArgs(q),
		Uint64(number, uint64(c.number)), In(coreIn, q.in), If(len(q.out) > 0, Out(coreOut, q.out))))
}

// Method sends a method that only the driver has.
func (f *File) Method(name string, object, method uint16, args ...Arg) error {
	return f.do(&command{name, object, method, noNumber}, request{}, args...)
}

// Absent reports whether the error of a method means that the kernel lacks it.
func Absent(err error) bool { return err == syscall.ENOTTY || err == syscall.EPROTONOSUPPORT }

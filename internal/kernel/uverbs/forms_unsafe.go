package uverbs

import (
	"math"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

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
	form, err := f.send(c, &q, args)
	if err == syscall.EACCES {
		runtime.LockOSThread() // the explanation is about the thread
		defer runtime.UnlockOSThread()
		if form == ByWrite { // Linux looks at the credentials of the thread that writes
			err = f.write(c, &q)
		}
	}
	if _, bad := err.(*ReplyError); bad {
		f.Doubt.Store(true)
	}
	if errno, ok := err.(syscall.Errno); ok && errno != 0 {
		if do := f.explain.Load(); do != nil {
			return (*do)(err)
		}
	}
	return err
}

// send returns the form that was tried last.
func (f *File) send(c *command, q *request, args []Arg) (last Form, err error) {
	err = syscall.ENOTTY
	if f.forms.has(c, ByMethod) {
		driver := driverArgs(q)
		err = f.method(c.name, c.object, c.method, args, driver[:])
		f.forms.ioctl.note(err == syscall.ENOTTY)
		if !Absent(err) {
			return ByMethod, err
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
			return ByInvoke, err
		}
	}
	if f.forms.has(c, ByWrite) {
		err = f.write(c, q)
	}
	return ByWrite, err
}

func driverArgs(q *request) [2]Arg {
	return [2]Arg{If(len(q.In) > 0, In(driverIn, q.In)), If(len(q.Out) > 0, May(driverOut, q.Out))}
}

// invoke sends a command by INVOKE_WRITE.
func (f *File) invoke(c *command, q *request) error {
	const coreIn, coreOut, number = 0, 1, 2
	driver := driverArgs(q)
	args := [...]Arg{Uint64(number, uint64(c.number)), In(coreIn, q.in), If(len(q.out) > 0, Out(coreOut, q.out))}
	return f.method(c.name, invokeWrite.object, invokeWrite.method, driver[:], args[:])
}

// Method sends a method that only the driver has.
func (f *File) Method(name string, object, method uint16, args ...Arg) error {
	return f.do(&command{name, object, method, noNumber}, request{}, args...)
}

// Absent reports whether the error of a method means that the kernel lacks it.
func Absent(err error) bool { return err == syscall.ENOTTY || err == syscall.EPROTONOSUPPORT }

// method sends a method by the ioctl. Two lists of arguments save copying them into one.
func (f *File) method(name string, object, method uint16, lists ...[]Arg) error {
	c := &Command{header: header{Object: object, Method: method, driver: f.driver}}
	for _, args := range lists {
		for i := range args {
			switch a := &args[i]; {
			case a.optional:
			case max(len(a.in), len(a.out)) > math.MaxUint16: // the length has 16 bits
				return syscall.EINVAL
			case int(c.Num) == maxAttrs:
				return syscall.E2BIG
			default:
				c.Attrs[c.Num] = a.attr
				c.Num++
			}
		}
	}
	c.length = uint16(unsafe.Offsetof(c.Attrs) + uintptr(c.Num)*unsafe.Sizeof(Attr{}))
	e := f.sys.Ioctl(f.fd, c)
	runtime.KeepAlive(lists)
	if e != 0 {
		return e
	}
	n := 0
	for _, args := range lists {
		for i := range args {
			if args[i].optional {
				continue
			}
			if err := args[i].take(name, &c.Attrs[n]); err != nil {
				return err
			}
			n++
		}
	}
	return nil
}

// take takes the kernel's answer to an argument.
func (a *Arg) take(command string, got *Attr) error {
	switch {
	case a.want && got.Flags&ValidOutput == 0:
		return &ReplyError{Command: command, Field: "no answer in attribute", Got: uint64(a.attr.ID), Want: "one"}
	case a.new == nil:
	case got.Data > math.MaxUint32:
		return &ReplyError{Command: command, Field: "object", Got: got.Data, Want: "a number of 32 bits"}
	default:
		*a.new = uint32(got.Data)
	}
	return nil
}

// write writes a command.
func (f *File) write(c *command, q *request) error {
	resp := make([]byte, len(q.out)+len(q.Out))
	h := abi.UverbsCmdHdr{Command: c.number}
	var b []byte
	if c.number&extended != 0 {
		x := abi.UverbsExCmdHdr{ProviderInWords: words(len(q.In), 8), ProviderOutWords: words(len(q.Out), 8)}
		h.InWords, h.OutWords = words(len(q.in), 8), words(len(q.out), 8)
		if len(resp) > 0 {
			x.Response = Address(resp)
		}
		b = append(append(append(b, Bytes(&h)...), Bytes(&x)...), q.in...)
	} else {
		h.InWords = words(int(unsafe.Sizeof(h))+len(q.in)+len(q.In), 4)
		h.OutWords = words(len(resp), 4)
		b = append(append(b, Bytes(&h)...), q.in...)
		if len(resp) > 0 {
			response := Address(resp)
			copy(b[unsafe.Sizeof(h):], Bytes(&response))
		}
	}
	b = append(b, q.In...)
	n, err := f.sys.Write(f.fd, b)
	runtime.KeepAlive(resp)
	switch {
	case err != nil:
		return err
	case n != len(b):
		return &ReplyError{Command: c.name, Field: "bytes of the command", Got: uint64(n), Want: "all"}
	}
	copy(q.Out, resp[copy(q.out, resp):])
	return nil
}

// words returns how many words of size bytes n bytes are.
func words(n, size int) uint16 { return uint16((n + size - 1) / size) }

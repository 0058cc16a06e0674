package uverbs

import "github.com/pureverbs/pureverbs/internal/abi"

// Context has the answer to GetContext.
type Context struct {
	AsyncFD     int // of async events
	CompVectors uint32
	OptionalMR  bool // it ignores optional access flags that it does not know
}

const coreOptionalMR = 1 << 0 // C: IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS

// GetContext makes the file's context.
func (f *File) GetContext(d Driver) (Context, error) {
	q, r, core := new(abi.UverbsGetContext), new(abi.UverbsGetContextResp), new(uint64)
	r.AsyncFD = noFD
	err := f.do(&getContext, request{Bytes(q), Bytes(r), d}, Out(0, Bytes(&r.NumCompVectors)), Out(1, Bytes(core)))
	if err != nil {
		return Context{AsyncFD: -1}, err
	}
	c := Context{AsyncFD: -1, CompVectors: r.NumCompVectors, OptionalMR: *core&coreOptionalMR != 0}
	if r.AsyncFD == noFD { // it came by the method
		if err := f.do(&allocAsyncEvent, request{}, New(0, &r.AsyncFD)); err != nil {
			return c, err
		}
	}
	c.AsyncFD, err = f.newFD("get_context", r.AsyncFD)
	return c, err
}

// QueryContext returns what is known of a context that exists already, and fills in the driver's part, which is in the
// attribute id.
func (f *File) QueryContext(id uint16, driver []byte) (Context, error) {
	vectors, core, fd := new(uint32), new(uint64), new(uint32)
	err := f.do(&queryContext, request{}, Out(0, Bytes(vectors)), Out(1, Bytes(core)), May(id, driver))
	if err != nil {
		return Context{AsyncFD: -1}, err
	}
	c := Context{AsyncFD: -1, CompVectors: *vectors, OptionalMR: *core&coreOptionalMR != 0}
	if err := f.do(&allocAsyncEvent, request{}, New(0, fd)); err != nil {
		return c, err
	}
	c.AsyncFD, err = f.newFD("async_event_alloc", *fd)
	return c, err
}

const noFD = 1<<32 - 1

// newFD checks a descriptor that the kernel gave, and makes it close on exec.
func (f *File) newFD(command string, fd uint32) (int, error) {
	ok := fd <= 1<<31-1 && int(fd) != f.fd && protect(int(fd)) == nil
	if err := Check(ok, command, "descriptor", uint64(fd), "a new one"); err != nil {
		return -1, err
	}
	return int(fd), nil
}

// CreateCompChannel makes a completion channel and returns its descriptor.
func (f *File) CreateCompChannel() (int, error) {
	q, r := new(abi.UverbsGetContext), &abi.UverbsCreateCompChannelResp{FD: noFD}
	if err := f.do(&createCompChannel, request{in: Bytes(q), out: Bytes(r)}); err != nil {
		return -1, err
	}
	return f.newFD(createCompChannel.name, r.FD)
}

// MethodFD sends a method that only the driver has and that makes a descriptor, which attribute id answers.
func MethodFD(f *File, name string, object, method, id uint16, args ...Arg) (int, error) {
	fd := new(uint32)
	if err := f.Method(name, object, method, append([]Arg{New(id, fd)}, args...)...); err != nil {
		return -1, err
	}
	return f.newFD(name, *fd)
}

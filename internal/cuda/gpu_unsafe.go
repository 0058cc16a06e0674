package cuda

import (
	"bytes"
	"errors"
	"runtime"
	"strconv"
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/ccall"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// Numbers of cuda.h.
const (
	attributeDmabuf     = 124 // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
	pointerSyncMemops   = 6   // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
	rangeHandleDmabufFD = 1   // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
)

// GPU is a GPU with its primary context. Its methods are safe for concurrent use.
type GPU struct {
	lib     *library
	device  int32
	context uintptr
}

// Open returns GPU number n, from 0.
func Open(n int) (*GPU, error) {
	return openGPU(strconv.Itoa(n), func(lib *library, count int, device *int32) error {
		if n < 0 || n >= count {
			return &DeviceError{Device: strconv.Itoa(n), Count: count}
		}
		// CUresult cuDeviceGet(CUdevice *device, int ordinal);
		return lib.call("cuDeviceGet", "2.0", uintptr(unsafe.Pointer(device)), uintptr(n))
	})
}

// OpenByBusID returns the GPU at a PCI address, as in 0000:3b:00.0.
func OpenByBusID(id string) (*GPU, error) {
	return openGPU(id, func(lib *library, count int, device *int32) error {
		// CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId);
		b := append([]byte(id), 0)
		err := lib.call("cuDeviceGetByPCIBusId", "4.1", uintptr(unsafe.Pointer(device)),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))))
		if errors.Is(err, InvalidDevice) || errors.Is(err, InvalidValue) {
			return &DeviceError{Device: id, Count: count, Err: err}
		}
		return err
	})
}

func openGPU(name string, find func(lib *library, count int, device *int32) error) (*GPU, error) {
	lib, err := open()
	if err != nil {
		return nil, err
	}
	// CUresult cuInit(unsigned int flags);
	if err := lib.call("cuInit", "2.0", 0); err != nil {
		if errors.Is(err, NoDevice) {
			return nil, &DeviceError{Device: name, Err: err}
		}
		return nil, err
	}
	count := new(int32)
	// CUresult cuDeviceGetCount(int *count);
	if err := lib.call("cuDeviceGetCount", "2.0", uintptr(unsafe.Pointer(count))); err != nil {
		return nil, err
	}
	if *count < 1 {
		return nil, &DeviceError{Device: name}
	}
	device, context := new(int32), new(uintptr)
	if err := find(lib, int(*count), device); err != nil {
		return nil, err
	}
	// CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev);
	if err := lib.call("cuDevicePrimaryCtxRetain", "7.0", uintptr(unsafe.Pointer(context)),
		uintptr(*device)); err != nil {
		return nil, err
	}
	return &GPU{lib, *device, *context}, nil
}

// Name returns what the GPU is called.
func (g *GPU) Name() string {
	b := make([]byte, 256)
	// CUresult cuDeviceGetName(char *name, int len, CUdevice dev);
	if g.lib.call("cuDeviceGetName", "2.0", uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		uintptr(g.device)) != nil {
		return ""
	}
	name, _, _ := bytes.Cut(b, []byte{0})
	return string(name)
}

// Dmabuf reports whether the GPU gives its memory as a dma-buf.
func (g *GPU) Dmabuf() (bool, error) {
	v := new(int32)
	// CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev);
	err := g.lib.call("cuDeviceGetAttribute", "2.0", uintptr(unsafe.Pointer(v)), attributeDmabuf, uintptr(g.device))
	if errors.Is(err, InvalidValue) { // a driver from before the attribute
		return false, nil
	}
	return *v == 1, err
}

// Alloc allocates memory of the GPU, and returns its address.
func (g *GPU) Alloc(size int) (uint64, error) {
	ptr := new(uint64)
	// CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);
	if err := g.do("cuMemAlloc_v2", "3.2", uintptr(unsafe.Pointer(ptr)), uintptr(size)); err != nil {
		return 0, err
	}
	// Copies of the processor are complete before they return: the RDMA device is not ordered with them.
	on := new(uint32)
	*on = 1
	// CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr);
	if err := g.do("cuPointerSetAttribute", "6.0", uintptr(unsafe.Pointer(on)), pointerSyncMemops,
		uintptr(*ptr)); err != nil {
		return 0, errors.Join(err, g.Free(*ptr))
	}
	return *ptr, nil
}

// Free frees memory of Alloc.
func (g *GPU) Free(ptr uint64) error {
	// CUresult cuMemFree_v2(CUdeviceptr dptr);
	return g.do("cuMemFree_v2", "3.2", uintptr(ptr))
}

// Write copies b to memory of the GPU.
func (g *GPU) Write(ptr uint64, b []byte) error {
	// CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n);
	return g.do("cuMemcpyHtoD_v2", "3.2", uintptr(ptr), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
}

// Read copies memory of the GPU to b.
func (g *GPU) Read(b []byte, ptr uint64) error {
	// CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n);
	return g.do("cuMemcpyDtoH_v2", "3.2", uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(ptr), uintptr(len(b)))
}

// Export returns a descriptor of memory of the GPU as a dma-buf, which the caller closes. Address and size are
// multiples of the page size.
func (g *GPU) Export(ptr uint64, size int) (fd int, err error) {
	h := new(int32)
	// CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
	//     CUmemRangeHandleType handleType, unsigned long long flags);
	if err := g.do("cuMemGetHandleForAddressRange", "11.7", uintptr(unsafe.Pointer(h)), uintptr(ptr), uintptr(size),
		rangeHandleDmabufFD, 0); err != nil {
		return -1, err
	}
	return int(*h), nil
}

// Close gives the context back.
func (g *GPU) Close() error {
	// CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev);
	return g.lib.call("cuDevicePrimaryCtxRelease_v2", "11.0", uintptr(g.device))
}

// do calls a function in the GPU's context, which belongs to the thread.
//
//go:uintptrescapes
func (g *GPU) do(name, since string, args ...uintptr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// CUresult cuCtxSetCurrent(CUcontext ctx);
	if err := g.lib.call("cuCtxSetCurrent", "4.0", g.context); err != nil {
		return err
	}
	return g.lib.call(name, since, args...)
}

// call calls a function of the library.
//
//go:uintptrescapes
func (l *library) call(name, since string, args ...uintptr) error {
	fn, err := l.symbol(name, since)
	if err != nil {
		return err
	}
	if r := ccall.Int(fn, args...); r != 0 {
		return &Error{name, Code(r), l.text(r)}
	}
	return nil
}

// text returns CUDA's words for a code.
func (l *library) text(code int32) string {
	fn, err := l.symbol("cuGetErrorString", "6.0")
	if err != nil {
		return ""
	}
	s := new(uintptr)
	// CUresult cuGetErrorString(CUresult error, const char **pStr);
	if ccall.Int(fn, uintptr(code), uintptr(unsafe.Pointer(s))) != 0 {
		return ""
	}
	return cmem.String(*s)
}

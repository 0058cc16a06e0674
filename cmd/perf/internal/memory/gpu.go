package memory

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/plan"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/cuda"
	"github.com/pureverbs/pureverbs/mlx5dv"
)

// library has the functions of a vendor's library that a test needs: internal/cuda has it. ROCm's and Level Zero's
// would be two more.
type library interface {
	Name() string
	Alloc(size int) (ptr uint64, err error)
	Free(ptr uint64) error
	Write(ptr uint64, b []byte) error
	Read(b []byte, ptr uint64) error
	Dmabuf() (bool, error)                           // whether Export works
	Export(ptr uint64, size int) (fd int, err error) // as a dma-buf; both are multiples of the page size
	Close() error
}

// A GPUError is memory of a GPU that cannot be given to the RDMA device.
type GPUError struct {
	GPU  string
	What string // what was tried
	Err  error  // or nil
	Way  string // out
}

// Error returns one line.
func (e *GPUError) Error() string {
	s := fmt.Sprintf("memory of gpu %s: %s", e.GPU, e.What)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "; " + e.Way
}

// Unwrap returns the error of the device or the library.
func (e *GPUError) Unwrap() error { return e.Err }

// gpu is memory of a GPU. The RDMA device reaches it as a dma-buf, or by a kernel module that knows the GPU's addresses
// (peer memory).
type gpu struct {
	library
	ptr        uint64
	size       int
	dmabuf     bool
	dataDirect bool
}

// gpuPage is the size of a GPU's mapping unit.
const gpuPage = 64 << 10

func allocCUDA(size int, opt *plan.Memory) (*gpu, error) {
	open := func() (*cuda.GPU, error) { return cuda.Open(opt.GPU) }
	if opt.BusID != "" {
		open = func() (*cuda.GPU, error) { return cuda.OpenByBusID(opt.BusID) }
	}
	g, err := open()
	if err != nil {
		return nil, err
	}
	return allocGPU(g, size, opt.Dmabuf, opt.DataDirect)
}

func allocGPU(lib library, size int, dmabuf, dataDirect bool) (*gpu, error) {
	g := &gpu{library: lib, size: (size + gpuPage - 1) / gpuPage * gpuPage, dmabuf: dmabuf, dataDirect: dataDirect}
	if dmabuf {
		ok, err := lib.Dmabuf()
		if err == nil && !ok {
			err = &GPUError{GPU: lib.Name(), What: "the GPU or its driver makes no dma-buf",
				Way: "leave out --use-cuda-dmabuf and load nvidia_peermem"}
		}
		if err != nil {
			return nil, errors.Join(err, lib.Close())
		}
	}
	var err error
	if g.ptr, err = lib.Alloc(g.size); err != nil {
		err = &GPUError{GPU: lib.Name(), What: fmt.Sprintf("%d bytes", g.size), Err: err,
			Way: "a smaller size (-s) or fewer queue pairs (-q) take less"}
		return nil, errors.Join(err, lib.Close())
	}
	return g, nil
}

func (g *gpu) register(pd *ibv.PD, access ibv.AccessFlags) (*ibv.MR, uint64, error) {
	if !g.dmabuf {
		mr, err := pd.RegMemory(uintptr(g.ptr), g.size, g.ptr, access)
		if errors.Is(err, syscall.EFAULT) || errors.Is(err, syscall.EINVAL) {
			err = &GPUError{GPU: g.Name(), What: "the kernel does not know its address", Err: err,
				Way: "load nvidia_peermem (modprobe nvidia_peermem), or give --use-cuda-dmabuf"}
		}
		return mr, g.ptr, err
	}
	page := uint64(os.Getpagesize())
	begin := g.ptr / page * page
	end := (g.ptr + uint64(g.size) + page - 1) / page * page
	fd, err := g.Export(begin, int(end-begin))
	if err != nil {
		return nil, 0, &GPUError{GPU: g.Name(), What: "it cannot be had as a dma-buf", Err: err,
			Way: "NVIDIA's open kernel modules have it; or leave out --use-cuda-dmabuf and load nvidia_peermem"}
	}
	reg := pd.RegDmabuf
	if g.dataDirect {
		reg = func(fd int, off uint64, length int, iova uint64, access ibv.AccessFlags) (*ibv.MR, error) {
			return mlx5dv.RegDmabuf(pd, fd, off, length, iova, access, true)
		}
	}
	mr, err := reg(fd, g.ptr-begin, g.size, g.ptr, access)
	// The registration keeps the buffer.
	if cerr := os.NewFile(uintptr(fd), "dma-buf").Close(); err == nil && cerr != nil {
		return nil, 0, errors.Join(cerr, mr.Close())
	}
	return mr, g.ptr, err
}

func (g *gpu) bytes() []byte { return nil }

func (g *gpu) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 || off > int64(g.size) || len(b) > g.size-int(off) {
		return 0, io.ErrUnexpectedEOF
	}
	if err := g.Read(b, g.ptr+uint64(off)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (g *gpu) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off > int64(g.size) || len(b) > g.size-int(off) {
		return 0, io.ErrShortWrite
	}
	if err := g.Write(g.ptr+uint64(off), b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (g *gpu) free() error { return errors.Join(g.library.Free(g.ptr), g.library.Close()) }

package dma

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxNodes is the most NUMA nodes that Linux can be built for.
const maxNodes = 1024

// region is a range of address space: the data and its guard pages.
type region struct {
	base unsafe.Pointer // address of the first guard
	size uintptr
}

func (r region) unmap() error { return unix.MunmapPtr(r.base, r.size) }

const (
	anon      = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	readWrite = unix.PROT_READ | unix.PROT_WRITE
)

func alloc(size int, opt *Options) (*Mem, error) {
	if opt.Huge != HugeNone {
		m, err := allocHuge(size, opt)
		var short *HugePageError
		if err == nil || opt.Huge == HugeRequire || !errors.As(err, &short) && !errors.Is(err, unix.EEXIST) {
			return m, err
		}
	}
	return allocPages(size, opt)
}

// allocPages maps ordinary pages. It maps guards and data together without access, then makes the
// data accessible.
func allocPages(size int, opt *Options) (*Mem, error) {
	page := uintptr(os.Getpagesize())
	align := page
	if opt.Huge == HugeTry && size >= hugePageSize {
		align = hugePageSize
	}
	length := roundUp(uintptr(size), page)
	r, data, err := reserve(length, page, align)
	if err != nil {
		return nil, fmt.Errorf("dma: alloc %d bytes: mmap: %w", size, err)
	}
	b := unsafe.Slice((*byte)(data), length)
	fail := func(what string, err error) (*Mem, error) {
		return nil, errors.Join(fmt.Errorf("dma: alloc %d bytes: %s: %w", size, what, err), r.unmap())
	}
	if err := unix.Mprotect(b, readWrite); err != nil {
		return fail("mprotect", err)
	}
	if align > page {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // optional; the kernel may not support it
	}
	if err := place(b, opt); err != nil {
		return nil, errors.Join(err, r.unmap())
	}
	return newMem(r, b, size, false), nil
}

// reserve maps address space without access: length bytes at a multiple of align, and a guard
// before and after them.
func reserve(length, guard, align uintptr) (region, unsafe.Pointer, error) {
	total := length + 2*guard + align - guard
	space.RLock()
	defer space.RUnlock()
	base, err := unix.MmapPtr(-1, 0, nil, total, unix.PROT_NONE, anon)
	if err != nil {
		return region{}, nil, err
	}
	data := unsafe.Add(base, guard)
	data = unsafe.Add(data, roundUp(uintptr(data), align)-uintptr(data))
	return region{base, total}, data, nil
}

// space is locked while huge pages are mapped, because nothing else is to be mapped where they go.
var space sync.RWMutex

// allocHuge maps huge pages, then their guards. Mapping them over a reservation would leave a hole
// if it failed, and another thread might map something there. The runtime and C libraries do not know space.
func allocHuge(size int, opt *Options) (*Mem, error) {
	const tries = 64
	length := roundUp(uintptr(size), hugePageSize)
	var err error
	for range tries {
		var r region
		if r, err = mapHuge(size, length); err == nil {
			return fillHuge(r, size, length, opt)
		}
		if !errors.Is(err, unix.EEXIST) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("dma: alloc %d bytes: other threads took the address %d times: %w", size, tries, err)
}

// mapHuge maps length bytes of huge pages between two guards.
func mapHuge(size int, length uintptr) (region, error) {
	page := uintptr(os.Getpagesize())
	r, data, err := reserve(length, page, hugePageSize)
	if err != nil {
		return region{}, fmt.Errorf("dma: alloc %d bytes: mmap: %w", size, err)
	}
	space.Lock()
	defer space.Unlock()
	if err := r.unmap(); err != nil {
		return region{}, fmt.Errorf("dma: alloc %d bytes: munmap: %w", size, err)
	}
	if err := mapAt(data, length, readWrite, unix.MAP_HUGETLB|unix.MAP_HUGE_2MB); err != nil {
		if errors.Is(err, unix.EEXIST) {
			return region{}, err
		}
		return region{}, &HugePageError{Need: int(length / hugePageSize), Free: freeHugePages(), Err: err}
	}
	r = region{data, length}
	if err := mapAt(unsafe.Add(data, -int(page)), page, unix.PROT_NONE, 0); err != nil {
		return region{}, errors.Join(err, r.unmap())
	}
	r = region{unsafe.Add(data, -int(page)), length + page}
	if err := mapAt(unsafe.Add(data, length), page, unix.PROT_NONE, 0); err != nil {
		return region{}, errors.Join(err, r.unmap())
	}
	r.size += page
	return r, nil
}

// fillHuge has the pages of mapHuge come from where they should.
func fillHuge(r region, size int, length uintptr, opt *Options) (*Mem, error) {
	b := unsafe.Slice((*byte)(unsafe.Add(r.base, os.Getpagesize())), length)
	if err := place(b, opt); err != nil {
		return nil, errors.Join(err, r.unmap())
	}
	// Pages that mmap promised can still be refused, for example by a cgroup. Here that is an
	// error; at the first access it would be SIGBUS. Kernels
	// before 5.14 return EINVAL.
	if err := unix.Madvise(b, unix.MADV_POPULATE_WRITE); err != nil && !errors.Is(err, unix.EINVAL) {
		err = &HugePageError{Need: int(length / hugePageSize), Free: freeHugePages(), Err: err}
		return nil, errors.Join(err, r.unmap())
	}
	return newMem(r, b, size, true), nil
}

// mapAt maps at exactly p. EEXIST means that something is already mapped there.
func mapAt(p unsafe.Pointer, length uintptr, prot, flags int) error {
	got, err := unix.MmapPtr(-1, 0, p, length, prot, anon|unix.MAP_FIXED_NOREPLACE|flags)
	if err != nil {
		return err
	}
	if got != p { // a kernel before 4.17, which takes the address as a hint
		return errors.Join(unix.EEXIST, unix.MunmapPtr(got, length))
	}
	return nil
}

// place sets where the pages of b come from, before there are any.
func place(b []byte, opt *Options) error {
	if err := unix.Madvise(b, unix.MADV_DONTFORK); err != nil {
		return fmt.Errorf("dma: alloc %d bytes: madvise MADV_DONTFORK: %w", len(b), err)
	}
	if opt.Node == nil {
		return nil
	}
	const mpolPreferred = 1
	node := *opt.Node
	var mask [maxNodes / 64]uint64
	mask[node/64] = 1 << (node % 64)
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		mpolPreferred, uintptr(unsafe.Pointer(&mask)), maxNodes+1, 0) // the kernel takes one off
	if errno != 0 {
		return &NodeError{Node: node, Online: onlineNodes(), Err: errno}
	}
	return nil
}

func newMem(r region, b []byte, size int, huge bool) *Mem {
	return &Mem{huge: huge, data: b[:size:size], addr: uintptr(unsafe.Pointer(&b[0])), region: r}
}

func roundUp(n, to uintptr) uintptr { return (n + to - 1) &^ (to - 1) }

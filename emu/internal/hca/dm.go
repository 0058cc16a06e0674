//go:build linux

package hca

import "golang.org/x/sys/unix"

// DM is memory of the device (MEMIC), which the program that allocates it maps. C: struct ib_dm.
type DM struct {
	Held
	Len   uint64 // as asked for
	Page  int    // of the first one among the context's
	Pages int
	bytes []byte
}

const (
	mmapDM  = 8 // command of an mmap offset: MLX5_IB_MMAP_DEVICE_MEM
	dmPages = 256
	dmUnit  = 64 // MLX5_MEMIC_BASE_SIZE: what is allocated is a multiple
	// maxDMAlign is the largest alignment, as a power of two: pages are aligned so.
	maxDMAlign = 12
)

// dmUse is how many bytes of a device's memory are allocated.
type dmUse struct{ bytes uint64 }

// filePages are the pages of a context's file for device memory: those in use.
type filePages [dmPages]bool

var (
	dmPart     = newPart[dmUse]()
	dmPagePart = newPart[filePages]()
)

// room finds n free pages in a row.
func (p *filePages) room(n int) (page int, ok bool) {
	free := 0
	for i, used := range p {
		if free++; used {
			free = 0
		}
		if free == n {
			return i - n + 1, true
		}
	}
	return 0, false
}

// mark takes n pages, or gives them back.
func (p *filePages) mark(page, n int, used bool) {
	for i := range n {
		p[page+i] = used
	}
}

// dmSize is what an allocation of n bytes takes.
func dmSize(n uint64) uint64 { return (n + dmUnit - 1) &^ (dmUnit - 1) }

// AllocDM allocates memory of the device, zeroed: pages 8<<8 | index of the file.
func AllocDM(c *Context, length uint64, logAlign uint32) (*DM, unix.Errno) {
	d, pages := c.Device, dmPagePart.of(&c.parts)
	use, size := dmPart.of(&d.parts), dmSize(length)
	switch {
	case length == 0, size < length, logAlign > maxDMAlign:
		return nil, unix.EINVAL
	case size > d.Config.Limits.MaxDMSize-use.bytes:
		return nil, unix.ENOMEM
	}
	n := int((size + pageSize - 1) / pageSize)
	page, ok := pages.room(n)
	if !ok {
		return nil, unix.ENOMEM
	}
	b, err := c.File.Map((mmapDM<<8+int64(page))*pageSize, n*pageSize)
	if err != nil {
		return nil, unix.ENOMEM
	}
	clear(b)
	m := &DM{Held: c.held(rankMemory, "DM"), Len: length, Page: page, Pages: n, bytes: b}
	m.life.end = func() {
		_ = unix.Munmap(b)
		pages.mark(page, n, false)
		use.bytes -= size
	}
	pages.mark(page, n, true)
	use.bytes += size
	return added(c, m)
}

// MapsDM reports whether a program may map n pages of its file from page on: whole device memory, and nothing else.
func MapsDM(c *Context, page, n uint64) bool {
	m := Lookup(c, func(m *DM) bool { return mmapDM<<8+uint64(m.Page) == page })
	return m != nil && uint64(m.Pages) == n
}

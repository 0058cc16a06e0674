//go:build linux

package hca

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// TestDM looks at what device memory is given, where, and to whom.
func TestDM(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	c := s.c
	limit := c.Device.Config.Limits.MaxDMSize
	alloc := func(n uint64, align uint32) (*DM, unix.Errno) { return AllocDM(c, n, align) }
	for _, tt := range []struct {
		n     uint64
		align uint32
		e     unix.Errno
	}{{0, 0, unix.EINVAL}, {^uint64(0), 0, unix.EINVAL}, {64, maxDMAlign + 1, unix.EINVAL},
		{limit + 1, 0, unix.ENOMEM}} {
		_, e := alloc(tt.n, tt.align)
		b.is("alloc", e, tt.e)
	}
	m1 := got(alloc(1, 0))(b)
	m2 := got(alloc(4097, 12))(b)
	if m1.Pages != 1 || m2.Pages != 2 || m1.Page == m2.Page {
		t.Errorf("%d pages at %d, %d at %d", m1.Pages, m1.Page, m2.Pages, m2.Page)
	}
	for _, tt := range []struct {
		page, n uint64
		ok      bool
	}{{0, 1, true}, {0, 2, false}, {1, 2, true}, {1, 1, false}, {2, 1, false}, {3, 1, false}} {
		if got := MapsDM(c, mmapDM<<8+uint64(m1.Page)+tt.page, tt.n); got != tt.ok {
			t.Errorf("mapping %d pages from %d: %v", tt.n, tt.page, got)
		}
	}
	for i := range m2.bytes {
		m2.bytes[i] = 1
	}

	const rights = AccessLocalWrite | AccessRemoteRead | AccessZeroBased
	reg := func(off, n uint64, a Access) unix.Errno {
		_, e := RegDM(c, s.pd.Handle, m2.Handle, off, n, a)
		return e
	}
	b.is("not zero based", reg(0, 64, AccessLocalWrite), unix.EINVAL)
	b.is("on demand", reg(0, 64, rights|AccessOnDemand), unix.EINVAL)
	b.is("remote write alone", reg(0, 64, AccessRemoteWrite|AccessZeroBased), unix.EINVAL)
	// Linux compares with the length of the memory alone, and rdma-core's own tests make a region of 0 bytes.
	none := got(RegDM(c, s.pd.Handle, m2.Handle, 0, 0, rights))(b)
	b.is("dereg of nothing", destroyed(MR(c, none.Handle)), 0)
	b.is("past the end", reg(4096, 2, rights), unix.EINVAL)
	b.is("around", reg(^uint64(0), 2, rights), unix.EINVAL)
	_, e := RegDM(c, s.pd.Handle, s.pd.Handle, 0, 64, rights)
	b.is("of a PD", e, unix.EINVAL)
	k := got(RegDM(c, s.pd.Handle, m2.Handle, 97, 4000, rights))(b)
	var buf [1]byte
	if va, ok := k.Resolve(3999, 1, 0); !ok || k.Mem.Read(va, buf[:]) != nil || buf[0] != 1 {
		t.Errorf("the last byte: %v %v", ok, buf)
	}
	if _, ok := k.Resolve(3999, 2, 0); ok {
		t.Error("a byte past the end is the region's")
	}
	if k.Pins() {
		t.Error("it counts as memory of the program")
	}
	e = k.Reregister(reregTrans, 0, b.mem.base, 64, b.mem.base, 0)
	b.is("reregister", e, unix.EINVAL)
	e = k.Reregister(reregAccess, 0, 0, 0, 0, rights|AccessRemoteWrite)
	b.is("with other rights", e, unix.EINVAL)
	b.is("free with a region", Destroy[*DM](c, m2.Handle), unix.EBUSY)
	b.is("dereg", destroyed(MR(c, k.Handle)), 0)
	b.is("free", Destroy[*DM](c, m2.Handle), 0)
	b.is("free again", Destroy[*DM](c, m2.Handle), unix.ENOENT)
	b.is("free a PD", Destroy[*DM](c, s.pd.Handle), unix.EINVAL)
	m2 = got(alloc(limit-64, 0))(b)
	for _, v := range m2.bytes {
		if v != 0 {
			t.Fatal("what is allocated again is not zeroed")
		}
	}
	_, e = alloc(1, 0)
	b.is("all is given", e, unix.ENOMEM)
	if l := Leaked(c); len(l) == 0 || l[len(l)-2] != "2 DMs" {
		t.Errorf("leaked: %q", l)
	}
	c.Release()
	if n := dmPart.of(&c.Device.parts).bytes; n != 0 {
		t.Errorf("%d bytes are still in use", n)
	}
}

// TestPaging follows the pages of regions on demand.
func TestPaging(t *testing.T) {
	b := newBench(t)
	s := b.set(0)
	c, d := s.c, s.c.Device
	b.f.Config.MemlockLimit = 1 // nothing is locked
	mem, err := unix.Mmap(-1, 0, 8*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
	base := addressOf(mem)
	const rights = AccessLocalWrite | AccessOnDemand
	k := got(RegMR(c, 0, s.pd.Handle, base, 8*pageSize, base, rights))(b)
	all := got(RegMR(c, 0, s.pd.Handle, 0, ^uint64(0), 0, AccessOnDemand))(b)
	counts := func(want PageCounts) {
		t.Helper()
		if d.Paged != want {
			t.Errorf("%+v, want %+v", d.Paged, want)
		}
	}
	page := func(ok bool, k *MKey, off, n uint64, want PageCounts) {
		t.Helper()
		if got := k.PageIn(d, base+off, n, false); got != ok {
			t.Errorf("%d bytes at %d: %v", n, off, got)
		}
		counts(want)
	}
	page(true, k, pageSize-1, 2, PageCounts{Faults: 2})
	page(true, k, 0, 2*pageSize, PageCounts{Faults: 2})
	page(true, all, 0, 1, PageCounts{Faults: 3})
	page(true, k, 0, 0, PageCounts{Faults: 3})
	if !k.OnDemand() || k.Pins() {
		t.Error("it is not on demand")
	}
	for _, tt := range []struct {
		name   string
		advice uint64
		flags  uint32
		a      Advised
		e      unix.Errno
	}{
		{"prefetch", advicePrefetch, 1, Advised{k.Key, base, 3 * pageSize}, 0},
		{"of what is there", advicePrefetchNoFault, 0, Advised{k.Key, base, 8 * pageSize}, 0},
		{"write", advicePrefetchWrite, 0, Advised{k.Key, base + 3*pageSize, 1}, 0},
		{"write without the right", advicePrefetchWrite, 0, Advised{all.Key, base, 1}, unix.EPERM},
		{"past the end", advicePrefetch, 0, Advised{k.Key, base, 8*pageSize + 1}, unix.EFAULT},
		{"not mapped", advicePrefetch, 0, Advised{all.Key, 1 << 46, 1}, unix.EFAULT},
		{"no key", advicePrefetch, 0, Advised{1, base, 1}, unix.ENOENT},
		{"unknown advice", 3, 0, Advised{k.Key, base, 1}, unix.EOPNOTSUPP},
		{"unknown flag", advicePrefetch, 2, Advised{k.Key, base, 1}, unix.EINVAL},
	} {
		b.is(tt.name, Advise(c, s.pd.Handle, tt.advice, tt.flags, []Advised{tt.a}), tt.e)
	}
	counts(PageCounts{Faults: 3, Prefetched: 2})
	b.is("nothing", Advise(c, s.pd.Handle, 0, 0, nil), unix.EINVAL)
	if err := unix.Mprotect(mem[:pageSize], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	k.PageOut(d, base, 2*pageSize)
	counts(PageCounts{Faults: 3, Invalidations: 1, Prefetched: 2})
	page(false, k, 0, 1, PageCounts{Faults: 3, Invalidations: 1, Prefetched: 2})
}

// TestRegDmabuf registers a memfd where the device takes it for a dma-buf.
func TestRegDmabuf(t *testing.T) {
	b := newBench(t, "a,dmabuf=memfd", "b")
	s, strict := b.set(0), b.set(1)
	fd, err := unix.MemfdCreate("buffer", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "buffer")
	defer f.Close()
	if err := f.Truncate(3 * pageSize); err != nil {
		t.Fatal(err)
	}
	reg := func(s set, fd int, off, n, iova uint64, a Access) unix.Errno {
		_, e := RegDmabuf(s.c, s.pd.Handle, fd, off, n, iova, a, 0)
		return e
	}
	b.is("a memfd", reg(strict, fd, 0, 64, 0, 0), unix.EINVAL)
	b.is("no descriptor", reg(s, 1<<20, 0, 64, 0, 0), unix.EBADF)
	b.is("another place in its page", reg(s, fd, 0, 64, 8, 0), unix.EINVAL)
	b.is("nothing", reg(s, fd, 0, 0, 0, 0), unix.EINVAL)
	b.is("past the end", reg(s, fd, 2*pageSize, pageSize+1, 0, 0), unix.EINVAL)
	b.is("on demand", reg(s, fd, 0, 64, 0, AccessOnDemand), unix.EINVAL)
	b.is("remote write alone", reg(s, fd, 0, 64, 0, AccessRemoteWrite), unix.EINVAL)
	k := got(RegDmabuf(s.c, s.pd.Handle, fd, pageSize+8, pageSize, 8, AccessLocalWrite, 0))(b)
	va, ok := k.Resolve(8, 4, AccessLocalWrite)
	if err := k.Mem.Write(va, []byte("data")); !ok || err != nil || k.Mem == (guest.Mem{}) {
		t.Fatal(ok, err)
	}
	got := make([]byte, 4)
	if _, err := f.ReadAt(got, pageSize+8); err != nil || string(got) != "data" {
		t.Errorf("%q, %v", got, err)
	}
	b.is("dereg", destroyed(MR(s.c, k.Handle)), 0)
	if err := k.Mem.Read(va, got); err == nil {
		t.Error("the mapping is left")
	}
}

package ibv

import (
	"encoding/binary"
	"math"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

const allAccess = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic

// memoryTraffic moves data through two ranges of registered memory, near on side a and far on side b, by each
// operation, and compares what is there: near and far return copies of what the device sees.
func memoryTraffic(t *testing.T, a, b *side, nearMR, farMR *MR, near, far func(off, n int) []byte) {
	t.Helper()
	const n = 1024
	step := func(name string, wr SendWR) {
		t.Helper()
		wr.Flags = Signaled
		post(t, a.qp, wr)
		wc := a.next(t)
		if err := wc.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	fill(a.mr.Bytes()[:n], 1)
	fill(b.mr.Bytes()[16384:16384+n], 2)
	remote := farMR.Remote()
	step("write", SendWR{Opcode: OpWrite, SGEs: []SGE{a.mr.SGE(0, n)}, Remote: remote.At(256)})
	same(t, far(256, n), 1)
	step("read", SendWR{Opcode: OpRead, SGEs: []SGE{nearMR.SGE(512, n)}, Remote: remote.At(256)})
	same(t, near(512, n), 1)
	step("write from there", SendWR{Opcode: OpWrite, SGEs: []SGE{nearMR.SGE(512, n)}, Remote: b.mr.Remote().At(8192)})
	same(t, b.mr.Bytes()[8192:8192+n], 1)
	step("read to there", SendWR{Opcode: OpRead, SGEs: []SGE{nearMR.SGE(0, n)}, Remote: b.mr.Remote().At(16384)})
	same(t, near(0, n), 2)
	// Ranges of both kinds in one work request, and in one receive.
	recv(t, b.qp, RecvWR{SGEs: []SGE{b.mr.SGE(0, 100), farMR.SGE(2048, n-100)}})
	step("send", SendWR{Opcode: OpSend, SGEs: []SGE{nearMR.SGE(0, 24), a.mr.SGE(8192, n-24)}})
	b.good(t, 0)
	want := append(append([]byte{}, near(0, 24)...), a.mr.Bytes()[8192:8192+n-24]...)
	if got := append(append([]byte{}, b.mr.Bytes()[:100]...), far(2048, n-100)...); string(got) != string(want) {
		t.Error("send: other bytes arrived")
	}
	step("write of 16", SendWR{Opcode: OpWrite, SGEs: []SGE{a.mr.SGE(0, 16)}, Remote: remote.At(0)})
	old := binary.NativeEndian.Uint64(far(0, 8))
	step("fetch add", SendWR{Opcode: OpFetchAdd, SGEs: []SGE{nearMR.SGE(64, 8)}, Remote: remote.At(0), CompareAdd: 5})
	if got := binary.NativeEndian.Uint64(far(0, 8)); got != old+5 || binary.NativeEndian.Uint64(near(64, 8)) != old {
		t.Errorf("fetch add: %#x became %#x, and the answer is %#x", old, got, near(64, 8))
	}
	step("compare swap", SendWR{Opcode: OpCompareSwap, SGEs: []SGE{nearMR.SGE(72, 8)}, Remote: remote.At(0),
		CompareAdd: old + 5, Swap: 7})
	if got := binary.NativeEndian.Uint64(far(0, 8)); got != 7 || binary.NativeEndian.Uint64(near(72, 8)) != old+5 {
		t.Errorf("compare swap: %#x became %#x, and the answer is %#x", old+5, got, near(72, 8))
	}
}

// readable turns ReadAt into what traffic wants.
func readable(t *testing.T, m interface {
	ReadAt([]byte, int64) (int, error)
}) func(off, n int) []byte {
	return func(off, n int) []byte {
		p := make([]byte, n)
		must(m.ReadAt(p, int64(off)))(t)
		return p
	}
}

func TestRXE_DM(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	if !rxe.Emulated && !rxe.Hardware {
		s := newSide(t, 0, nil)
		_, err := s.dev.AllocDM(64, nil)
		wantUnsupported(t, err, rxe.Dev[0], "PD.AllocMR")
		return
	}
	a, b := newPair(t, &QPOptions{MaxSendSGE: 2, MaxRecvSGE: 2}, nil)
	limit := a.dev.attr.Ex.MaxDMSize
	dma := closing(t, must(a.dev.AllocDM(8192, nil))(t))
	dmb := closing(t, must(b.dev.AllocDM(4096+64, &DMOptions{LogAlign: 6}))(t))
	mra := closing(t, must(a.pd.RegDM(dma, 4096, 4096, allAccess|RelaxedOrdering))(t))
	mrb := closing(t, must(b.pd.RegDM(dmb, 64, 4096, allAccess))(t))
	ra, rb := readable(t, dma), readable(t, dmb)
	memoryTraffic(t, a, b, mra, mrb, func(off, n int) []byte { return ra(4096+off, n) },
		func(off, n int) []byte { return rb(64+off, n) })
	must(dmb.WriteAt([]byte("from the processor, sixteen words of four bytes, and no more...."), 64))(t)
	post(t, a.qp, SendWR{Opcode: OpRead, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 64)}, Remote: mrb.Remote().At(0)})
	a.good(t, 0)
	if got := string(a.mr.Bytes()[:18]); got != "from the processor" {
		t.Errorf("%q", got)
	}

	// The device refuses what is outside of the region, as for other memory.
	r := mrb.Remote()
	r.Length = 0
	post(t, a.qp, SendWR{Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, 8)}, Remote: r.At(4092)})
	if wc := a.next(t); wc.Status != WCRemAccessErr {
		t.Errorf("a write past the end: %v", wc.Status)
	}
	ok(t, a.qp.Close())
	ok(t, b.qp.Close())
	ok(t, mra.Close())
	wantErr(t, dmb.Close(), syscall.EBUSY, "1 mr")
	ok(t, mrb.Close())

	// What is there is given once, and again after Close.
	_, err := a.dev.AllocDM(int(limit)+1, nil)
	wantErr(t, err, syscall.EINVAL, "max_dm_size")
	if rxe.Emulated {
		rest := must(a.dev.AllocDM(int(limit)-8192, nil))(t)
		_, err = a.dev.AllocDM(64, nil)
		wantErr(t, err, nil, "")
		ok(t, rest.Close())
		ok(t, must(a.dev.AllocDM(int(limit)-8192, nil))(t).Close())
	}
}

func TestRXE_Dmabuf(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	s := newSide(t, 0, nil)
	f := closing(t, os.NewFile(uintptr(must(unix.MemfdCreate("buffer", unix.MFD_CLOEXEC))(t)), "buffer"))
	ok(t, f.Truncate(16384))
	mr, err := s.pd.RegDmabuf(int(f.Fd()), 8192+64, 4096, 64, allAccess)
	switch {
	case lacks(t, err, 34):
		return
	case rxe.Hardware:
		wantErr(t, err, syscall.EINVAL, "not a dma-buf")
		return
	case !rxe.Emulated:
		wantUnsupported(t, err, rxe.Dev[0])
		return
	}
	ok(t, err)
	closing(t, mr)
	qp := s.newQP(t, &QPOptions{MaxSendSGE: 2, MaxRecvSGE: 2})
	ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
	at := readable(t, f)
	there := func(off, n int) []byte { return at(8192+64+off, n) }
	memoryTraffic(t, s, s, mr, mr, there, there)
	ok(t, mr.Close())

	// More than the device moves at once, from the buffer to memory and back.
	const large = testMRSize
	ok(t, f.Truncate(2*large))
	mr = closing(t, must(s.pd.RegDmabuf(int(f.Fd()), 0, 2*large, 0, allAccess))(t))
	fill(s.mr.Bytes(), 5)
	for _, wr := range []SendWR{
		{Opcode: OpWrite, SGEs: []SGE{s.mr.SGE(0, large)}, Remote: mr.Remote().At(100)},
		{Opcode: OpWrite, SGEs: []SGE{mr.SGE(100, large/2)}, Remote: mr.Remote().At(large)},
		{Opcode: OpRead, SGEs: []SGE{s.mr.SGE(large/2, large/2)}, Remote: mr.Remote().At(large)},
	} {
		wr.Flags = Signaled
		post(t, s.qp, wr)
		s.good(t, 0)
	}
	same(t, at(100, large-100), 5)
	same(t, s.mr.Bytes()[large/2:], 5)
	ok(t, mr.Close())

	ok(t, f.Truncate(16384))
	other := closing(t, must(Open(rxe.Dev[1]))(t)) // which takes no memfd
	pd := closing(t, must(other.AllocPD())(t))
	for _, c := range []struct {
		pd  *PD
		fd  int
		off uint64
		e   error
	}{{pd, int(f.Fd()), 0, syscall.EINVAL}, {s.pd, int(f.Fd()), 16384, syscall.EINVAL},
		{s.pd, 1, 0, syscall.EINVAL}, {s.pd, 1 << 20, 0, syscall.EBADF}} {
		_, err := c.pd.RegDmabuf(c.fd, c.off, 4096, c.off, LocalWrite)
		wantErr(t, err, c.e, "descriptor")
	}
}

// paged returns what the emulated device has counted.
func paged(t *testing.T, device string) (faults, gone, prefetched int) {
	t.Helper()
	c := must(emutest.Need(t).Paging(device))(t)
	return int(c.Faults), int(c.Invalidations), int(c.Prefetched)
}

func TestRXE_OnDemand(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	const page, pages = 4096, 16
	mem := must(unix.Mmap(-1, 0, pages*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON))(t)
	defer func() { _ = unix.Munmap(mem) }()
	addr := cmem.SliceAddr(mem)
	a, b := newPair(t, nil, nil)
	mr, err := b.pd.RegMemory(addr, len(mem), uint64(addr), allAccess|OnDemand)
	if !rxe.Emulated && !rxe.Hardware {
		wantUnsupported(t, err, "register without OnDemand")
		_, err = b.pd.RegImplicit(LocalWrite)
		wantUnsupported(t, err, rxe.Dev[1])
		wantUnsupported(t, b.pd.Advise(AdvicePrefetch, true, b.mr.SGE(0, 8)), rxe.Dev[1])
		return
	}
	ok(t, err)
	defer func() { ok(t, mr.Close()) }()
	counts := func(faults, gone, prefetched int) {
		t.Helper()
		if !rxe.Emulated {
			return
		}
		if f, g, p := paged(t, rxe.Dev[1]); f != faults || g != gone || p != prefetched {
			t.Errorf("%d faults, %d invalidations, %d prefetched; want %d, %d, %d", f, g, p, faults, gone, prefetched)
		}
	}
	f, g, p := 0, 0, 0
	if rxe.Emulated {
		f, g, p = paged(t, rxe.Dev[1])
	}
	write := func(off, n int) WC {
		t.Helper()
		post(t, a.qp, SendWR{Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{a.mr.SGE(0, n)},
			Remote: mr.Remote().At(uint64(off))})
		return a.next(t)
	}
	fill(a.mr.Bytes()[:3*page], 4)
	for range 2 { // pages fault once
		wc := write(page-8, page+16)
		ok(t, wc.Err())
		counts(f+3, g, p)
	}
	same(t, mem[page-8:][:page+16], 4)
	ok(t, b.pd.Advise(AdvicePrefetchWrite, true, mr.SGE(0, 5*page), mr.SGE(8*page, 1)))
	counts(f+3, g, p+3)
	ok(t, b.pd.Advise(AdvicePrefetchNoFault, true, mr.SGE(0, pages*page)))
	wc := write(3*page, page)
	ok(t, wc.Err())
	counts(f+3, g, p+3)
	near := func(off, n int) []byte { return mem[off : off+n] }
	implicit := must(b.pd.RegImplicit(allAccess))(t)
	post(t, b.qp, SendWR{Opcode: OpRead, Flags: Signaled, SGEs: []SGE{implicit.SGE(int(addr)+9*page, page)},
		Remote: a.mr.Remote().At(0)})
	b.good(t, 0)
	same(t, near(9*page, page), 4)
	counts(f+4, g, p+3)

	// Bad advice.
	for _, c := range []struct {
		pd  *PD
		sge SGE
		e   syscall.Errno
	}{
		{b.pd, b.mr.SGE(0, 8), syscall.ENOENT}, // pinned
		{b.pd, SGE{LKey: 0x12345678, Length: 8}, syscall.ENOENT},
		{b.pd, SGE{Addr: uint64(addr) + pages*page, Length: 8, LKey: mr.LKey()}, syscall.EFAULT},
		{b.pd, implicit.SGE(1<<46, 8), syscall.EFAULT},
	} {
		wantErr(t, c.pd.Advise(AdvicePrefetch, true, c.sge), c.e, "advise mr")
	}
	other := closing(t, must(b.dev.AllocPD())(t))
	wantErr(t, other.Advise(AdvicePrefetch, true, mr.SGE(0, 8)), syscall.EPERM)
	_, err = b.pd.RegMemory(0, math.MaxInt, 0, LocalWrite)
	wantErr(t, err, nil)

	// Memory that the program has given back: the peer is refused, and the QP is broken.
	ok(t, unix.Mprotect(mem[page:2*page], unix.PROT_NONE))
	if wc = write(page, 64); wc.Status != WCRemAccessErr {
		t.Errorf("a write to memory that is gone: %v", wc.Status)
	}
	counts(f+4, g+1, p+3)
	ok(t, b.qp.Close())
	qp := b.newQP(t, nil)
	ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
	post(t, qp, SendWR{Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{implicit.SGE(int(addr)+page, 64)},
		Remote: b.mr.Remote().At(0)})
	if wc = b.next(t); wc.Status != WCLocProtErr {
		t.Errorf("a write from memory that is gone: %v", wc.Status)
	}
	ok(t, implicit.Close())
}

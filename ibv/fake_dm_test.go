package ibv

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"syscall"
	"testing"
)

func TestFake_DM(t *testing.T) {
	set(t, "max_dm_size", 4096)
	s := fakeSide(t, nil)
	dm := closing(t, must(s.dev.AllocDM(1024, &DMOptions{LogAlign: 7}))(t))
	if got := get(t, "dm.log_align"); got != 7 || dm.Len() != 1024 || dm.Device() != s.dev {
		t.Errorf("%d bytes, aligned to 2^%d", dm.Len(), got)
	}
	want := bytes.Repeat([]byte("0123"), 4)
	if n, err := dm.WriteAt(want, 1008); n != 16 || err != nil {
		t.Errorf("WriteAt: %d, %v", n, err)
	}
	got := make([]byte, 32)
	for _, c := range []struct {
		n    int
		off  int64
		want int
		err  error
	}{
		{16, 1008, 16, nil}, {32, 1008, 16, io.EOF}, {32, 1024, 0, io.EOF}, {32, math.MaxInt64, 0, io.EOF},
		{0, 0, 0, nil},
	} {
		clear(got)
		n, err := dm.ReadAt(got[:c.n], c.off)
		if n != c.want || err != c.err || !bytes.Equal(got[:n], want[:n]) {
			t.Errorf("ReadAt of %d at %d: %d, %v, %q", c.n, c.off, n, err, got)
		}
	}

	// What is refused here never gets to the library.
	failing(t, "memcpy_to_dm", syscall.EIO)
	failing(t, "memcpy_from_dm", syscall.EIO)
	for _, c := range []struct {
		n   int
		off int64
	}{{4, -4}, {4, 1021}, {1028, 0}, {4, math.MaxInt64}, {0, 1025}} {
		n, err := dm.WriteAt(make([]byte, c.n), c.off)
		if n != 0 {
			t.Errorf("WriteAt wrote %d", n)
		}
		wantArg(t, err, "off")
	}
	_, err := dm.ReadAt(got, -1)
	wantArg(t, err, "off")
	_, err = dm.WriteAt(want, 0)
	wantErr(t, err, syscall.EIO, "write dm")
	_, err = dm.ReadAt(got, 0)
	wantErr(t, err, syscall.EIO, "read dm")
	unset(t, "fail.memcpy_to_dm")
	unset(t, "fail.memcpy_from_dm")
	_, err = dm.WriteAt(want[:3], 0)
	wantArg(t, err, "off")
	wantErr(t, err, syscall.EINVAL, "words of 4 bytes")
	_, err = dm.ReadAt(got[:4], 2)
	wantErr(t, err, syscall.EINVAL, "words of 4 bytes")

	for _, c := range []struct{ size, align int }{{0, 0}, {-1, 0}, {64, -1}, {64, 64}} {
		_, err := s.dev.AllocDM(c.size, &DMOptions{LogAlign: c.align})
		wantArg(t, err, "")
	}
	_, err = s.dev.AllocDM(4097, nil)
	var le *LimitError
	if !errors.As(err, &le) {
		t.Errorf("%v, want a *LimitError", err)
	}
	wantErr(t, err, syscall.EINVAL, "max_dm_size 4097 exceeds the limit of fake0 (4096)")
	failing(t, "alloc_dm", syscall.ENOMEM)
	_, err = s.dev.AllocDM(64, nil)
	wantErr(t, err, syscall.ENOMEM, "PD.AllocMR")
}

func TestFake_RegDM(t *testing.T) {
	set(t, "max_dm_size", 4096)
	s := fakeSide(t, nil)
	dm := closing(t, must(s.dev.AllocDM(1024, nil))(t))
	mr := must(s.pd.RegDM(dm, 64, 960, LocalWrite|RemoteWrite|RelaxedOrdering))(t)
	if a := AccessFlags(get(t, "last.access")); a != LocalWrite|RemoteWrite|ZeroBased {
		t.Errorf("access %v", a)
	}
	if mr.Addr() != 0 || mr.Len() != 960 || mr.Bytes() != nil || mr.SGE(960, 1).Length <= MaxSGELength {
		t.Errorf("%d bytes at %#x", mr.Len(), mr.Addr())
	}
	wantErr(t, dm.Close(), syscall.EBUSY, "1 mr")
	wantErr(t, mr.Rereg(&ReregOptions{Buf: make([]byte, 8)}), syscall.EINVAL, "device memory")

	// The bytes of a work request are those of the memory.
	s.newQP(t, nil)
	ok(t, s.qp.Connect(must(s.qp.Endpoint(1, 1))(t), nil))
	fill(s.mr.Bytes()[:64], 3)
	post(t, s.qp, SendWR{Opcode: OpWrite, Flags: Signaled, SGEs: []SGE{s.mr.SGE(0, 64)}, Remote: mr.Remote().At(128)})
	s.good(t, 0)
	got := make([]byte, 64)
	must(dm.ReadAt(got, 64+128))(t)
	same(t, got, 3)
	ok(t, mr.Close())

	failing(t, "reg_dm_mr", syscall.EIO)
	for _, c := range [][2]int{{-1, 64}, {0, 0}, {0, 1025}, {1024, 1}, {64, math.MaxInt}, {math.MaxInt, 1}} {
		_, err := s.pd.RegDM(dm, c[0], c[1], LocalWrite)
		wantArg(t, err, "range")
	}
	_, err := s.pd.RegDM(nil, 0, 64, LocalWrite)
	wantArg(t, err, "dm")
	other := closing(t, must(Open("fake1"))(t))
	pd := closing(t, must(other.AllocPD())(t))
	_, err = pd.RegDM(dm, 0, 64, LocalWrite)
	wantArg(t, err, "dm")
	_, err = s.pd.RegDM(dm, 0, 64, AccessNone)
	wantArg(t, err, "access")
	unset(t, "fail.reg_dm_mr")
	_, err = s.pd.RegDM(dm, 0, 64, LocalWrite|OnDemand)
	wantArg(t, err, "access")

	closed := must(s.dev.AllocDM(64, nil))(t)
	failing(t, "free_dm", syscall.EIO)
	wantErr(t, closed.Close(), syscall.EIO)
	unset(t, "fail.free_dm")
	ok(t, closed.Close())
	ok(t, closed.Close())
	_, err = s.pd.RegDM(closed, 0, 64, LocalWrite)
	wantErr(t, err, ErrClosed)
	_, err = closed.WriteAt(nil, 0)
	wantErr(t, err, ErrClosed)
	_, err = closed.ReadAt(nil, 0)
	wantErr(t, err, ErrClosed)
	_, err = closed.Handle()
	wantErr(t, err, ErrClosed)
}

// A device without memory of its own, and a library without the verb, say so.
func TestFake_NoDM(t *testing.T) {
	s := fakeSide(t, nil)
	_, err := s.dev.AllocDM(64, nil)
	wantUnsupported(t, err, "fake0", "PD.AllocMR")
	failing(t, "query_device_ex", syscall.EOPNOTSUPP)
	dev := closing(t, must(Open("fake1"))(t))
	failing(t, "alloc_dm", syscall.EOPNOTSUPP)
	_, err = dev.AllocDM(64, nil)
	wantUnsupported(t, err, "fake1", "PD.AllocMR")
}

func TestFake_DMOldLibrary(t *testing.T) {
	inChild(t, variant(t, "OLD=15"), nil, func(t *testing.T) {
		set(t, "max_dm_size", 4096)
		s := fakeSide(t, nil)
		_, err := s.dev.AllocDM(64, nil)
		wantUnsupported(t, err, "v18")
		wantUnsupported(t, s.pd.Advise(AdvicePrefetch, true, s.mr.SGE(0, 8)), "v22")
		_, err = s.pd.RegDmabuf(0, 0, 64, 0, LocalWrite)
		wantUnsupported(t, err, "v34", "ibv_reg_dmabuf_mr")
		_, err = s.dev.ImportPD(1)
		wantUnsupported(t, err, "v31", "ibv_import_pd")
		_, err = s.pd.ImportMR(1, 0)
		wantUnsupported(t, err, "v31")
		_, err = s.dev.ImportDM(1, 64)
		wantUnsupported(t, err, "v35")
		before := descriptors(t)
		_, err = ImportDevice(os.Stdin)
		wantUnsupported(t, err, "v31")
		if n := descriptors(t); n != before {
			t.Errorf("%d descriptors, %d before", n, before)
		}
	})
}

func TestFake_Dmabuf(t *testing.T) {
	s := fakeSide(t, nil)
	f := must(os.Open(os.DevNull))(t)
	fd := int(f.Fd())
	mr := must(s.pd.RegDmabuf(fd, 8192+64, 1024, 4096+64, LocalWrite|RemoteRead))(t)
	ok(t, f.Close()) // the kernel keeps the buffer
	if off := get(t, "dmabuf.off"); off != 8192+64 || mr.Addr() != 4096+64 || mr.Len() != 1024 || mr.Bytes() != nil {
		t.Errorf("%d bytes at %#x of offset %d", mr.Len(), mr.Addr(), off)
	}
	wantErr(t, mr.Rereg(&ReregOptions{PD: s.pd}), syscall.EINVAL, "dma-buf")
	ok(t, mr.Close())
	for _, c := range []struct {
		fd, length int
		off, iova  uint64
		access     AccessFlags
		arg        string
	}{
		{-1, 64, 0, 0, LocalWrite, "fd"},
		{0, 0, 0, 0, LocalWrite, "length"},
		{0, -1, 0, 0, LocalWrite, "length"},
		{0, 64, math.MaxUint64, math.MaxUint64, LocalWrite, "off"},
		{0, 64, 0, 8, LocalWrite, "iova"},
		{0, 64, 0, 0, AccessNone, "access"},
	} {
		_, err := s.pd.RegDmabuf(c.fd, c.off, c.length, c.iova, c.access)
		wantArg(t, err, c.arg)
	}
	_, err := s.pd.RegDmabuf(1<<20, 0, 64, 0, LocalWrite)
	wantErr(t, err, syscall.EBADF, "descriptor 1048576 is not open")
	_, err = s.pd.RegDmabuf(0, 0, 1<<20, 0, LocalWrite)
	wantErr(t, err, syscall.EINVAL, "not a dma-buf")
	failing(t, "ibv_reg_dmabuf_mr", syscall.EOPNOTSUPP)
	_, err = s.pd.RegDmabuf(0, 0, 64, 0, LocalWrite)
	wantUnsupported(t, err, "fake0")
	pd := must(s.dev.AllocPD())(t)
	ok(t, pd.Close())
	_, err = pd.RegDmabuf(0, 0, 64, 0, LocalWrite)
	wantErr(t, err, ErrClosed)
}

func TestFake_Advise(t *testing.T) {
	s := fakeSide(t, nil)
	for _, wait := range []bool{false, true} {
		ok(t, s.pd.Advise(AdvicePrefetchWrite, wait, s.mr.SGE(0, 64), s.mr.SGE(64, 36)))
		a, f, n, sum := get(t, "advise.advice"), get(t, "advise.flags"), get(t, "advise.n"), get(t, "advise.bytes")
		if a != 1 || (f == 1) != wait || n != 2 || sum != 100 {
			t.Errorf("advice %d, flags %d, %d SGEs of %d bytes", a, f, n, sum)
		}
	}
	failing(t, "advise_mr", syscall.EOPNOTSUPP)
	wantArg(t, s.pd.Advise(AdvicePrefetch, true), "sges")
	wantArg(t, s.pd.Advise(AdvicePrefetch, true, s.mr.SGE(0, 8), s.mr.SGE(-1, 8)), "SGE 1")
	wantUnsupported(t, s.pd.Advise(AdvicePrefetchNoFault, true, s.mr.SGE(0, 8)), "PrefetchNoFault", "fake0")
	wantArg(t, s.pd.Advise(17, true, s.mr.SGE(0, 8)), "advice")
	failing(t, "advise_mr", syscall.EFAULT)
	wantErr(t, s.pd.Advise(AdvicePrefetch, true, s.mr.SGE(0, 8)), syscall.EFAULT, "advise mr")
	pd := must(s.dev.AllocPD())(t)
	ok(t, pd.Close())
	wantErr(t, pd.Advise(AdvicePrefetch, true, s.mr.SGE(0, 8)), ErrClosed)
}

func TestFake_OnDemand(t *testing.T) {
	s := fakeSide(t, nil)
	_, err := s.pd.RegImplicit(LocalWrite)
	wantUnsupported(t, err, "fake0", "whole address space")
	failing(t, "ibv_reg_mr", syscall.EOPNOTSUPP)
	_, err = s.pd.AllocMR(4096, LocalWrite|OnDemand, nil)
	wantUnsupported(t, err, "fake0", "register without OnDemand")
	unset(t, "fail.ibv_reg_mr")
	set(t, "odp.general", int(ODPSupport|ODPImplicit))
	dev := closing(t, must(Open("fake1"))(t))
	pd := closing(t, must(dev.AllocPD())(t))
	mr := must(pd.RegImplicit(LocalWrite))(t)
	if a := AccessFlags(get(t, "last.access")); a != LocalWrite|OnDemand || mr.Addr() != 0 || mr.Bytes() != nil {
		t.Errorf("access %v at %#x", a, mr.Addr())
	}
	if sge := mr.SGE(1<<46, 64); sge.Addr != 1<<46 || sge.Length != 64 || sge.LKey != mr.LKey() {
		t.Errorf("%+v", sge)
	}
	wantErr(t, mr.Rereg(&ReregOptions{PD: pd}), syscall.EINVAL, "whole address space")
	ok(t, mr.Close())
}

func wantArg(t *testing.T, err error, arg string) {
	t.Helper()
	var ae *ArgError
	if !errors.As(err, &ae) || arg != "" && ae.Arg != arg {
		t.Errorf("%v, want an *ArgError of %q", err, arg)
	}
}

func wantUnsupported(t *testing.T, err error, words ...string) {
	t.Helper()
	var ue *UnsupportedError
	if !errors.As(err, &ue) {
		t.Errorf("%v, want an *UnsupportedError", err)
	}
	wantErr(t, err, ErrNotSupported, words...)
}
